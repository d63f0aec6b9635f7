//! `platoon bench --loop`: the frame loop of task sets under a stopwatch.

use super::output;
use crate::bench::looped::{self, HEADINGS, Report};
use crate::bench::report::Provenance;
use crate::board::BoardRecord;
use crate::planner::Compiled;
use crate::runtime;
use indicatif::ProgressBar;
use serde_json::Value;

/// Runs `frames` counted frames of each task set on each way: the table, and everything as JSON.
pub fn measure(
    compiled: &[Compiled],
    board: &BoardRecord,
    engine: &runtime::Options,
    gpu: bool,
    frames: usize,
    provenance: Provenance,
) -> anyhow::Result<(String, Value)> {
    let ways = looped::ways(gpu);
    let mut report = Report {
        provenance,
        loops: Vec::with_capacity(compiled.len() * (ways.len() + 1)),
    };
    let bar = ProgressBar::new((compiled.len() * ways.len()) as u64);
    for one in compiled {
        let first = report.loops.len();
        for way in ways {
            bar.set_message(format!("{}: {}", one.plan.task_set, way.name));
            report.loops.push(looped::measure(one, board, engine, *way, frames)?);
            bar.inc(1);
        }
        let alone = looped::alone(&report.loops[first], frames);
        report.loops.push(alone);
    }
    bar.finish_and_clear();
    let mut table = output::Table::new(&HEADINGS);
    report.rows().into_iter().for_each(|row| table.row(row));
    Ok((format!("{}{}", table.render(), report.provenance.line()), report.json()))
}
