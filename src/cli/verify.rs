//! `platoon verify`: whether a plan file holds, and whether the GPU computes what the processor does.

use super::inspect::{read_bounded, read_plan};
use super::options::Common;
use super::{Outcome, gpu, output};
use crate::bench::agree::{Agreement, Deviation, agree};
use crate::board::BackendKind;
use crate::ids::PlanId;
use crate::limits::MAX_PLAN_FILE;
use crate::plan::check::check;
use crate::plan::deployment::Deployment;
use crate::plan::format::Digest;
use crate::plan::table::Table;
use crate::plan::weights::WeightStore;
use anyhow::{Context, bail};
use clap::Args;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  platoon verify plans/host/urban.plan
  platoon verify plans/h200/urban.plan         where there is a GPU, its results too

Checks the file's form and checksum, the plan's invariants (references, chunks, order, reads, memory, shapes,
prediction), the weight files beside it by their digests, and the table beside it, if there is one. A plan for a GPU
that is at hand is run too: every operator on its own, on what the processor's operators read, and its results
compared with the processor's. The first operators that differ are named, and the exit code is then 1. With --backend
it is run there in any case.")]
pub struct Arguments {
    /// The plan file
    #[arg(value_name = "FILE.plan")]
    file: PathBuf,
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let file = &arguments.file;
    let name = || file.display().to_string();
    let plan = check(read_plan(file)?).with_context(name)?;
    let mut lines = vec![
        format!("file      format and checksum hold: {}", file.display()),
        format!(
            "plan      the invariants P1 to P6 and P8 hold: {} tenants, {} operators, {} frames in its cycle",
            plan.tenants.len(),
            plan.operators.len(),
            plan.cycle.len()
        ),
    ];
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut store = WeightStore::new();
    for record in &plan.weight_files {
        let path = folder.join("weights").join(record.digest.to_string());
        store.map(&path, record).with_context(|| path.display().to_string())?;
        lines.push(format!("weights   {} bytes match their digest: {}", record.bytes, path.display()));
    }
    let path = folder.join("table");
    if path.exists() {
        let table = Table::decode(&read_bounded(&path, MAX_PLAN_FILE)?).with_context(|| path.display().to_string())?;
        let digest = Digest::of(&read_bounded(file, MAX_PLAN_FILE)?);
        let Some(entry) = table.entries.iter().find(|e| e.task_set == plan.task_set) else {
            bail!("{}: has no plan for the task set `{}`", path.display(), plan.task_set);
        };
        if entry.digest != digest {
            bail!(
                "{}: names another plan for the task set `{}` than {}: compile again",
                path.display(),
                plan.task_set,
                file.display()
            );
        }
        lines.push(format!(
            "table     names this plan, for board `{}`: {}",
            table.board.name,
            path.display()
        ));
        let compared = compare(common, folder, &plan.task_set, &mut lines)?;
        output::print(&lines.join("\n"))?;
        return Ok(compared);
    }
    lines.push("table     there is none beside the plan: not checked, and nothing compared".into());
    output::print(&lines.join("\n"))?;
    Ok(Outcome::Good)
}

/// Operators that are named if they differ.
const SHOWN: usize = 10;

/// Runs the plan's operators where it is meant to run, or where that was asked for, and says how they agree.
fn compare(common: &Common, folder: &Path, task_set: &str, lines: &mut Vec<String>) -> anyhow::Result<Outcome> {
    let deployment = Deployment::load(folder)?;
    let board = &deployment.table.board;
    let position = deployment.plans.iter().position(|p| p.task_set == task_set);
    let plan = position
        .and_then(PlanId::from_index)
        .context("the table has no plan of this task set")?;
    if !common.names_backend() {
        if board.backend == BackendKind::Cpu {
            return Ok(Outcome::Good);
        }
        if let Some(reason) = gpu::absent() {
            lines.push(format!("gpu       not compared: {reason}"));
            return Ok(Outcome::Good);
        }
    }
    let bar = ProgressBar::new(deployment.plans[plan.index()].operators.len() as u64);
    let agreement = agree(&deployment, plan, &common.engine_options(board), &mut |done| {
        bar.set_position(done as u64)
    });
    bar.finish_and_clear();
    let agreement = agreement?;
    lines.push(summary(&agreement, common.backend(board)));
    lines.extend(agreement.wrong.iter().take(SHOWN).map(told));
    if let Some(more) = agreement.wrong.len().checked_sub(SHOWN).filter(|&n| n > 0) {
        lines.push(format!("          and {more} more"));
    }
    Ok(match agreement.wrong.is_empty() {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

fn summary(agreement: &Agreement, backend: BackendKind) -> String {
    let name = match backend {
        BackendKind::Cpu => "cpu",
        BackendKind::Cuda => "gpu",
    };
    let good = agreement.operators - agreement.wrong.len();
    let worst = agreement.worst.as_ref().map_or(String::new(), |w| {
        format!(
            "; the largest deviation is {:.2} of what is allowed, in {}",
            w.of_allowed, w.operator
        )
    });
    format!(
        "{name:<9} {good} of {} operators agree with the processor, {} of them in every bit{worst}",
        agreement.operators, agreement.same_bits
    )
}

/// A deviation in a line.
fn told(d: &Deviation) -> String {
    format!(
        "  differs operator {} ({}) of tenant {}, kernel {}: element {} of output {} is {}, the processor has {}",
        d.number, d.operator, d.tenant, d.kernel, d.at.1, d.at.0, d.gpu, d.cpu
    )
}
