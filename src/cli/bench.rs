//! `platoon bench`: task sets or the zoo against a peer in the same run, and where their time goes.

use super::options::Common;
use super::table::{self, Peers, TableArguments};
use super::zoo::{self, Setting, ZooArguments};
use super::{Outcome, compile, follow, gpu, looped, output, zones};
use crate::backend::Wait;
use crate::bench::mixes::Mix;
use crate::bench::ours::Ours;
use crate::bench::peers::{Peer, PeerError};
use crate::bench::profile::{OperatorTime, profile};
use crate::bench::report::{HEADINGS, Provenance, Report};
use crate::bench::zoo::run::Group;
use crate::bench::{BenchError, choice, turns};
use crate::board::BackendKind;
use crate::board::BoardRecord;
use crate::planner::CompileOptions;
use crate::planner::tasks::Tasks;
use crate::runtime;
use clap::Args;
use indicatif::ProgressBar;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// Operators that a profile shows.
const SHOWN: usize = 15;
/// Counted frames of each side of a comparison, unless others are asked for.
const TURNS: usize = 40;
/// Counted frames of a loop: enough for ten beyond p99.9.
const LOOP: usize = 10_000;

#[derive(Args)]
#[command(after_help = "\
Examples:
  platoon bench                                    every task set of plans/tasks.toml against onnxruntime
  platoon bench --mix urban --peer .venv/bin/python --json bench.json
  platoon bench --profile urban                    the slowest operators of a task set
  platoon bench --profile urban/scout              or of one of its tenants
  platoon bench --zoo r50 d121:1 --dtype f16       networks with seeded weights against PyTorch
  platoon bench --zoo r50+v16+m3 --batch 1         three of them side by side
  platoon bench --zoo nets/detector.onnx           an own network; PyTorch runs nets/detector.pt2 (torch.export.save) beside it
  platoon bench --zoo r50+v16+m3 --board h200 --searcher platoon --rivals 2 --agree 200
                                                   their plans and 200 random ones beside the predictions
  platoon bench --zoo all --board h200 --gaps gaps.md  their operators beside the shortest times that the board allows
  platoon bench --zoo r101 --board h200 --refine 20  with tactics that a search by measurement found on the way
  platoon bench --zoo all --export weights/        their weights, inputs and results, to compare elsewhere
  platoon bench --loop --mix urban --board h200    what a frame costs the host, and how evenly frames take their time
  platoon bench --loop --zoo r50+v16+m3 --sms 16   the same of networks side by side, on 16 SMs
  platoon bench --table out --board h200           the papers' table: all mixes, all searchers, MPS, PyTorch
  platoon bench --table out --board h200 --mix r50+v16+m3 --mix urban --torch eager --no-mps
  platoon bench --zones zones.svg --board h200 --mix r50+v16+m3   frame time over sync points and over chunks

Both sides take turns in one run, on as many threads as there are workers. `frame` is a task set's whole frame: camera
images prepared, networks side by side, results decoded. `networks` is tensors in, tensors out, which is what the peer
computes, one network after another. Every tenant runs in every frame. `to peer` divides medians: below 1 is faster.
Of letting its idle threads spin or sleep, the peer gets what it is faster with. Figures of a busy machine mean little.
The peer is onnxruntime in the Python that --peer or the variable PLATOON_PEER_PYTHON names [default: python3].

The zoo has alex, v16, r18, r34, r50, r101, m3, d121, lstm, bst, ssd, dlv3 and vit: torchvision's networks (and two over
tokens) with weights from a seed; FILE.onnx in place of a name is a network of your own, whose inputs get noise (integers 0).
The peer is PyTorch with torchvision, on a GPU in one CUDA graph if it finds one; a GPU board with fewer SMs
than the GPU confines the peer too. Of FILE.onnx it runs FILE.pt2, the same network by `torch.export.save`, if that is there. `frame` goes from submission, inputs in place, until the last result is there: on a GPU the
copies of inputs and results are in it, while the peer's stay on the device. `networks` is the networks alone on the device's
clock, of both sides; compare these.
What --export writes, src/bench/zoo/compare.py compares with torchvision on the same weights.

