//! `platoon profile`: the times of all tactics of operators on a board, a GPU or this machine's processor, which the planner then
//! chooses by.

use super::options::{ActivationType, Common};
use super::paces;
use super::{Outcome, compile, output};
use crate::backend::cuda::architecture::Toolkit;
use crate::backend::cuda::archive;
use crate::backend::cuda::raw;
use crate::bench::ours::deployment;
use crate::bench::tactics::{self, Extent, Progress};
use crate::bench::{BenchError, zoo};
use crate::board::{BackendKind, BoardRecord};
use crate::planner::optable::{self, OpTable, Provenance};
use crate::planner::{self, CompileOptions, Compiled, Ports, durable};
use crate::runtime;
use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  platoon profile --board h200                            the operators of all task sets of plans/tasks.toml
  platoon profile --board h200 --models r50,v16:1,m3      networks of the zoo, by name and batch
  platoon profile --board h200 --models net.onnx --budget 600
  platoon profile --board host                            on this machine's processor, with all of its cores
  platoon profile --board h200 --models r50,m3 --paces boards/paces/sm_90a   from known times, what networks that have none are planned by

Needs the board's GPU, or is the board. Every operator is run on its own with every tactic that can compute it, and the medians go to
boards/<board>/optable, from which plans are made from then on. Ended early, by --budget or by Ctrl-C, it goes on
where it was the next time; what is known already under the same kernels, compiler, driver and GPU, or under the same
program and processor, is not measured again.")]
pub struct Arguments {
    /// Networks to measure: names of the zoo, or ONNX files; a file's batch is the extent of axes that it leaves symbolic
    /// [default: the task file's task sets]
    #[arg(long, value_name = "NAME[:BATCH]|F.onnx[:BATCH]", value_delimiter = ',')]
    models: Vec<String>,
    /// A task set to measure; may be given several times
    #[arg(long, value_name = "NAME")]
    task_set: Vec<String>,
    /// Type that activations are stored in [default: f16; f32 on the CPU backend]
    #[arg(long, value_enum)]
    dtype: Option<ActivationType>,
    /// Seconds after which no further operators are begun [default: as long as it takes]
    #[arg(long, value_name = "SECONDS")]
    budget: Option<u64>,
    /// Date to note in the table
    #[arg(long, value_name = "TEXT", default_value = "")]
    date: String,
    /// Where the table goes [default: boards/<board>/optable]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    /// Measure nothing: fit the paces of the board's architecture to what the tables of all its boards know of the networks, and write
    /// them to FOLDER, a file for each number of SMs. Needs no GPU
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["budget", "date", "out", "json"])]
    paces: Option<PathBuf>,
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let deadline = tactics::deadline(arguments.budget.map(Duration::from_secs));
    let board = common.board()?;
    if let Some(folder) = &arguments.paces {
        return paces::run(&board, &|other| plans(common, arguments, other), folder);
    }
    if common.backend(&board) != board.backend {
        bail!("board {} is measured on what runs its plans: leave --backend out", board.name);
    }
    let file = arguments.out.clone().unwrap_or_else(|| optable::path(Path::new("boards"), &board));
    let engine = runtime::Options {
        workers: Some(common.workers.map_or(board.units as usize, NonZeroUsize::get)),
        ..common.engine_options(&board)
    };
    let provenance = provenance(common, &board, &arguments.date)?;
    let mut table = match OpTable::load(&file, &board)? {
        Some(known) if same_conditions(&known.provenance, &provenance) => known,
        Some(_) => {
            let file = file.display();
            output::complain(&format!(
                "{file}: measured with another GPU, driver, compiler or processor: begun anew"
            ));
            OpTable::new(provenance.clone())
        }
        None => OpTable::new(provenance.clone()),
    };
    table.provenance = provenance;
    table.forget_changed();
    let plans = plans(common, arguments, &board)?;
    let mut all = Progress::default();
    for compiled in plans {
        let name = compiled.plan.task_set.clone();
        let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len} operators, {eta} left")?;
        let bar = ProgressBar::new(compiled.plan.operators.len() as u64)
            .with_style(style)
            .with_message(name);
        let deployment = deployment(vec![compiled], &board)?;
        let mut save = |table: &OpTable, progress: Progress| {
            bar.set_length(progress.operators as u64);
            bar.set_position(progress.known as u64);
            write(&file, table)
        };
        let progress = tactics::measure(&deployment, Extent::Menus, &mut table, &engine, deadline, &mut save)?;
        bar.finish_and_clear();
        all.operators += progress.operators;
        all.known += progress.known;
    }
    write(&file, &table)?;
    if arguments.json {
        let done =
            json!({ "table": file, "times": table.len(), "operators": all.operators, "measured": all.known, "complete": all.complete() });
        output::print(&format!("{done:#}"))?;
    } else {
        let state = match all.complete() {
            true => "all are measured".to_owned(),
            false => format!("{} are left for the next time", all.operators - all.known),
        };
        output::print(&format!(
            "{}: {} times; of {} operators {state}",
            file.display(),
            table.len(),
            all.operators
        ))?;
    }
    Ok(Outcome::Good)
}

