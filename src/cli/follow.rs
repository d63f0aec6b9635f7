//! `platoon bench --follow`: one network of the table as a process under MPS.

use super::gpu;
use super::options::Common;
use crate::backend::Wait;
use crate::bench::table::follow;
use crate::bench::table::rows::Row;
use crate::board::BoardRecord;
use crate::planner::CompileOptions;
use crate::runtime;
use std::io;

/// Runs the one network of a process under MPS, planned for as many SMs as it is given, with the tactics of the whole board.
pub fn run(common: &Common, network: &str, board: &BoardRecord, options: &CompileOptions) -> anyhow::Result<()> {
    let sms = gpu::sms()?;
    let own = BoardRecord {
        name: format!("{}-mps{sms}", board.name),
        units: sms,
        ..board.clone()
    };
    let row = Row::of(network, None)?;
    let compiled = row.compile(&own, options, 0)?;
    let engine = runtime::Options {
        wait: Wait::Spin,
        ..common.engine_options(&own)
    };
    let mut stage = row.open(compiled, &own, &engine)?;
    let followed = follow::follow(&mut stage, sms, io::stdin().lock(), io::stdout().lock());
    stage.close();
    Ok(followed?)
}
