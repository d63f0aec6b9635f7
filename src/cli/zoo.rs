//! `platoon bench --zoo`: the zoo's networks on our engine, beside PyTorch in the same run; and their weights and results as files.

mod export;

pub use export::export;

use super::output;
use crate::bench::BenchError;
use crate::bench::choice::{self, Clock};
use crate::bench::peers::{Mode, Peer, PeerError, Way};
use crate::bench::report::Provenance;
use crate::bench::zoo::gaps::Gaps;
use crate::bench::zoo::member::Source;
use crate::bench::zoo::report::{HEADINGS, Measured, Report, markdown};
use crate::bench::zoo::rivals::{self, Contest};
use crate::bench::zoo::run::{Group, compare};
use crate::bench::zoo::{ALL, count};
use crate::board::BoardRecord;
use crate::plan::format::{Operator, Plan};
use crate::plan::regular;
use crate::planner::floor::Limits;
use crate::planner::optable::OpTable;
use crate::planner::simulate::{Calibration, Machine, Observed};
use crate::planner::{CompileOptions, Compiled, Ports, Searcher, boards, durable};
use crate::runtime;
use crate::tensor::DType;
use crate::units::Nanos;
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an earlier run's figures.
const MAX_JSON: u64 = 1 << 30;

#[derive(Args)]
pub struct ZooArguments {
    /// Networks instead of task sets: of the zoo `all` or NAME[:BATCH], or own ones as FILE.onnx[:BATCH], those that run side by side
    /// joined by `+`
    #[arg(long, value_name = "NAME[:BATCH][+..]", num_args = 1.., group = "networks", conflicts_with_all = ["mix", "profile"])]
    pub zoo: Vec<String>,
    /// How PyTorch runs the networks
    #[arg(long, value_enum, default_value = "inductor", value_name = "MODE", requires = "networks")]
    torch: ModeName,
    /// Write each network's parameters, input and results to DIR/NAME as .npy files instead of measuring
    #[arg(long, value_name = "DIR", requires = "zoo", conflicts_with_all = ["peer", "json", "torch"])]
    pub export: Option<PathBuf>,
    /// Also time every operator alone, and write a Markdown table of networks and operators beside their floors
    #[arg(long, value_name = "FILE.md", requires = "zoo", conflicts_with_all = ["export", "looped"])]
    gaps: Option<PathBuf>,
    /// Measure our plans beside each other instead, without a peer: the best N of every searcher at work and the baselines; with
    /// --table as many of each may qualify [default there: 3]
    #[arg(long, value_name = "N", requires = "networks", conflicts_with_all = ["export", "looped", "gaps"])]
    pub rivals: Option<NonZeroUsize>,
    /// With --rivals: also so many random legal decisions, which the predictions are held against
    #[arg(long, value_name = "N", default_value_t = 0, requires = "rivals")]
    pub agree: usize,
    /// With --rivals: also fit what the simulator's rules weigh to the frames measured, and write it to boards/<board>/corun
    #[arg(long, requires = "rivals")]
    calibrate: bool,
    /// With --calibrate: fit to the random decisions and baselines that an earlier run's --json holds, and measure nothing
    #[arg(long, value_name = "FILE.json", requires_all = ["calibrate", "agree"])]
    from: Option<PathBuf>,
    /// The JSON of an earlier run, for a column of it in the table of --gaps
    #[arg(long, value_name = "FILE.json", requires = "gaps")]
    before: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// Operator by operator
    Eager,
    /// torch.compile with frozen weights
    Inductor,
}

impl ModeName {
    fn mode(self) -> Mode {
        match self {
            ModeName::Eager => Mode::Eager,
            ModeName::Inductor => Mode::Inductor,
        }
    }
}

/// How the networks are compiled and run.
pub struct Setting<'a> {
    pub board: &'a BoardRecord,
    pub compile: &'a CompileOptions,
    pub engine: &'a runtime::Options,
    /// Our workers, and the peer's threads.
    pub workers: usize,
    /// Counted frames of each side.
    pub frames: usize,
    /// How long plans are refined by measurement before that.
    pub refine: Duration,
    /// The GPU in words; `None` on the processor.
    pub device: Option<String>,
}