--loop runs frame after frame, 10000 unless --frames says otherwise: at once as on board, on a GPU also without the progress words
of segments, with a host that sleeps meanwhile, and segment by segment; last the host alone, which computes and waits for as long.
`host` is what binding and launching take, without the pixels' copy. There is no peer.")]
pub struct Arguments {
    /// A task set to compare, or a row of the table; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    mix: Vec<String>,
    /// Counted frames of each side [default: 40; of a loop 10000]
    #[arg(long, value_name = "N")]
    frames: Option<NonZeroUsize>,
    /// Measure the frame loop itself: the host's cost of a frame and the frames' jitter
    #[arg(long = "loop", conflicts_with_all = ["profile", "peer", "export", "torch"])]
    looped: bool,
    /// The peer's Python, or `none`
    #[arg(long, value_name = "PYTHON|none")]
    peer: Option<String>,
    /// Write the figures, with what they depend on, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure each operator alone on one worker instead
    #[arg(long, value_name = "TASKSET[/TENANT]", conflicts_with_all = ["mix", "peer", "json"])]
    profile: Option<String>,
    /// On a GPU, let no kernel begin before the one in front of it has ended, to see what that brings
    #[arg(long)]
    no_early_launches: bool,
    #[command(flatten)]
    zoo: ZooArguments,
    #[command(flatten)]
    table: TableArguments,
    #[command(flatten)]
    compile: compile::HowToCompile,
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let board = common.board()?;
    let written = [&arguments.json, arguments.zoo.written(), &arguments.table.zones];
    for file in written.into_iter().flatten() {
        output::spares(file, arguments.zoo.read().chain([common.task_file()]))?;
    }
    let options = CompileOptions {
        best_effort: true,
        ..arguments.compile.options(&board)?
    };
    if arguments.looped {
        output::print(&loops(common, arguments, &board, &options)?)?;
        return Ok(Outcome::Good);
    }
    if arguments.table.follow {
        let network = arguments.zoo.zoo.first().map(String::as_str).unwrap_or_default();
        follow::run(common, network, &board, &options)?;
        return Ok(Outcome::Good);
    }
    if arguments.table.wanted() {
        output::print(&the_table(common, arguments, &board, &options)?)?;
        return Ok(Outcome::Good);
    }
    if !arguments.zoo.zoo.is_empty() {
        let (text, outcome) = of_the_zoo(common, arguments, &board, &options)?;
        output::print(&text)?;
        return Ok(outcome);
    }
    let tasks = common.tasks()?;
    let text = match &arguments.profile {
        Some(what) => slowest(&tasks, what, &board, &options, arguments.frames())?,
        None => compare(common, arguments, &tasks, &board, &options)?,
    };
    output::print(&text)?;
    Ok(Outcome::Good)
}

fn compare(common: &Common, arguments: &Arguments, tasks: &Tasks, board: &BoardRecord, options: &CompileOptions) -> anyhow::Result<String> {
    let mixes = mixes(arguments, tasks)?;
    let mut peer = python(arguments).and_then(|program| at_hand(Peer::onnxruntime(&program)));
    let (workers, engine) = engine(common, arguments, board);
    let version = peer.as_ref().map(|p| (p.name.to_string(), p.version.clone()));
    let mut report = Report {
        provenance: Provenance::here(&board.name, workers, version).on(device(common, board)),
        sets: Vec::new(),
    };
    for mix in mixes {
        let bar = ProgressBar::new(arguments.frames() as u64);
        bar.println(format!("{}: compiling", mix.name));
        let compiled = mix.compile(board, options)?;
        let mut setting = "";
        if let Some(peer) = &mut peer {
            setting = peer
                .load(&mix.networks, &compiled.networks.plan, workers)
                .map_err(BenchError::from)?;
        }
        let mut ours = Ours::open(&mix, compiled, board, &engine)?;
        let measured = turns::compare(&mut ours, peer.as_mut(), arguments.frames(), |done| bar.set_position(done as u64));
        ours.close();
        bar.finish_and_clear();
        let models = mix.networks.iter().map(|n| n.model.clone()).collect();
        report.sets.push((mix.name, models, turns::Measured { setting, ..measured? }));
    }
    write_json(arguments, &report.json())?;
    let mut table = output::Table::new(&HEADINGS);
    report.rows().into_iter().for_each(|row| table.row(row));
    Ok(format!("{}{}", table.render(), report.provenance.line()))
}

