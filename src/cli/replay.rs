//! `platoon replay`: a task set over recorded pictures or a synthetic drive.

use super::options::Common;
use super::{Outcome, compile, output, plan, stop};
use crate::board::BoardRecord;
use crate::plan::format::{Digest, Plan};
use crate::planner;
use crate::replay::drives::DrivesError;
use crate::replay::run::{Event, Settings, replay};
use crate::replay::score::{Score, ScoreError};
use crate::replay::sink::{Extras, Sink};
use crate::replay::source::{Input, Source};
use crate::replay::trace;
use crate::runtime::{self, Engine};
use crate::scenes::{HEIGHT, WIDTH};
use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  platoon replay --input frames/ --out out/ --overlay      pictures to look at in out/overlay
  platoon replay --task-set highway --input 0001.jpg --json
  platoon replay --input frames/ --rate 10 --frozen        as a camera at 10 Hz would, plans as they are
  platoon replay --input synthetic:7 --score --out out/    a drive that is rendered, and how right the results are

The input is a JPEG or PNG file, or a folder of them in order of their names; with several cameras, a folder
with a subfolder for each, named like the camera: pictures of one name are one frame, or where no names are alike, the
first of each, the second, and so on. A picture that does not decode or is too large is reported; its tenants repeat
their old results, the replay goes on and ends with exit code 1.
synthetic:SEED is a drive through the synthetic camera, 1280 x 720, for task sets that look through one camera;
synthetic:1-30@40 looks at the drives 1 to 30 by turns, each time 40 frames (4 seconds) further on. The ground truth
is known: --score counts fresh results only and gives each tenant's mean average precision (boxes), mean
intersection over union (label maps) or top-1 (crops) over the classes that have names of the ground truth.
DIR gets results.jsonl (a line a frame, the same bytes on every run), timing.jsonl, summary.json, and masks/,
overlay/, trace.json (for chrome://tracing and Perfetto) and score.json if asked for. Ctrl-C, SIGTERM and SIGHUP end
the replay after the frame at hand, and everything is written; a second one ends it at once.")]
pub struct Arguments {
    /// The task set to run [default: the task file's]
    #[arg(long, value_name = "NAME")]
    task_set: Option<String>,
    /// The recorded pictures, or a synthetic drive by its seed
    #[arg(long, value_name = "DIR|FILE|synthetic:SEED[-LAST][@STEP]", value_parser = OsStringValueParser::new().try_map(input))]
    input: Input,
    /// Most frames to run [default: all there are; 120 of a synthetic drive]
    #[arg(long, value_name = "N")]
    frames: Option<NonZeroUsize>,
    /// Where results are written
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Draw the results on the pictures
    #[arg(long, requires = "out")]
    overlay: bool,
    /// Write label maps as PNG, one byte a pixel
    #[arg(long, requires = "out")]
    masks: bool,
    /// Write when each segment of each frame ran, of the last 65,536 segments
    #[arg(long, requires = "out")]
    trace: bool,
    /// Hold the results against the ground truth of the synthetic drive
    #[arg(long)]
    score: bool,
    /// Frames a second, as a camera gives them [default: each as soon as its predecessor is done]
    #[arg(long, value_name = "HZ", value_parser = rate)]
    rate: Option<f64>,
    /// Run the plans as they are; compile nothing
    #[arg(long, conflicts_with_all = ["searcher", "seed", "budget", "best_effort", "dtype", "batch"])]
    frozen: bool,
    #[command(flatten)]
    compile: compile::HowToCompile,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// A path need not be text.
fn input(given: OsString) -> Result<Input, DrivesError> {
    match given.into_string() {
        Ok(text) => text.parse(),
        Err(path) => Ok(Input::Recorded(path.into())),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(hz) if (0.001..=10_000.0).contains(&hz) => Ok(hz),
        _ => Err("give frames a second, from 0.001 to 10000".into()),
    }
}

/// Segments that a trace holds.
const TRACED: usize = 1 << 16;

/// Set by Ctrl-C and by what asks processes to end.
static STOP: AtomicBool = AtomicBool::new(false);

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.score && matches!(arguments.input, Input::Recorded(_)) {
        return Err(output::wrong_usage(ScoreError::NoTruth.to_string()));
    }
    let board = common.board()?;
    let folder = common.folder(&board);
    let made_from = match arguments.frozen {
        true => None,
        false => Some(bring_up_to_date(common, arguments, &board, &folder)?),
    };
    let options = runtime::Options {
        trace: if arguments.trace { TRACED } else { 0 },
        ..common.engine_options(&board)
    };
    let mut engine = Engine::open(&folder, &options).with_context(|| match arguments.frozen {
        true => format!("{}: no usable plans (without --frozen they would be compiled)", folder.display()),
        false => format!("{}: no usable plans", folder.display()),
    })?;
    let made_for = &engine.deployment().table.board.name;
    if *made_for != board.name {
        bail!(
            "{}: the plans are for board `{made_for}`, not for `{}`: name it with --board",
            folder.display(),
            board.name
        );
    }
    if let Some(name) = &arguments.task_set {
        let known: Vec<String> = engine.task_sets().into_iter().map(String::from).collect();
        if !known.contains(name) {
            bail!("no task set `{name}`; there are {}", plan::names(&known));
        }
        engine.select(name).with_context(|| format!("task set `{name}`"))?;
    }
    let task_set = arguments.task_set.as_deref().unwrap_or(engine.task_set()).to_owned();
    let plan = engine.deployment().plans.iter().find(|p| p.task_set == task_set);
    let plan: Plan = plan.with_context(|| format!("task set `{task_set}` has no plan"))?.deref().clone();
    if made_from.is_some_and(|digest| digest != plan.source) {
        bail!(
            "{}: somebody else has just written other plans there: try again, or give --plans a folder of its own",
            folder.display()
        );
    }
    let source = Source::open(&arguments.input, &cameras(&plan))?;
    if source.has_truth() {
        needs_room(&plan)?;
    }
    let count = source.frames(arguments.frames.map(NonZeroUsize::get));
    let score = arguments.score.then(|| Score::new(&plan)).transpose()?;
    if let (Some(out), Input::Recorded(input)) = (&arguments.out, &arguments.input) {
        keeps_apart(input, out)?;
    }
    let sink = arguments.out.as_deref().map(|out| sink(out, arguments, &plan, count)).transpose()?;
    stop::on_signals(&STOP)?;
    let bar = progress(count);
    let settings = Settings {
        frames: count,
        rate: arguments.rate,
        score,
        stop: &STOP,
    };
    let replayed = replay(&mut engine, &plan, &source, settings, sink, &mut |event| match event {
        Event::Done(frames) => bar.set_position(frames as u64),
        Event::Problem(problem) => bar.suspend(|| output::complain(&output::chain(problem))),
    });
    bar.finish_and_clear();
    // Also of a replay that a fault has ended, whose cause comes first.
    let trace = arguments.out.as_deref().filter(|_| arguments.trace);
    let traced = trace.map_or(Ok(()), |out| write_trace(&engine, &out.join("trace.json")));
    let summary = replayed?;
    traced?;
    engine.close();
    let text = if arguments.json {
        format!("{:#}", summary.to_json())
    } else {
        summary.to_table()
    };
    output::print(&text)?;
    if let Some(out) = arguments.out.as_deref().filter(|_| !arguments.json) {
        output::print(&format!("written to {}", out.display()))?;
    }
    if summary.stopped {
        output::complain(&format!("stopped: {} of {} frames have run", summary.frames(), summary.asked));
    }
    Ok(if summary.problems == 0 { Outcome::Good } else { Outcome::Bad })
}

fn write_trace(engine: &Engine, file: &Path) -> anyhow::Result<()> {
    let mut events = Vec::new();
    engine.trace(|event| events.push(event));
    let plans: Vec<&Plan> = engine.deployment().plans.iter().map(|p| &**p).collect();
    let text = trace::document(&plans, &events).to_string();
    output::write(file, text)
}

/// Compiles what the replay's task set lacks; what its plan is made from.
fn bring_up_to_date(common: &Common, arguments: &Arguments, board: &BoardRecord, folder: &Path) -> anyhow::Result<Digest> {
    let tasks = common.tasks()?;
    let options = arguments.compile.options(board)?;
    let wanted = arguments.task_set.as_deref().unwrap_or(&tasks.default);
    if !tasks.sets.contains_key(wanted) {
        bail!(
            "{}: no task set `{wanted}`; there are {}",
            tasks.path.display(),
            plan::names(tasks.sets.keys())
        );
    }
    let stale = compile::stale(&tasks, wanted, board, &options, arguments.compile.searches(), folder)?;
    if !stale.sets.is_empty() {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(100));
        compile::compile(
            &tasks,
            &stale.sets,
            board,
            &options,
            folder,
            |name| bar.set_message(format!("compiling {name}")),
            Ok,
        )?;
        bar.finish_and_clear();
    }
    match stale.source {
        Some(source) if stale.sets.is_empty() => Ok(source),
        _ => Ok(planner::source_digest(&tasks, wanted, board, &options)?),
    }
}

