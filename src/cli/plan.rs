//! `platoon plan`: task sets to plans.

use super::options::Common;
use super::{Outcome, compile, gpu, output, what_if};
use crate::backend::cuda::archive;
use crate::backend::cuda::compile::Compiler;
use crate::bench::choice::{self, Clock};
use crate::board::{BackendKind, BoardRecord};
use crate::plan::format::{Basis, Plan};
use crate::planner::what_if::Change;
use crate::planner::{CompileOptions, Compiled};
use crate::runtime;
use anyhow::{Context, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  platoon plan                                 every task set of plans/tasks.toml, for this machine
  platoon plan --task-set urban                one task set
  platoon plan --board boards/box.toml         for another board
  platoon plan --board jetson-agx-orin --power-mode MODE_30W --complete --nvrtc /opt/cuda-12.6/lib64
                                               for a slower mode of it, with the kernels that it needs
  platoon plan --board h200 --searcher platoon --budget 50000
                                               search for the schedule that the simulator finds shortest
  platoon plan --measure                       search by every method, run the best of each and the
                                               baselines in turns, and keep the fastest
  platoon plan --measure --refine 30           the same, and go on from the fastest: change them, run the changed ones
                                               too, for 30 seconds
  platoon plan --task-set urban --what-if drop:surface --what-if board:jetson-agx-orin
                                               what each change would do to its frame; nothing is written

Plans go to <plans>/<board>/: <task-set>.plan, table, weights/. Times are simulated, from the board's measured
operators or from estimates; --measure and a replay measure. The fastest has the shortest p99, then the shortest
median, of whole frames of noise. Planning for a GPU's board needs no GPU. On the CPU backend --dtype f16 is there for
judging accuracy: plain reference kernels compute it, about a hundred times slower than f32, which the estimates do
not know.")]
pub struct Arguments {
    /// A task set to compile; may be given several times [default: all of the file]
    #[arg(long, value_name = "NAME")]
    task_set: Vec<String>,
    #[command(flatten)]
    compile: compile::HowToCompile,
    /// Run the best plans of each searcher and the baselines on this machine, and keep the fastest
    #[arg(long)]
    measure: bool,
    /// Frames of each plan that are measured
    #[arg(long, value_name = "N", default_value_t = 200, requires = "measure", value_parser = clap::value_parser!(u32).range(1..))]
    frames: u32,
    /// Before that, change the plans that do best, and measure again, for so many seconds a task set; 0 for not at all
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "measure")]
    refine: u32,
    /// Say what a change would do to the predicted frame, and write nothing; may be given several times, each by itself:
    /// drop:TENANT, batch:TENANT:N (pictures or crops), board:NAME
    #[arg(long, value_name = "CHANGE", conflicts_with = "measure")]
    what_if: Vec<Change>,
    /// Compile the board's kernels too, where they are missing or of another version of this program
    #[arg(long)]
    complete: bool,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let board = common.board()?;
    let tasks = common.tasks()?;
    for name in &arguments.task_set {
        if !tasks.sets.contains_key(name) {
            bail!(
                "{}: no task set `{name}`; there are {}",
                tasks.path.display(),
                names(tasks.sets.keys())
            );
        }
    }
    let wanted: Vec<&str> = match arguments.task_set.as_slice() {
        [] => tasks.sets.keys().map(String::as_str).collect(),
        some => {
            let twice = |at: usize| some[..at].contains(&some[at]);
            (0..some.len()).filter(|&at| !twice(at)).map(|at| some[at].as_str()).collect()
        }
    };
    if !arguments.what_if.is_empty() {
        let changes = &arguments.what_if;
        let (text, outcome) = what_if::run(common, &tasks, &wanted, changes, &arguments.compile, arguments.json)?;
        output::print(&text)?;
        return Ok(outcome);
    }
    let folder = common.folder(&board);
    let options = match arguments.measure {
        true => CompileOptions {
            refine: arguments.refine > 0,
            ..arguments.compile.options_to_measure(&board)?
        },
        false => arguments.compile.options(&board)?,
    };
    let engine = common.engine_options(&board);
    let choose = |compiled: Compiled| match arguments.measure {
        true => measured(compiled, &board, &engine, arguments),
        false => Ok(compiled),
    };
    let told = |name: &str| log::info!("compiling {name}");
    let compiled = compile::compile(&tasks, &wanted, &board, &options, &folder, told, choose)?;
    let plans: Vec<&Plan> = compiled.iter().map(|c| &c.plan).collect();
    let kernels = kernels(common, &board, arguments.complete)?;
    if arguments.json {
        let rows: Vec<Value> = compiled.iter().map(figures).collect();
        let modelled = plans.iter().any(|p| p.prediction.basis == Basis::Estimated);
        let times = if modelled { "modelled" } else { "measured" };
        let all = json!({ "folder": folder, "kernels": kernels, "times": times, "plans": rows });
        output::print(&format!("{all:#}"))?;
    } else {
        output::print(&table(&plans))?;
        for table in [searchers(&compiled), measurements(&compiled)].into_iter().flatten() {
            output::print(&table)?;
        }
        if plans.iter().any(|p| p.prediction.basis == Basis::Estimated) {
            let (name, naming) = (&board.name, common.naming());
            output::print(&format!(
                "estimated times are modelled from the rates of board {name}, or from how fast tactics are on other operators, not measured: on the \
                 board, `platoon profile {naming}`"
            ))?;
        }
        output::print(&format!("written to {}", folder.display()))?;
        if let Some(file) = kernels {
            output::print(&format!("kernels in {}", file.display()))?;
        }
    }
    Ok(Outcome::Good)
}