impl ZooArguments {
    /// How PyTorch runs networks.
    pub fn mode(&self) -> Mode {
        self.torch.mode()
    }

    /// The file of Markdown that is written.
    pub fn written(&self) -> &Option<PathBuf> {
        &self.gaps
    }

    /// The files of earlier runs that are read.
    pub fn read(&self) -> impl Iterator<Item = &Path> {
        [&self.from, &self.before].into_iter().flatten().map(PathBuf::as_path)
    }

    /// What was asked for.
    pub fn groups(&self, batch: Option<u32>) -> Result<Vec<Group>, BenchError> {
        let all = || ALL.iter().map(|n| n.name);
        let names = self.zoo.iter().flat_map(|name| match name.as_str() {
            "all" => all().collect(),
            one => vec![one],
        });
        names.map(|name| Group::parse(name, batch)).collect()
    }
}

/// A group that is ready to be measured.
struct Loaded {
    group: Group,
    multiply_adds: u64,
    compiled: Compiled,
    peer: Option<Peer>,
}

/// What operators are set beside their floors with.
struct Floors<'a> {
    file: &'a Path,
    limits: Limits,
    earlier: Value,
    /// Times of this run.
    table: OpTable,
}

impl<'a> Floors<'a> {
    fn new(file: &'a Path, before: Option<&Path>, setting: &Setting<'_>) -> anyhow::Result<Floors<'a>> {
        let limits = boards::limits(setting.board)?;
        if limits.is_none() {
            output::complain(&format!(
                "board {} has no [limits]: floors are those of its rates",
                setting.board.name
            ));
        }
        let earlier = match before {
            Some(file) => {
                let text = regular::read_text(file, MAX_JSON).with_context(|| format!("{}: cannot be read", file.display()))?;
                serde_json::from_str(&text).with_context(|| format!("{}: no JSON", file.display()))?
            }
            None => Value::Null,
        };
        Ok(Floors {
            file,
            limits: limits.unwrap_or_else(|| Limits::of_rates(setting.board)),
            earlier,
            table: OpTable::unplaced(setting.board),
        })
    }
}

/// Starts another peer like the first.
pub type Another<'a> = &'a (dyn Fn() -> Result<Peer, PeerError> + Sync);

/// What was measured.
pub struct Found {
    /// The table.
    pub text: String,
    /// Everything.
    pub json: Value,
    /// False if a group could not be measured, which has been said.
    pub whole: bool,
}

/// Measures the groups, beside a peer where there is one, of which each group gets its own. Compiling takes both sides long, so it is
/// done for as many groups at once as there are cores; nothing else runs while one is measured. One of several groups that cannot be
/// measured is told of on stderr, and the others are.
pub fn measure(
    arguments: &ZooArguments,
    groups: Vec<Group>,
    setting: &Setting<'_>,
    peer: Option<Peer>,
    another: Another<'_>,
) -> anyhow::Result<Found> {
    let version = peer.as_ref().map(|p| (p.name.to_string(), p.version.clone()));
    let dtype = if setting.compile.dtype == DType::F16 { "f16" } else { "f32" };
    let mut report = Report {
        provenance: Provenance::here(&setting.board.name, setting.workers, version).on(setting.device.clone()),
        dtype,
        peer_mode: arguments.torch.mode().name(),
        groups: Vec::new(),
    };
    let floors = arguments
        .gaps
        .as_deref()
        .map(|file| Floors::new(file, arguments.before.as_deref(), setting));
    let mut floors = floors.transpose()?;
    let wanted = peer.is_some();
    let mut first = peer;
    let asked = groups.len();
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    for some in groups.chunks(cores) {
        let names: Vec<&str> = some.iter().map(|g| g.name.as_str()).collect();
        let bar = ProgressBar::new((setting.frames * some.len()) as u64);
        bar.println(format!("compiling {}", names.join(", ")));
        let mut ready = Vec::with_capacity(some.len());
        std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(some.len());
            for group in some {
                let mine = first.take();
                threads.push(scope.spawn(move || {
                    let peer = match mine {
                        None if wanted => Some(another().map_err(BenchError::from)?),
                        mine => mine,
                    };
                    load(group, setting, dtype, arguments.torch.mode(), peer)
                }));
            }
            ready.extend(
                threads
                    .into_iter()
                    .map(|t| t.join().unwrap_or_else(|_| Err(anyhow::anyhow!("compiling panicked")))),
            );
        });
        for (number, (group, loaded)) in some.iter().zip(ready).enumerate() {
            let done = number * setting.frames;
            let advance = |n: usize| bar.set_position((done + n) as u64);
            match loaded.and_then(|loaded| measure_one(loaded, setting, floors.as_mut(), advance)) {
                Ok(measured) => report.groups.push(measured),
                Err(error) if asked == 1 => return Err(error),
                Err(error) => bar.suspend(|| output::complain(&format!("{}: not measured: {}", group.name, output::chain(error.as_ref())))),
            }
        }
        bar.finish_and_clear();
    }
    ensure!(!report.groups.is_empty(), "none of the networks could be measured");
    if let Some(f) = floors {
        let text = markdown(&report, &f.limits, setting.board, &f.earlier, &command());
        output::write(f.file, text)?;
    }
    let mut table = output::Table::new(&HEADINGS);
    report.rows().into_iter().for_each(|row| table.row(row));
    let text = format!("{}{}; {}", table.render(), report.provenance.line(), report.dtype);
    Ok(Found {
        text,
        json: report.json(),
        whole: report.groups.len() == asked,
    })
}

