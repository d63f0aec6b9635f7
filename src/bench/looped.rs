//! The frame loop under a stopwatch: what a frame costs the host, and how evenly frames take their time.
//!
//! Pictures and tensors are in the slots before the clock is read. The host's cost is what binding and launching take: taking
//! a slot, describing its images, submission. A frame goes from there until its last result is there. Its *work* is what the
//! engine reports of it, from submission to its end by the device's own stamp; the rest of the frame is the host's, that binds
//! and notices the end. So a tail is the device's or the host's.
//!
//! A host that others interrupt makes both uneven, whatever runs on it: what it does to a computation and a wait of the same length
//! is measured too.

use super::inputs::{self, Picture};
use super::measure::Samples;
use super::noise::Noise;
use super::report::Provenance;
use super::{BenchError, ours};
use crate::backend::{SegmentWords, Submission, Wait};
use crate::board::BoardRecord;
use crate::ids::{CameraId, TenantId};
use crate::planner::Compiled;
use crate::runtime::{Engine, ImageHeader, Options};
use crate::units::Nanos;
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Uncounted frames at the start of a loop.
const WARM: usize = 100;

/// How frames reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What the figures call it.
    pub name: &'static str,
    /// Whole frames or segment by segment.
    pub submission: Submission,
    /// Where segments have progress words; a GPU alone can do without.
    pub segment_words: SegmentWords,
    /// How the host waits for results.
    pub wait: Wait,
}

/// A frame as one launch, as it runs in a vehicle.
const WHOLE: Way = Way {
    name: "frame at once",
    submission: Submission::Frame,
    segment_words: SegmentWords::Beside,
    wait: Wait::Spin,
};
/// The same without the words of segments: what these cost.
const WORDLESS: Way = Way {
    name: "no segment words",
    segment_words: SegmentWords::None,
    ..WHOLE
};
/// With a host that sleeps while a GPU works.
const ASLEEP: Way = Way {
    name: "waiting asleep",
    wait: Wait::Block,
    ..WHOLE
};
/// Launch by launch.
const SEGMENTS: Way = Way {
    name: "by segments",
    submission: Submission::Segments,
    ..WHOLE
};

/// No frames at all: the host computes and waits for as long as frames of the first way take it.
const ALONE: Way = Way {
    name: "the host alone",
    ..WHOLE
};
/// Numbers drawn while the length of one draw is measured.
const DRAWS: u32 = 100_000;

/// The ways that are measured.
pub const fn ways(gpu: bool) -> &'static [Way] {
    if gpu {
        &[WHOLE, WORDLESS, ASLEEP, SEGMENTS]
    } else {
        &[WHOLE, SEGMENTS]
    }
}

/// Headings of [`Report::rows`].
pub const HEADINGS: [&str; 13] = [
    "task set",
    "way",
    "frames",
    "host us p50",
    "p99",
    "p99.9",
    "frame ms p50",
    "p99",
    "p99.9",
    "max",
    "p99.9/p50",
    "of work",
    "rest us p99.9",
];

/// A loop's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looped {
    /// The task set.
    pub name: String,
    /// How its frames reached the device.
    pub way: Way,
    /// What a frame took of the host before it was submitted.
    pub host: Samples,
    /// Frames, from binding to the last result.
    pub frame: Samples,
    /// Their work: from submission to the end by the device's stamp.
    pub work: Samples,
    /// What is left of them: binding and noticing the end.
    pub rest: Samples,
}

impl Looped {
    fn new(name: &str, way: Way) -> Looped {
        Looped {
            name: name.into(),
            way,
            host: Samples::default(),
            frame: Samples::default(),
            work: Samples::default(),
            rest: Samples::default(),
        }
    }
}

/// All loops, and what their figures depend on.
pub struct Report {
    /// What the figures depend on.
    pub provenance: Provenance,
    /// In the order they were measured.
    pub loops: Vec<Looped>,
}