/// What the table is measured with.
fn provenance(common: &Common, board: &BoardRecord, date: &str) -> anyhow::Result<Provenance> {
    if board.backend == BackendKind::Cpu {
        return Ok(Provenance {
            board: board.name.clone(),
            architecture: board.architecture.clone(),
            units: board.units,
            gpu: compile::processor(),
            driver: Toolkit::NONE,
            toolkit: Toolkit::NONE,
            date: date.to_owned(),
        });
    }
    let facts = raw::probe()?;
    let archive = archive::find(&common.kernels(), &board.architecture, facts.driver)?;
    Ok(Provenance {
        board: board.name.clone(),
        architecture: board.architecture.clone(),
        units: board.units,
        gpu: facts.name,
        driver: Toolkit::from_number(facts.driver),
        toolkit: archive.toolkit(),
        date: date.to_owned(),
    })
}

/// True if times under the one may stand beside times under the other.
fn same_conditions(a: &Provenance, b: &Provenance) -> bool {
    (&a.gpu, a.driver, a.toolkit) == (&b.gpu, b.driver, b.toolkit)
}

/// The plans whose operators are measured.
fn plans(common: &Common, arguments: &Arguments, board: &BoardRecord) -> anyhow::Result<Vec<Compiled>> {
    let options = CompileOptions {
        dtype: ActivationType::dtype(arguments.dtype, board),
        best_effort: true,
        ..CompileOptions::default()
    };
    let mut plans = Vec::new();
    for model in &arguments.models {
        plans.push(network(model, board, &options)?);
    }
    if arguments.models.is_empty() || !arguments.task_set.is_empty() {
        let tasks = common.tasks()?;
        let names: Vec<&String> = match arguments.task_set.as_slice() {
            [] => tasks.sets.keys().collect(),
            some => some.iter().collect(),
        };
        for name in names {
            plans.push(planner::compile_task_set(&tasks, name, board, &options).with_context(|| format!("task set `{name}`"))?);
        }
    }
    Ok(plans)
}

/// A network of the zoo or an ONNX file, with its batch behind a colon.
fn network(model: &str, board: &BoardRecord, options: &CompileOptions) -> anyhow::Result<Compiled> {
    let (name, batch) = match model.rsplit_once(':').filter(|_| !model.ends_with(".onnx")) {
        Some((name, batch)) => {
            let batch = batch.parse::<u32>().ok().filter(|&b| b > 0);
            (
                name,
                Some(batch.with_context(|| format!("{model}: the batch is no number above 0"))?),
            )
        }
        None => (model, None),
    };
    if name.ends_with(".onnx") {
        let options = CompileOptions { batch, ..options.clone() };
        // Errors of files name them.
        return Ok(planner::compile_network(
            Path::new(name),
            BTreeMap::new(),
            BTreeMap::new(),
            board,
            &options,
        )?);
    }
    let known = || zoo::ALL.iter().map(|n| n.name).collect::<Vec<_>>().join(", ");
    let network = zoo::find(name).with_context(|| format!("{model}: no network of the zoo; there are {}", known()))?;
    let graph = network.model(batch.unwrap_or(network.batch)).graph;
    // As `bench --zoo` runs them: a first layer reads its picture as it comes.
    let options = CompileOptions {
        ports: Ports::Half,
        ..options.clone()
    };
    planner::compile_graph(model, graph, board, &options).with_context(|| model.to_owned())
}

/// Writes the table as a whole.
fn write(file: &Path, table: &OpTable) -> Result<(), BenchError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let made = std::fs::create_dir_all(folder).and_then(|()| durable::replace(file, table.render().as_bytes()));
    made.map_err(|error| BenchError::Write {
        file: file.to_path_buf(),
        error,
    })
}