/// Measures one group; `advance` is told the frames that are done.
fn measure_one(
    mut loaded: Loaded,
    setting: &Setting<'_>,
    floors: Option<&mut Floors<'_>>,
    advance: impl FnMut(usize),
) -> anyhow::Result<Measured> {
    let found = fastest(&loaded.group, loaded.compiled, setting)?;
    let compiled = floors.is_some().then(|| found.clone());
    let mut zoo = loaded.group.open(found, setting.board, setting.engine)?;
    let measured = compare(&mut zoo, loaded.peer.as_mut(), setting.frames, advance);
    zoo.close();
    let (ours, peer) = measured?;
    let gaps = match (floors, compiled) {
        (Some(f), Some(compiled)) => Some(Gaps::measure(compiled, setting.board, &f.limits, &mut f.table, setting.engine)?),
        _ => None,
    };
    Ok(Measured {
        group: loaded.group,
        multiply_adds: loaded.multiply_adds,
        ours,
        peer,
        gaps,
    })
}

/// The fastest plan of a group, if it is to be refined.
fn fastest(group: &Group, mut compiled: Compiled, setting: &Setting<'_>) -> anyhow::Result<Compiled> {
    if compiled.refinery.is_none() {
        return Ok(compiled);
    }
    let (board, engine) = (setting.board, setting.engine);
    let inputs = Arc::new(group.inputs(&compiled));
    choice::refine(&mut compiled, inputs.clone(), board, engine, setting.refine, |round| {
        log::info!("{}: {}", group.name, round.told())
    })?;
    let chosen = choice::choose(compiled, (inputs, Clock::Networks), board, engine, setting.frames, |_| {})?;
    if let Some(others) = chosen.report.measured.iter().find(|m| !m.identical) {
        output::complain(&format!("{}: a plan of {} gives OTHER BITS: not kept", group.name, others.searcher));
    }
    Ok(chosen)
}