/// Figures of the zoo's networks, or their files.
fn of_the_zoo(common: &Common, arguments: &Arguments, board: &BoardRecord, options: &CompileOptions) -> anyhow::Result<(String, Outcome)> {
    let (workers, engine) = engine(common, arguments, board);
    let setting = setting(common, arguments, board, options, (workers, &engine));
    let groups = arguments.zoo.groups(options.batch)?;
    if let Some(folder) = &arguments.zoo.export {
        return Ok((zoo::export(groups, &setting, folder)?, Outcome::Good));
    }
    if let Some(most) = arguments.zoo.rivals {
        let text = zoo::contest(&arguments.zoo, most.get(), &groups, &setting, &|json| write_json(arguments, json))?;
        return Ok((text, Outcome::Good));
    }
    let program = python(arguments);
    let another = || Peer::pytorch(program.as_deref().unwrap_or_default(), engine.sms, None);
    let peer = program.as_ref().and_then(|_| at_hand(another()));
    let found = zoo::measure(&arguments.zoo, groups, &setting, peer, &another)?;
    write_json(arguments, &found.json)?;
    Ok((found.text, if found.whole { Outcome::Good } else { Outcome::Bad }))
}

/// The papers' table, or the sweet zones of one of its rows.
fn the_table(common: &Common, arguments: &Arguments, board: &BoardRecord, options: &CompileOptions) -> anyhow::Result<String> {
    let (workers, engine) = engine(common, arguments, board);
    let setting = setting(common, arguments, board, options, (workers, &engine));
    // Mixes of the zoo need no task file.
    let rows = table::rows(&arguments.mix, common.tasks_if_any()?.as_ref())?;
    if let Some(file) = &arguments.table.zones {
        return zones::run(&rows, file, &setting);
    }
    let program = python(arguments);
    let compilers = Some(table::abreast().1);
    let another = || Peer::pytorch(program.as_deref().unwrap_or_default(), engine.sms, compilers);
    let peers = Peers {
        mode: arguments.zoo.mode(),
        another: program.is_some().then_some(&another as zoo::Another<'_>),
    };
    let most = arguments.zoo.rivals.map_or(choice::MOST, NonZeroUsize::get);
    table::measure(common, &arguments.table, rows, &setting, peers, most)
}

/// Our workers, which the peer gets as many threads as, and how engines are opened with them.
fn engine(common: &Common, arguments: &Arguments, board: &BoardRecord) -> (usize, runtime::Options) {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers = common.workers.map_or(cores.min(board.units as usize), NonZeroUsize::get);
    let options = runtime::Options {
        workers: Some(workers),
        // A GPU's frames are shorter than the naps of a host that does not spin; the peer spins too.
        wait: Wait::Spin,
        no_early_launches: arguments.no_early_launches,
        ..common.engine_options(board)
    };
    (workers, options)
}

/// How networks of the zoo and rows of the table are run.
fn setting<'a>(
    common: &Common,
    arguments: &Arguments,
    board: &'a BoardRecord,
    compile: &'a CompileOptions,
    (workers, engine): (usize, &'a runtime::Options),
) -> Setting<'a> {
    Setting {
        board,
        compile,
        engine,
        workers,
        frames: arguments.frames(),
        refine: Duration::from_secs(arguments.table.refine.into()),
        device: device(common, board),
    }
}

/// The GPU that a board's plans run on, in words.
fn device(common: &Common, board: &BoardRecord) -> Option<String> {
    (common.backend(board) == BackendKind::Cuda).then(|| gpu::at_work(board)).flatten()
}

/// Figures of the frame loop.
fn loops(common: &Common, arguments: &Arguments, board: &BoardRecord, options: &CompileOptions) -> anyhow::Result<String> {
    let compiled = match arguments.zoo.zoo.is_empty() {
        true => {
            let tasks = common.tasks()?;
            let mixes = mixes(arguments, &tasks)?;
            mixes
                .iter()
                .map(|mix| mix.compile_frame(board, options))
                .collect::<Result<Vec<_>, _>>()?
        }
        false => {
            let groups = arguments.zoo.groups(options.batch)?;
            let compile = |g: &Group| g.plan(board, options);
            groups.iter().map(compile).collect::<Result<Vec<_>, _>>()?
        }
    };
    let (workers, engine) = engine(common, arguments, board);
    let provenance = Provenance::here(&board.name, workers, None).on(device(common, board));
    let gpu = common.backend(board) == BackendKind::Cuda;
    let (text, json) = looped::measure(&compiled, board, &engine, gpu, arguments.frames(), provenance)?;
    write_json(arguments, &json)?;
    Ok(text)
}

/// The task sets that were asked for.
fn mixes(arguments: &Arguments, tasks: &Tasks) -> Result<Vec<Mix>, BenchError> {
    let names: Vec<&str> = match arguments.mix.as_slice() {
        [] => tasks.sets.keys().map(String::as_str).collect(),
        some => some.iter().map(String::as_str).collect(),
    };
    names.into_iter().map(|name| Mix::of(tasks, name)).collect()
}

