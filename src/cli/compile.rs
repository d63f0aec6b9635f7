//! From a task file to plans on disk: what `plan` always does, and `replay` where something is missing or stale.

use super::options::ActivationType;
use crate::board::BoardRecord;
use crate::plan::deployment::Deployment;
use crate::planner::tasks::Tasks;
use crate::planner::{self, CompileOptions, Compiled, PassSet, Searcher};
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::path::Path;

/// How networks are compiled. The options are part of what a plan is made from: other options, another plan.
#[derive(Args)]
pub struct Arguments {
    /// How operators are ordered and put on streams
    #[arg(long, value_enum, default_value = "streams")]
    searcher: SearcherName,
    /// Seed of searchers that draw lots
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Accept plans that are predicted to miss deadlines, and store the misses (always so for board host)
    #[arg(long)]
    best_effort: bool,
    /// Type that activations are stored in
    #[arg(long, value_enum, default_value = "f32")]
    dtype: ActivationType,
    /// Extent of axes that a network leaves symbolic
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SearcherName {
    /// One network after another on one stream
    Sequential,
    /// A stream for each network
    Streams,
}

impl Arguments {
    /// The planner's options for a board.
    pub fn options(&self, board: &BoardRecord) -> CompileOptions {
        CompileOptions {
            searcher: match self.searcher {
                SearcherName::Sequential => Searcher::Sequential,
                SearcherName::Streams => Searcher::Streams,
            },
            seed: self.seed,
            best_effort: self.best_effort || board.name == "host",
            dtype: self.dtype.dtype(),
            batch: self.batch,
            passes: PassSet::default(),
        }
    }
}

/// Compiles the named task sets and writes them to `folder`, telling `progress` the name of each before its turn.
pub fn compile(
    tasks: &Tasks,
    names: &[&str],
    board: &BoardRecord,
    options: &CompileOptions,
    folder: &Path,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<Vec<Compiled>> {
    let mut compiled = Vec::new();
    for name in names {
        progress(name);
        let set = planner::compile_task_set(tasks, name, board, options).with_context(|| format!("task set `{name}`"))?;
        compiled.push(set);
    }
    planner::write_deployment(folder, tasks, board, &compiled)?;
    Ok(compiled)
}

/// The task sets that have no plan in `folder` made from what the task file, the models, the board and the options are now.
pub fn stale<'a>(tasks: &'a Tasks, board: &BoardRecord, options: &CompileOptions, folder: &Path) -> anyhow::Result<Vec<&'a str>> {
    let deployment = Deployment::load(folder).ok();
    let mut stale = Vec::new();
    for name in tasks.sets.keys() {
        let source = planner::source_digest(tasks, name, board, options).with_context(|| format!("task set `{name}`"))?;
        let plan = deployment.as_ref().and_then(|d| d.plans.iter().find(|p| p.task_set == *name));
        if plan.is_none_or(|plan| plan.source != source) {
            stale.push(name.as_str());
        }
    }
    let table_agrees = deployment.as_ref().is_some_and(|d| d.table.default_task_set == tasks.default && d.table.slots == tasks.slots);
    if stale.is_empty() && !table_agrees {
        return Ok(tasks.sets.keys().map(String::as_str).collect());
    }
    Ok(stale)
}
