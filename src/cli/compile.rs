//! From a task file to plans on disk: what `plan` always does, and `replay` where something is missing or stale.

use super::options::ActivationType;
use super::output;
use crate::backend::cpu::simd::Isa;
use crate::backend::cuda::architecture;
use crate::backend::cuda::raw::{Facts, probe};
use crate::bench::{choice, report};
use crate::board::{BackendKind, BoardRecord};
use crate::plan::deployment::Deployment;
use crate::plan::format::Digest;
use crate::planner::optable::{self, OpTable};
use crate::planner::simulate::Calibration;
use crate::planner::tasks::Tasks;
use crate::planner::{self, CompileOptions, Compiled, Progress, Searcher};
use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// How networks are compiled. The options are part of what a plan is made from: other options, another plan.
#[derive(Args)]
pub struct HowToCompile {
    /// How operators are ordered and put on streams [default: auxiliary; platoon where plans are measured]
    #[arg(long, value_enum)]
    searcher: Option<SearcherName>,
    /// Seed of searchers that draw lots
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Schedules that a searcher may look at
    #[arg(long, default_value_t = planner::BUDGET, value_name = "N")]
    budget: u64,
    /// Accept plans that are predicted to miss deadlines, and store the misses (always so for board host)
    #[arg(long)]
    best_effort: bool,
    /// Type that activations are stored in [default: f32 on the CPU backend, f16 on GPU boards]
    #[arg(long, value_enum)]
    dtype: Option<ActivationType>,
    /// Extent of axes that a network leaves symbolic
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SearcherName {
    /// One network after another on one stream
    Sequential,
    /// A stream for each network
    Streams,
    /// A stream for each network, and auxiliary ones on a GPU for what waits for nothing of each other in one
    Auxiliary,
    /// Barriers across all networks and their issue order (AutoMT)
    Barriers,
    /// A launch width for each network (competitive sharing)
    Shares,
    /// SMs of its own for each stream (on GPUs of sm_90 and newer)
    Apart,
    /// Chunks next to where the board lies idle (half of GACER)
    Spatial,
    /// Sync points that cut the networks into segments (the other half)
    Temporal,
    /// Chunks and sync points together (GACER)
    Gacer,
    /// All of these, then everything they may change and more
    Platoon,
}

impl SearcherName {
    fn searcher(self) -> Searcher {
        match self {
            SearcherName::Sequential => Searcher::Sequential,
            SearcherName::Streams => Searcher::Streams,
            SearcherName::Auxiliary => Searcher::Auxiliary,
            SearcherName::Barriers => Searcher::Barriers,
            SearcherName::Shares => Searcher::Shares,
            SearcherName::Apart => Searcher::Apart,
            SearcherName::Spatial => Searcher::Spatial,
            SearcherName::Temporal => Searcher::Temporal,
            SearcherName::Gacer => Searcher::Gacer,
            SearcherName::Platoon => Searcher::Platoon,
        }
    }
}

impl HowToCompile {
    /// The planner's options for a board, with its measured times if there are any.
    pub fn options(&self, board: &BoardRecord) -> anyhow::Result<CompileOptions> {
        Ok(CompileOptions {
            times: measured(board)?,
            calibration: calibration(board)?,
            searcher: self.searcher.unwrap_or(SearcherName::Auxiliary).searcher(),
            seed: self.seed,
            budget: self.budget,
            progress: bar(),
            best_effort: self.best_effort,
            dtype: ActivationType::dtype(self.dtype, board),
            batch: self.batch,
            undivided: is_driver_too_old(board),
            ..CompileOptions::default()
        })
    }

    /// True if a method of search is asked for: then a plan that is there does not do.
    pub fn searches(&self) -> bool {
        self.searcher.is_some()
    }