/// The archive of kernels that a GPU's board will run the plans with; made now if it is missing and `make` says so, else asked
/// for on stderr.
fn kernels(common: &Common, board: &BoardRecord, make: bool) -> anyhow::Result<Option<PathBuf>> {
    if board.backend != BackendKind::Cuda {
        return Ok(None);
    }
    let serves = common.machine(board).and_then(|m| m.cuda);
    // Of a board that does not say, any toolkit's.
    let driver = serves.map_or(u32::MAX, |t| 1000 * u32::from(t.major) + 10 * u32::from(t.minor));
    let (folder, architecture) = (common.kernels(), &board.architecture);
    let missing = match archive::find(&folder, architecture, driver) {
        Ok(found) => return Ok(Some(folder.join(archive::file_name(architecture, found.toolkit())))),
        Err(missing) => missing,
    };
    if !make {
        let toolkit = serves.map_or_else(String::new, |t| format!(", by a toolkit up to {t}"));
        output::complain(&format!("{missing}{toolkit}, or with the plans by `platoon plan --complete`"));
        return Ok(None);
    }
    let compiler = Compiler::find(common.nvrtc.as_deref())?;
    if let Some(serves) = serves.filter(|&serves| !compiler.toolkit().runs_under(serves)) {
        bail!(
            "the driver of board {} serves CUDA {serves} and runs no kernels of the compiler at hand ({}): name an older one with --nvrtc",
            board.name,
            compiler.toolkit()
        );
    }
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    let made = gpu::make(&compiler, &folder, architecture, false, &|unit| {
        bar.set_message(format!("compiling kernels: {} is done", unit.name))
    });
    bar.finish_and_clear();
    Ok(Some(made?.file))
}