/// Runs `frames` counted frames of a task set, one after another. Floats among its tensor inputs are uniform in -1..1.
pub fn measure(compiled: &Compiled, board: &BoardRecord, options: &Options, way: Way, frames: usize) -> Result<Looped, BenchError> {
    let plan = &compiled.plan;
    let pictures: Vec<Picture> = plan.cameras.iter().map(Picture::of).collect();
    let tensors = inputs::tensors(plan, &vec![(-1.0, 1.0); plan.tenants.len()]);
    let options = Options {
        submission: way.submission,
        segment_words: way.segment_words,
        wait: way.wait,
        ..options.clone()
    };
    let mut engine = Engine::with(ours::deployment(vec![compiled.clone()], board)?, &options)?;
    let mut looped = Looped::new(&plan.task_set, way);
    let (mut host, mut frame) = (Vec::with_capacity(frames), Vec::with_capacity(frames));
    let (mut work, mut rest) = (Vec::with_capacity(frames), Vec::with_capacity(frames));
    for number in 0..WARM + frames {
        let taken = Instant::now();
        let mut draft = engine.begin()?;
        let taken = taken.elapsed();
        for (camera, picture) in pictures.iter().enumerate() {
            let camera = CameraId(camera as u16);
            let room = draft.image_mut(camera)?;
            // Slots keep what was written: the first frames fill them all.
            if number < WARM {
                let data = picture.image().data;
                room[..data.len()].copy_from_slice(data);
            }
        }
        let bound = Instant::now();
        for (camera, picture) in pictures.iter().enumerate() {
            draft.set_image(CameraId(camera as u16), header(picture))?;
        }
        for (tenant, port, data) in &tensors {
            let room = draft.input_mut(TenantId(*tenant as u16), *port)?;
            if number < WARM {
                room.copy_from_slice(data);
            }
        }
        let ticket = draft.submit()?;
        let launched = bound.elapsed();
        let report = engine.wait(&ticket, None)?;
        let done = bound.elapsed();
        engine.release(ticket)?;
        if number >= WARM {
            let whole = nanos((taken + done).as_nanos());
            host.push(nanos((taken + launched).as_nanos()));
            frame.push(whole);
            work.push(report.total);
            rest.push(Nanos(whole.0.saturating_sub(report.total.0)));
        }
    }
    engine.close();
    looped.host.extend(host);
    looped.frame.extend(frame);
    looped.work.extend(work);
    looped.rest.extend(rest);
    Ok(looped)
}

/// What interruptions of the host alone make of frames that take it as long as the middle one of `like`.
pub fn alone(like: &Looped, frames: usize) -> Looped {
    let mut noise = Noise::new(0);
    let mut draw = |count: u32| (0..count).for_each(|_| _ = black_box(noise.bits()));
    let start = Instant::now();
    draw(DRAWS);
    let each = nanos(start.elapsed().as_nanos()).0.max(1);
    let draws = (like.host.median().0 * u64::from(DRAWS) / each).min(u64::from(u32::MAX)) as u32;
    let length = Duration::from_nanos(like.frame.median().0);
    let (mut host, mut frame) = (Vec::with_capacity(frames), Vec::with_capacity(frames));
    for _ in 0..frames {
        let start = Instant::now();
        draw(draws);
        host.push(nanos(start.elapsed().as_nanos()));
        while start.elapsed() < length {
            std::hint::spin_loop();
        }
        frame.push(nanos(start.elapsed().as_nanos()));
    }
    let mut alone = Looped::new(&like.name, ALONE);
    alone.host.extend(host);
    alone.frame.extend(frame);
    alone
}

fn header(picture: &Picture) -> ImageHeader {
    let image = picture.image();
    ImageHeader {
        width: image.width,
        height: image.height,
        stride: image.stride,
        format: image.format,
    }
}