impl Arguments {
    /// Counted frames.
    fn frames(&self) -> usize {
        let usual = if self.looped { LOOP } else { TURNS };
        self.frames.map_or(usual, NonZeroUsize::get)
    }
}

fn write_json(arguments: &Arguments, json: &serde_json::Value) -> anyhow::Result<()> {
    let Some(file) = &arguments.json else { return Ok(()) };
    output::write(file, format!("{json:#}\n"))
}

/// The peer's Python; `None` if none is wanted.
fn python(arguments: &Arguments) -> Option<String> {
    let program = arguments.peer.clone().or_else(|| std::env::var("PLATOON_PEER_PYTHON").ok());
    let program = program.unwrap_or_else(|| "python3".into());
    (program != "none").then_some(program)
}

/// The peer, or none, said on stderr.
fn at_hand(peer: Result<Peer, PeerError>) -> Option<Peer> {
    match peer {
        Ok(peer) => Some(peer),
        Err(error) => {
            output::complain(&format!("no peer, only our own figures: {}", output::chain(&error)));
            None
        }
    }
}

/// The table of the slowest operators of a task set, or of one of its tenants.
fn slowest(tasks: &Tasks, what: &str, board: &BoardRecord, options: &CompileOptions, passes: usize) -> anyhow::Result<String> {
    // A task set's own name may hold a slash.
    let (name, tenant) = match what.rsplit_once('/') {
        Some((name, tenant)) if !tasks.sets.contains_key(what) => (name, Some(tenant)),
        _ => (what, None),
    };
    let mix = Mix::of(tasks, name)?;
    let compiled = mix.compile_frame(board, options)?;
    if let Some(tenant) = tenant
        && !compiled.plan.tenants.iter().any(|t| t.name == tenant)
    {
        let known: Vec<&str> = compiled.plan.tenants.iter().map(|t| t.name.as_str()).collect();
        return Err(BenchError::Tenant {
            task_set: name.into(),
            name: tenant.into(),
            known: known.join(", "),
        }
        .into());
    }
    let ranges: Vec<(f32, f32)> = mix.networks.iter().map(|n| n.range).collect();
    let mut operators = profile(compiled, &ranges, board, passes)?;
    operators.retain(|o| tenant.is_none_or(|t| o.tenant == t));
    Ok(profile_table(&operators))
}

fn profile_table(operators: &[OperatorTime]) -> String {
    let total: u64 = operators.iter().map(|o| o.time.0).sum();
    let share = |time: u64| format!("{:.1}", 100.0 * time as f64 / total.max(1) as f64);
    let ms = |time: u64| format!("{:.3}", time as f64 / 1e6);
    let mut table = output::Table::new(&["operator", "tenant", "kernel", "output", "ms", "%", "GFLOP/s", "GB/s"]);
    for o in operators.iter().take(SHOWN) {
        table.row([
            o.name.clone(),
            o.tenant.clone(),
            o.kernel.clone(),
            o.shape.clone(),
            ms(o.time.0),
            share(o.time.0),
            format!("{:.1}", o.gflops()),
            format!("{:.1}", o.gigabytes()),
        ]);
    }
    let rest: u64 = operators.iter().skip(SHOWN).map(|o| o.time.0).sum();
    if let Some(count) = operators.len().checked_sub(SHOWN).filter(|&n| n > 0) {
        let blank = String::new;
        table.row([format!("{count} others"), blank(), blank(), blank(), ms(rest), share(rest)]);
    }
    format!("{}{} operators, {} ms on one worker\n", table.render(), operators.len(), ms(total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    #[test]
    fn a_profile_shows_the_slowest_and_sums_up_the_others() {
        let operator = |n: u64| OperatorTime {
            tenant: "t".into(),
            name: format!("op{n}"),
            kernel: "Copy".into(),
            shape: "[1,2]".into(),
            time: Nanos(n * 1_000_000),
            macs: 0,
            bytes: n * 3_000_000,
        };
        let text = profile_table(&(1..=17).rev().map(operator).collect::<Vec<_>>());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + SHOWN + 2, "{text}");
        assert!(
            lines[1].starts_with("op17") && lines[1].contains("17.000") && lines[1].ends_with("3.0"),
            "{text}"
        );
        assert!(
            lines[16].starts_with("2 others") && lines[16].contains("3.000") && lines[16].ends_with("2.0"),
            "{text}"
        );
        assert_eq!(lines[17], "17 operators, 153.000 ms on one worker");
    }
}