/// The fastest of a task set's plans.
fn measured(mut compiled: Compiled, board: &BoardRecord, engine: &runtime::Options, arguments: &Arguments) -> anyhow::Result<Compiled> {
    let elsewhere = "its plans cannot be measured here: they are on the machine that has the board";
    let name = compiled.plan.task_set.clone();
    let time = Duration::from_secs(arguments.refine.into());
    let inputs = Arc::new(choice::noise(&compiled.plan));
    choice::refine(&mut compiled, inputs.clone(), board, engine, time, |round| {
        log::info!("{name}: {}", round.told())
    })
    .context(elsewhere)?;
    let bar = ProgressBar::new(u64::from(arguments.frames));
    let chosen = choice::choose(compiled, (inputs, Clock::Frame), board, engine, arguments.frames as usize, |done| {
        bar.set_position(done as u64)
    });
    bar.finish_and_clear();
    chosen.context(elsewhere)
}

/// Names in backquotes, comma-separated.
pub fn names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

fn weight_bytes(plan: &Plan) -> u64 {
    plan.weight_files.iter().map(|w| w.bytes).sum()
}

fn basis(plan: &Plan) -> &'static str {
    match plan.prediction.basis {
        Basis::Estimated => "estimated",
        Basis::Measured => "measured",
    }
}

fn misses(plan: &Plan) -> usize {
    plan.prediction.frames.iter().map(|f| f.misses.len()).sum()
}

fn table(plans: &[&Plan]) -> String {
    let mut table = output::Table::new(&[
        "task set",
        "tenants",
        "operators",
        "weights MB",
        "arena MB",
        "searcher",
        "longest ms",
        "",
        "expected misses",
    ]);
    for plan in plans {
        table.row([
            plan.task_set.clone(),
            plan.tenants.len().to_string(),
            plan.operators.len().to_string(),
            output::megabytes(weight_bytes(plan)),
            output::megabytes(plan.arena_bytes),
            plan.searcher.clone(),
            format!("{:.2}", plan.prediction.longest().as_ms()),
            basis(plan).into(),
            misses(plan).to_string(),
        ]);
    }
    table.render()
}

/// What each searcher found for each task set, where more than one was at work.
fn searchers(compiled: &[Compiled]) -> Option<String> {
    let mut table = output::Table::new(&["task set", "searcher", "mean ms", "late ms"]);
    let searched = || compiled.iter().filter(|c| c.report.searchers.len() > 1);
    for (one, found) in searched().flat_map(|c| c.report.searchers.iter().map(move |s| (c, s))) {
        table.row([
            one.plan.task_set.clone(),
            found.searcher.into(),
            format!("{:.3}", found.frame_ms),
            format!("{:.3}", found.late_ms),
        ]);
    }
    searched().next().map(|_| table.render())
}

/// What was measured of each task set's plans.
fn measurements(compiled: &[Compiled]) -> Option<String> {
    let mut table = output::Table::new(&["task set", "measured", "predicted ms", "measured p50", "p99", ""]);
    let all = || {
        compiled
            .iter()
            .flat_map(|c| c.report.measured.iter().enumerate().map(move |(i, m)| (c, i, m)))
    };
    for (one, place, found) in all() {
        table.row([
            one.plan.task_set.clone(),
            found.searcher.clone(),
            format!("{:.3}", found.predicted_ms),
            format!("{:.3}", found.p50_ms),
            format!("{:.3}", found.p99_ms),
            match (place, found.identical) {
                (0, _) => "kept".into(),
                (_, true) => String::new(),
                (_, false) => "other bits: not kept".into(),
            },
        ]);
    }
    all().next().map(|_| table.render())
}

fn figures(compiled: &Compiled) -> Value {
    let plan = &compiled.plan;
    json!({
        "task_set": plan.task_set,
        "tenants": plan.tenants.len(),
        "operators": plan.operators.len(),
        "weight_bytes": weight_bytes(plan),
        "arena_bytes": plan.arena_bytes,
        "predicted_ms": plan.prediction.longest().as_ms(),
        "prediction": basis(plan),
        "expected_misses": misses(plan),
        "searcher": plan.searcher,
        "looked_at": compiled.report.looked_at,
        "searchers": compiled.report.searchers,
        "measured": compiled.report.measured,
    })
}