fn nanos(nanos: u128) -> Nanos {
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How far the slowest thousandth lies above the middle.
fn jitter(frame: &Samples) -> f64 {
    frame.quantile(0.999).0 as f64 / frame.median().0.max(1) as f64
}

impl Report {
    /// A row for each loop.
    pub fn rows(&self) -> Vec<[String; 13]> {
        let some = |count: usize, text: String| if count > 0 { text } else { "-".into() };
        let row = |l: &Looped| {
            let us = |q: f64| format!("{:.1}", l.host.quantile(q).as_ms() * 1e3);
            let ms = |q: f64| format!("{:.3}", l.frame.quantile(q).as_ms());
            [
                l.name.clone(),
                l.way.name.to_string(),
                l.frame.count().to_string(),
                us(0.5),
                us(0.99),
                us(0.999),
                ms(0.5),
                ms(0.99),
                ms(0.999),
                ms(1.0),
                format!("{:.3}", jitter(&l.frame)),
                some(l.work.count(), format!("{:.3}", jitter(&l.work))),
                some(l.rest.count(), format!("{:.1}", l.rest.quantile(0.999).as_ms() * 1e3)),
            ]
        };
        self.loops.iter().map(row).collect()
    }

    /// Everything.
    pub fn json(&self) -> Value {
        let one = |l: &Looped| {
            let part = |s: &Samples, unit: f64| {
                let at = |q: f64| s.quantile(q).0 as f64 / unit;
                json!({ "p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999), "max": at(1.0) })
            };
            json!({
                "task_set": l.name, "way": l.way.name, "frames": l.frame.count(),
                "host_us": part(&l.host, 1e3), "frame_ms": part(&l.frame, 1e6), "jitter": jitter(&l.frame),
                "work_ms": (l.work.count() > 0).then(|| part(&l.work, 1e6)), "rest_us": (l.rest.count() > 0).then(|| part(&l.rest, 1e3)),
            })
        };
        json!({ "provenance": self.provenance.json(), "loops": self.loops.iter().map(one).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::zoo::run::Group;
    use crate::planner::{CompileOptions, boards};

    fn looped() -> Looped {
        let mut looped = Looped::new("urban", WORDLESS);
        looped.host.extend((1..=1000).map(|n| Nanos(n * 10)));
        looped.frame.extend((1..=1000).map(|n| Nanos(1_000_000 + n * 1000)));
        looped.work.extend((1..=1000).map(|n| Nanos(900_000 + n * 200)));
        looped.rest.extend((1..=1000).map(|n| Nanos(100_000 + n * 800)));
        looped
    }

    #[test]
    fn rows_and_json_give_tails_and_their_ratio_to_the_middle() {
        let report = Report {
            provenance: Provenance::here("box", 1, None),
            loops: vec![looped()],
        };
        assert_eq!(
            report.rows()[0].join(" "),
            "urban no segment words 1000 5.0 9.9 10.0 1.500 1.990 1.999 2.000 1.333 1.100 899.2"
        );
        let json = &report.json()["loops"][0];
        assert_eq!((&json["host_us"]["p99"], &json["frame_ms"]["max"]), (&json!(9.9), &json!(2.0)));
    }

    #[test]
    fn a_loop_counts_its_frames_on_every_way() {
        let group = Group::parse("bst:1", None).unwrap();
        let board = boards::load("host").unwrap();
        let options = Options {
            workers: Some(1),
            ..Options::default()
        };
        let compiled = group.plan(&board, &CompileOptions::default()).unwrap();
        for way in ways(false) {
            let looped = measure(&compiled, &board, &options, *way, 7).unwrap();
            assert_eq!((looped.host.count(), looped.frame.count()), (7, 7));
            assert_eq!((looped.work.count(), looped.rest.count()), (7, 7));
            assert!(looped.host.median() > Nanos(0) && looped.frame.min() > looped.host.min());
            let alone = alone(&looped, 5);
            assert_eq!((alone.host.count(), alone.frame.count()), (5, 5));
            assert!(alone.frame.min() >= looped.frame.median());
        }
    }
}