    /// The planner's options where a measurement will decide between plans: all methods search, unless one was named, and
    /// give their best few.
    pub fn options_to_measure(&self, board: &BoardRecord) -> anyhow::Result<CompileOptions> {
        Ok(CompileOptions {
            searcher: self.searcher.unwrap_or(SearcherName::Platoon).searcher(),
            rivals: choice::MOST,
            ..self.options(board)?
        })
    }
}

/// True on a machine with the board's GPU, whose driver sets no SMs aside: its plans would not run here.
fn is_driver_too_old(board: &BoardRecord) -> bool {
    let old = |gpu: Facts| !gpu.sets_sms_aside() && architecture::runs_on(&board.architecture, gpu.capability);
    board.backend == BackendKind::Cuda && probe().is_ok_and(old)
}

/// A bar for the searcher, which is drawn where there is a terminal and something to search.
fn bar() -> Progress {
    let bar = OnceLock::new();
    Progress::new(move |looked_at, budget| {
        let bar = bar.get_or_init(|| ProgressBar::new(budget));
        if bar.length() != Some(budget) {
            bar.set_length(budget);
        }
        bar.set_position(looked_at);
        if looked_at >= budget {
            bar.finish_and_clear();
        }
    })
}

/// What the simulator's rules weigh on a board, from the folder `boards`.
pub fn calibration(board: &BoardRecord) -> anyhow::Result<Option<Calibration>> {
    Ok(Calibration::load(&Calibration::path(Path::new("boards"), board), board)?)
}

/// The measured times of a board, from the folder `boards`. Those of a processor are refused on another.
pub fn measured(board: &BoardRecord) -> anyhow::Result<Option<Arc<OpTable>>> {
    let file = optable::path(Path::new("boards"), board);
    let table = OpTable::load(&file, board)?;
    if let Some(table) = table.as_ref().filter(|_| board.backend == BackendKind::Cpu) {
        let (there, here) = (&table.provenance.gpu, processor());
        anyhow::ensure!(
            *there == here,
            "{}: measured on a processor `{there}`, this one is `{here}`: measure again with `platoon profile --board {}`",
            file.display(),
            board.name
        );
    }
    Ok(table.map(Arc::new))
}

/// This machine's processor as tables name it: with the instructions that its kernels use.
pub fn processor() -> String {
    format!("{}, {}", report::processor_here(), Isa::detect().name())
}

/// Compiles the named task sets and writes them to `folder`, telling `progress` the name of each before its turn. What was
/// compiled passes through `choose` before it is written.
pub fn compile(
    tasks: &Tasks,
    names: &[&str],
    board: &BoardRecord,
    options: &CompileOptions,
    folder: &Path,
    mut progress: impl FnMut(&str),
    choose: impl Fn(Compiled) -> anyhow::Result<Compiled>,
) -> anyhow::Result<Vec<Compiled>> {
    let mut compiled = Vec::new();
    for name in names {
        progress(name);
        let within = || format!("task set `{name}`");
        let set = planner::compile_task_set(tasks, name, board, options).with_context(within)?;
        compiled.push(choose(set).with_context(within)?);
    }
    let gone = planner::write_deployment(folder, tasks, board, &compiled)?;
    if !gone.is_empty() {
        output::complain(&format!(
            "{}: plans removed that {} does not ask for with these cameras: {} (another folder, --plans, keeps plans of several task files)",
            folder.display(),
            tasks.path.display(),
            gone.join(", ")
        ));
    }
    Ok(compiled)
}

/// What [`stale`] finds.
pub struct Stale<'a> {
    /// The task sets to compile.
    pub sets: Vec<&'a str>,
    /// What the wanted one is made from, where its plan was held against that.
    pub source: Option<Digest>,
}

/// The task sets to compile before `wanted` can run from `folder`: it, and every other one the table there holds, where
/// the task file, the models, the board or the options are no longer what their plans were made from; and `wanted` in any case
/// where it is to be searched for anew.
pub fn stale<'a>(
    tasks: &'a Tasks,
    wanted: &'a str,
    board: &BoardRecord,
    options: &CompileOptions,
    searches: bool,
    folder: &Path,
) -> anyhow::Result<Stale<'a>> {
    let unseen = |sets| Ok(Stale { sets, source: None });
    let all = || tasks.sets.keys().map(String::as_str);
    let deployment = match Deployment::load(folder) {
        Ok(deployment) => deployment,
        // A table that does not load may fail for any of its plans.
        Err(_) if folder.join("table").exists() => return unseen(all().collect()),
        Err(_) => return unseen(vec![wanted]),
    };
    let table = &deployment.table;
    let default_agrees = table.default_task_set == tasks.default || !table.entries.iter().any(|e| e.task_set == tasks.default);
    let table_agrees = table.slots == tasks.slots && default_agrees;
    let (mut stale, mut wanted_source) = (Vec::new(), None);
    for name in all() {
        let plan = deployment.plans.iter().find(|p| p.task_set == name);
        let fresh = match plan {
            None => name != wanted,
            Some(plan) => {
                let source = planner::source_digest(tasks, name, board, options).with_context(|| format!("task set `{name}`"))?;
                if name == wanted {
                    wanted_source = Some(source);
                }
                plan.source == source && (table_agrees && !searches || name != wanted)
            }
        };
        if !fresh {
            stale.push(name);
        }
    }
    Ok(Stale {
        sets: stale,
        source: wanted_source,
    })
}