/// Measures the plans of several decisions for each group, the best `most` of every searcher: the table. `keep` gets everything
/// as JSON before the simulator is fitted to it, which takes minutes and can be had again from the JSON.
pub fn contest(
    arguments: &ZooArguments,
    most: usize,
    groups: &[Group],
    setting: &Setting<'_>,
    keep: &dyn Fn(&Value) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let provenance = Provenance::here(&setting.board.name, setting.workers, None).on(setting.device.clone());
    let options = CompileOptions {
        ports: Ports::Half,
        rivals: most,
        samples: arguments.agree,
        ..setting.compile.clone()
    };
    let compiled = compile_all(groups, setting.board, &options)?;
    if let Some(file) = &arguments.from {
        let observed = observations(file, groups, &compiled)?;
        return calibrate(&observed, groups, setting);
    }
    let mut contests = Vec::with_capacity(groups.len());
    let mut observed = Vec::new();
    for (group, compiled) in groups.iter().zip(compiled) {
        let plans: Vec<Plan> = std::iter::once(&compiled.plan).chain(&compiled.rivals).cloned().collect();
        let bar = ProgressBar::new((setting.frames * (1 + compiled.rivals.len())) as u64);
        let contest = Contest::run(group, compiled, setting.board, setting.engine, setting.frames, |n| {
            bar.set_position(n as u64)
        });
        bar.finish_and_clear();
        let contest = contest?;
        // All groups take minutes, and the fit behind them another: what is known is told at once.
        log::info!("{}: {}", contest.group, rivals::verdict(&contest.errors()));
        observed.extend(contest.rivals.iter().map(|r| Observed {
            plan: plans[r.number].clone(),
            time: r.side.device().median(),
        }));
        contests.push(contest);
    }
    let mut table = output::Table::new(&rivals::HEADINGS);
    // Random decisions are there for their errors: they are in the JSON.
    let chosen = contests
        .iter()
        .flat_map(Contest::rows)
        .filter(|row| row[1] != Searcher::Random.name());
    chosen.for_each(|row| table.row(row));
    let of_each = contests.iter().map(|c| format!("{}: {}", c.group, rivals::verdict(&c.errors())));
    let errors: Vec<f64> = contests.iter().flat_map(Contest::errors).collect();
    let all = format!("all: {}", rivals::verdict(&errors));
    let mut verdicts: Vec<String> = of_each.chain([all]).collect();
    keep(&json!({
        "provenance": provenance.json(),
        "contests": contests.iter().map(Contest::json).collect::<Vec<_>>(),
    }))?;
    if arguments.calibrate {
        verdicts.push(calibrate(&observed, groups, setting)?);
    }
    Ok(format!("{}{}\n{}", table.render(), verdicts.join("\n"), provenance.line()))
}

/// Plans of all groups. Searching takes longer than measuring, so it is done for all at once; nothing else runs while one is
/// measured.
fn compile_all(groups: &[Group], board: &BoardRecord, options: &CompileOptions) -> anyhow::Result<Vec<Compiled>> {
    std::thread::scope(|scope| {
        let search = |group| scope.spawn(move || Group::plan(group, board, options));
        let threads: Vec<_> = groups.iter().map(search).collect();
        let ended = threads
            .into_iter()
            .map(|t| t.join().map_err(|_| anyhow::anyhow!("searching panicked")));
        ended.map(|compiled| Ok(compiled??)).collect()
    })
}

/// The frames of an earlier run's JSON, beside the plans that they were of: those that do not depend on what the simulator said
/// then, and those of streams apart, which lots do not draw. Frames of plans that run something else than those of today, under other
/// tactics for instance, are left out; runs of before plans were told apart are believed.
fn observations(file: &Path, groups: &[Group], compiled: &[Compiled]) -> anyhow::Result<Vec<Observed>> {
    let unread = || format!("{}: no JSON of `bench --rivals`", file.display());
    let text = regular::read_text(file, MAX_JSON).with_context(unread)?;
    let json: Value = serde_json::from_str(&text).with_context(unread)?;
    let contests = json["contests"].as_array().with_context(unread)?;
    let kept = [Searcher::Random, Searcher::Streams, Searcher::Sequential, Searcher::Apart].map(Searcher::name);
    let mut observed = Vec::new();
    let mut others = 0;
    for (group, compiled) in groups.iter().zip(compiled) {
        let contest = contests.iter().find(|c| c["networks"] == group.name.as_str());
        let contest = contest.with_context(|| format!("{}: nothing of {}", file.display(), group.name))?;
        for name in kept {
            let of = |plan: &&Plan| plan.searcher == name;
            let plans = std::iter::once(&compiled.plan).chain(&compiled.rivals).filter(of);
            let mut found: Vec<&Value> = contest["plans"].as_array().with_context(unread)?.iter().collect();
            found.retain(|p| p["searcher"] == name);
            // In the order in which they were made.
            found.sort_by_key(|p| p["number"].as_u64());
            for (plan, found) in plans.zip(found) {
                let Some(ms) = found["p50_ms"].as_f64() else { continue };
                if found["work"].as_str().is_some_and(|work| work != rivals::work(plan).to_string()) {
                    others += 1;
                    continue;
                }
                let time = Nanos((ms * 1e6).round() as u64);
                observed.push(Observed { plan: plan.clone(), time });
            }
        }
    }
    if others > 0 {
        output::complain(&format!(
            "{}: {others} frames are of other plans than those made now: left out",
            file.display()
        ));
    }
    ensure!(!observed.is_empty(), "{}: no frame of a plan that is made now", file.display());
    Ok(observed)
}

