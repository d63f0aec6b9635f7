//! `platoon verify`: whether a plan file holds.

use super::inspect::{read_bounded, read_plan};
use super::{Outcome, output};
use crate::limits::MAX_PLAN_FILE;
use crate::plan::check::check;
use crate::plan::format::Digest;
use crate::plan::table::Table;
use crate::plan::weights::WeightStore;
use anyhow::{Context, bail};
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Example:
  platoon verify plans/host/urban.plan

Checks the file's form and checksum, the plan's invariants (references, chunks, order, reads, memory, shapes,
prediction), the weight files beside it by their digests, and the table beside it, if there is one.")]
pub struct Arguments {
    /// The plan file
    #[arg(value_name = "FILE.plan")]
    file: PathBuf,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
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
    } else {
        lines.push("table     there is none beside the plan: not checked".into());
    }
    output::print(&lines.join("\n"))?;
    Ok(Outcome::Good)
}