/// Refuses a synthetic drive whose every picture would be too large for the camera.
fn needs_room(plan: &Plan) -> anyhow::Result<()> {
    let used = cameras(plan).iter().position(|c| c.1);
    let camera = used.and_then(|index| plan.cameras.get(index));
    if let Some(camera) = camera.filter(|c| (c.max_width as usize) < WIDTH || (c.max_height as usize) < HEIGHT) {
        bail!(
            "synthetic drives have pictures of {WIDTH}x{HEIGHT} pixels, more than camera `{}` may give ({}x{}, set in tasks.toml)",
            camera.name,
            camera.max_width,
            camera.max_height
        );
    }
    Ok(())
}

/// The cameras' names, and whether any tenant looks through them.
fn cameras(plan: &Plan) -> Vec<(&str, bool)> {
    let used = |index: usize| plan.tenants.iter().any(|t| t.cameras.iter().any(|c| c.index() == index));
    plan.cameras.iter().enumerate().map(|(i, c)| (c.name.as_str(), used(i))).collect()
}

/// Refuses pictures that lie where a replay removes those of the one before.
fn keeps_apart(input: &Path, out: &Path) -> anyhow::Result<()> {
    let real = |path: PathBuf| path.canonicalize().ok();
    let written = ["overlay", "masks"].iter().filter_map(|part| real(out.join(part)));
    let read = real(input.to_path_buf());
    if let Some(folder) = written.into_iter().find(|w| read.as_ref().is_some_and(|r| r.starts_with(w))) {
        bail!(
            "{}: a replay into {} replaces the pictures in {}: give another folder with --out",
            input.display(),
            out.display(),
            folder.display()
        );
    }
    Ok(())
}

fn sink(out: &Path, arguments: &Arguments, plan: &Plan, frames: usize) -> anyhow::Result<Sink> {
    let extras = Extras {
        masks: arguments.masks,
        overlay: arguments.overlay,
    };
    let names: Vec<String> = plan.cameras.iter().map(|c| c.name.clone()).collect();
    let used = cameras(plan).iter().filter(|c| c.1).count();
    Ok(Sink::create(out, extras, names, frames.saturating_mul(used))?)
}

/// A bar on stderr, hidden where that is no terminal.
fn progress(frames: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} frames, {per_sec}, {eta} left");
    let bar = ProgressBar::new(frames as u64);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
