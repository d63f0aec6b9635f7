//! `platoon scenes`: frames of a synthetic drive with their ground truth, for training and for looking at.

use super::dataset::{self, Format, Selection, Totals};
use super::options::Common;
use super::{Outcome, output};
use crate::replay::results::decimals;
use crate::scenes::Class;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Args)]
#[command(after_help = "\
Examples:
  platoon scenes --seed 7 --frames 20 --out drive/             twenty frames in a row
  platoon scenes --seed 7 --frames 200 --every 15 --out set/   frames far apart: 0, 15, 30 ...
  platoon scenes --seed 7 --frames 2000 --every 15 --format raw --out set/

A seed fixes a drive, a frame number fixes a picture, on every machine. Pictures are RGB, 1280 x 720.
DIR gets truth.jsonl: a line a frame with its objects (class, box, visible share, what a sign or light says), and where
its picture and label map are. png: frames/0000.png and labels/0000.png, one byte a pixel, its class. raw: frames.bin,
u8 [N, 720, 1280, 3], and labels.bin, u8 [N, 720, 1280]. Objects that are too small or hidden are marked `ignored`.")]
pub struct Arguments {
    /// The drive's seed
    #[arg(long, value_name = "N")]
    seed: u64,
    /// How many frames
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    frames: u32,
    /// Where they are written
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// From one frame's number in the drive to the next one's
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    every: u32,
    /// The first frame's number in the drive
    #[arg(long, value_name = "F", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000_000))]
    start: u32,
    /// How pictures and label maps are stored
    #[arg(long, value_enum, default_value = "png")]
    format: Format,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let selection = Selection {
        seed: arguments.seed,
        frames: arguments.frames,
        start: arguments.start,
        every: arguments.every,
        format: arguments.format,
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers = common.workers.map_or(cores, NonZeroUsize::get);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} frames, {per_sec}, {eta} left");
    let bar = ProgressBar::new(arguments.frames.into());
    let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
    let start = Instant::now();
    let totals = dataset::write(&arguments.out, selection, workers, |done| bar.set_position(done.into()))?;
    let wall = start.elapsed();
    bar.finish_and_clear();
    let text = match arguments.json {
        true => format!("{:#}", summary(arguments, &totals, wall)),
        false => sentence(arguments, &totals, wall),
    };
    output::print(&text)?;
    Ok(Outcome::Good)
}

/// The summary for programs.
fn summary(arguments: &Arguments, totals: &Totals, wall: Duration) -> Value {
    let objects: Map<String, Value> = counts(totals).map(|(label, n)| (label.to_string(), json!(n))).collect();
    json!({
        "out": arguments.out.display().to_string(),
        "seed": arguments.seed,
        "frames": totals.frames,
        "start": arguments.start,
        "every": arguments.every,
        "format": arguments.format.name(),
        "objects": objects,
        "ignored": totals.ignored,
        "wall_s": decimals(wall.as_secs_f64(), 3),
    })
}

/// The summary for people.
fn sentence(arguments: &Arguments, totals: &Totals, wall: Duration) -> String {
    let objects: Vec<String> = counts(totals).map(|(label, n)| format!("{label} {n}")).collect();
    format!(
        "{}: {} frames of drive {} in {:.1} s\nobjects that count: {}; ignored: {}",
        arguments.out.display(),
        totals.frames,
        arguments.seed,
        wall.as_secs_f64(),
        objects.join(", "),
        totals.ignored
    )
}

/// Objects that count, by class.
fn counts(totals: &Totals) -> impl Iterator<Item = (&'static str, u64)> {
    Class::LABELS.into_iter().zip(totals.counted)
}