/// Fits the simulator to measured frames, and keeps the figures in the board's folder.
fn calibrate(observed: &[Observed], groups: &[Group], setting: &Setting<'_>) -> anyhow::Result<String> {
    let (board, options) = (setting.board, setting.compile);
    let times = options
        .times
        .as_ref()
        .context("the board has no table of operators: measure one with `platoon profile`")?;
    let measured = |plan: &Plan, operator: &Operator| times.of(plan, operator);
    let mut start = Machine::of(board).calibrated(options.calibration);
    if let Some(kib) = boards::machine(&board.name).ok().and_then(|m| m.l2_kib) {
        start.calibration.cache = u64::from(kib);
    }
    let off = |machine| -> String {
        let errors: Vec<f64> = observed.iter().map(|o| o.error(machine, board, &measured)).collect();
        rivals::verdict(&errors)
    };
    let fitted = start.calibration.fit(observed, board, &measured);
    let names: Vec<&str> = groups.iter().map(|g| g.name.as_str()).collect();
    let told = format!("{}; {}", names.join(", "), off(start.calibrated(Some(fitted))));
    let file = Calibration::path(Path::new("boards"), board);
    durable::replace(&file, fitted.render(&times.provenance, &told).as_bytes())
        .with_context(|| format!("{}: cannot be written", file.display()))?;
    Ok(format!("{}: fitted to {told}; before: {}", file.display(), off(start)))
}

/// How the program was called, by its own name.
pub fn command() -> String {
    let arguments = std::env::args().skip(1);
    std::iter::once("platoon".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Makes both sides of a group ready.
fn load(group: &Group, setting: &Setting<'_>, dtype: &str, mode: Mode, mut peer: Option<Peer>) -> anyhow::Result<Loaded> {
    if let Some(mut started) = peer.take() {
        peer = with_networks(&mut started, group, setting, dtype, mode)?.then_some(started);
    }
    let models = group.models()?;
    let multiply_adds = models.iter().map(|m| count::multiply_adds(&m.graph)).sum();
    // The peer's inputs and results are of the activations' type too.
    let mut options = CompileOptions {
        ports: Ports::Half,
        ..setting.compile.clone()
    };
    if !setting.refine.is_zero() {
        (options.searcher, options.rivals, options.refine) = (Searcher::Platoon, choice::MOST, true);
    }
    Ok(Loaded {
        group: group.clone(),
        multiply_adds,
        compiled: group.compile(models, setting.board, &options)?,
        peer,
    })
}

/// Loads a group's networks into the peer: false, and said on stderr, where it lacks a file of the user's or cannot run it.
fn with_networks(peer: &mut Peer, group: &Group, setting: &Setting<'_>, dtype: &str, mode: Mode) -> anyhow::Result<bool> {
    let programs = match group.programs() {
        Ok(programs) => programs,
        Err(file) => {
            output::complain(&format!(
                "{}: no peer beside it, as there is no {} (torch.export.save)",
                group.name,
                file.display()
            ));
            return Ok(false);
        }
    };
    let own = group.members.iter().any(|m| matches!(m.source, Source::File(_)));
    match peer.load_zoo(&programs, dtype, &[Way::single(mode)], setting.workers) {
        Ok(()) => Ok(true),
        Err(error) if own => {
            output::complain(&format!("{}: no peer beside it: {}", group.name, output::chain(&error)));
            Ok(false)
        }
        Err(error) => Err(BenchError::from(error).into()),
    }
}
