//! The replay itself: pictures in, frames through the engine, records and figures out.

use super::picture::{Picture, PictureError};
use super::record::{Newest, Recorder};
use super::report::{Summary, timing};
use super::results::FrameRecord;
use super::score::{Score, ScoreError};
use super::sink::{Sink, SinkError};
use super::source::{Shot, Source, Truth};
use crate::error::RunError;
use crate::ids::TenantId;
use crate::plan::format::{Camera, Plan};
use crate::plan::table::Entry;
use crate::runtime::{Engine, FrameReport, Image, Ticket};
use crate::task::PixelFormat;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Frames that are decoded or rendered ahead of a replay at a fixed rate.
const AHEAD: usize = 2;

/// How a replay runs.
pub struct Settings<'a> {
    /// Most frames.
    pub frames: usize,
    /// Frames a second, as a camera would give them: a frame whose successor is due already is dropped. `None` runs every
    /// frame as soon as its predecessor is done.
    pub rate: Option<f64>,
    /// Holds the results against the ground truth, which the source must have.
    pub score: Option<Score>,
    /// Set from outside to end the replay after the frame at hand.
    pub stop: &'a AtomicBool,
}

/// What happens during a replay, for a progress bar and for messages.
pub enum Event<'a> {
    /// A frame is done, or dropped; so many are behind us.
    Done(usize),
    /// A picture cannot be used: its camera gives no image in this frame.
    Problem(&'a FrameError),
}

/// Why a picture cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It cannot be read or decoded.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// It is larger than its camera's largest image.
    #[error("{file}: {width}x{height} pixels are more than camera `{camera}` may give ({max_width}x{max_height}, set in tasks.toml)")]
    Large {
        /// The file.
        file: String,
        /// The camera.
        camera: String,
        /// The picture's width.
        width: u32,
        /// The picture's height.
        height: u32,
        /// The camera's largest width.
        max_width: u32,
        /// The camera's largest height.
        max_height: u32,
    },
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The engine refused or faulted.
    #[error("frame {frame} did not run{}", called(blamed.as_ref()))]
    Run {
        /// The frame.
        frame: usize,
        /// The tenant that a fault names, and what the task set calls it.
        blamed: Option<(TenantId, String)>,
        /// Why.
        source: RunError,
    },
    /// The results cannot be scored.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// Results cannot be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Runs the frames of `source` through the task set of `plan`, which must be the engine's selected one, and writes to
/// `sink` where there is one.
pub fn replay(
    engine: &mut Engine,
    plan: &Plan,
    source: &Source,
    settings: Settings<'_>,
    mut sink: Option<Sink>,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, ReplayError> {
    if settings.score.is_some() && !source.has_truth() {
        return Err(ScoreError::NoTruth.into());
    }
    let count = source.frames(Some(settings.frames));
    let mut frames = Frames {
        recorder: Recorder::new(plan, sink.as_ref().is_some_and(Sink::has_masks)),
        newest: vec![None; source.cameras()],
        plan_digest: Entry::of(plan).digest.to_string(),
        summary: Summary::new(plan),
        score: settings.score,
        plan,
        engine,
        source,
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        let mut shots: Box<dyn Iterator<Item = Shot>> = match settings.rate {
            None => Box::new(source.shots(count)),
            Some(_) => {
                let (to_loop, from_reader) = mpsc::sync_channel(AHEAD);
                // Ends by itself when the loop is done: its channel is closed then.
                scope.spawn(move || source.shots(count).try_for_each(|shot| to_loop.send(shot)));
                Box::new(from_reader.into_iter())
            }
        };
        for index in 0..count {
            let Some(shot) = shots.next().filter(|_| !settings.stop.load(Ordering::Relaxed)) else {
                break;
            };
            let late = settings
                .rate
                .is_some_and(|hz| index + 1 < count && !paced(start, index, hz, settings.stop));
            if settings.stop.load(Ordering::Relaxed) {
                break;
            }
            if late {
                frames.summary.dropped += 1;
            } else {
                frames.run(index, shot, sink.as_mut(), observe)?;
            }
            observe(Event::Done(index + 1));
        }
        Ok::<(), ReplayError>(())
    })?;
    let mut summary = frames.summary;
    summary.wall = start.elapsed();
    summary.asked = count;
    summary.stopped = settings.stop.load(Ordering::Relaxed) && summary.frames() + summary.dropped < count as u64;
    summary.accuracy = frames.score.map(|score| score.accuracy());
    if let Some(sink) = sink {
        sink.finish(&summary)?;
    }
    Ok(summary)
}

/// Longest sleep without a look at whether to stop.
const NAP: Duration = Duration::from_millis(50);

/// Sleeps until frame `index` is due, or `stop` is set; false where the next one is due already.
fn paced(start: Instant, index: usize, hz: f64, stop: &AtomicBool) -> bool {
    let due = |index: usize| Duration::try_from_secs_f64(index as f64 / hz).unwrap_or(Duration::MAX);
    let now = start.elapsed();
    while let Some(left) = due(index).checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(left.min(NAP));
    }
    now < due(index + 1)
}

struct Frames<'a> {
    engine: &'a mut Engine,
    plan: &'a Plan,
    source: &'a Source,
    recorder: Recorder,
    /// Each camera's newest picture.
    newest: Vec<Option<Newest>>,
    plan_digest: String,
    summary: Summary,
    score: Option<Score>,
}

/// The tenant that an error names, with its name. Errors of the engine have numbers alone.
fn blamed(plan: &Plan, error: RunError) -> Option<(TenantId, String)> {
    let RunError::Faulted(fault) = error else { return None };
    let tenant = plan.tenants.get(fault.tenant().index())?;
    Some((fault.tenant(), tenant.name.clone()))
}

/// What the tenant of an error is called.
fn called(blamed: Option<&(TenantId, String)>) -> String {
    blamed.map_or_else(String::new, |(tenant, name)| format!(" ({tenant} is `{name}`)"))
}

impl Frames<'_> {
    fn run(&mut self, index: usize, shot: Shot, sink: Option<&mut Sink>, observe: &mut dyn FnMut(Event<'_>)) -> Result<(), ReplayError> {
        let pictures = self.usable(index, shot.pictures, observe);
        let plan = self.plan;
        let failed = |source| ReplayError::Run {
            frame: index,
            blamed: blamed(plan, source),
            source,
        };
        let images: Vec<Option<Image<'_>>> = pictures.iter().map(|p| p.as_ref().map(image)).collect();
        let ticket = self.engine.submit(&images).map_err(failed)?;
        let frame = ticket.frame();
        for (newest, picture) in self.newest.iter_mut().zip(&pictures) {
            let given = picture.as_ref().map(|p| Newest { size: p.size(), frame });
            *newest = given.or(*newest);
        }
        let report = self.engine.wait(&ticket, None).map_err(failed)?;
        self.summary.add(&report);
        if sink.is_some() || self.score.is_some() {
            let record = self.record(index, &ticket, &report).map_err(failed)?;
            self.count(&record, shot.truth.as_ref());
            if let Some(sink) = sink {
                sink.frame(&record, &timing(self.plan, &report), &pictures)?;
            }
        }
        self.engine.release(ticket).map_err(failed)
    }

    /// Holds a frame's results against what its pictures show.
    fn count(&mut self, record: &FrameRecord, truth: Option<&Truth>) {
        if let (Some(score), Some(truth)) = (&mut self.score, truth) {
            score.add(record, truth);
        }
    }

    /// The pictures that the engine can take; the others are reported.
    fn usable(
        &mut self,
        index: usize,
        pictures: Vec<Option<Result<Picture, PictureError>>>,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Vec<Option<Picture>> {
        let mut usable = Vec::with_capacity(pictures.len());
        for (camera, picture) in pictures.into_iter().enumerate() {
            let checked = picture.map(|p| self.checked(index, camera, p));
            usable.push(match checked {
                None => None,
                Some(Ok(picture)) => Some(picture),
                Some(Err(problem)) => {
                    self.summary.problems += 1;
                    observe(Event::Problem(&problem));
                    None
                }
            });
        }
        usable
    }

    fn checked(&self, index: usize, camera: usize, picture: Result<Picture, PictureError>) -> Result<Picture, FrameError> {
        let picture = picture?;
        let Camera {
            name,
            max_width,
            max_height,
            ..
        } = &self.plan.cameras[camera];
        if picture.width() <= *max_width && picture.height() <= *max_height {
            return Ok(picture);
        }
        Err(FrameError::Large {
            file: self.source.place(index, camera).unwrap_or_default(),
            camera: name.clone(),
            width: picture.width(),
            height: picture.height(),
            max_width: *max_width,
            max_height: *max_height,
        })
    }

    fn record(&mut self, index: usize, ticket: &Ticket, report: &FrameReport) -> Result<FrameRecord, RunError> {
        let mut tenants = Vec::new();
        for tenant in (0..self.plan.tenants.len()).filter_map(TenantId::from_index) {
            let result = self.engine.result(ticket, tenant)?;
            tenants.push(self.recorder.record(self.plan, tenant.index(), &result, &self.newest));
        }
        let source = |(camera, of): (usize, &Camera)| (of.name.clone(), self.source.name(index, camera));
        Ok(FrameRecord {
            frame: report.frame,
            sources: self.plan.cameras.iter().enumerate().map(source).collect(),
            task_set: self.plan.task_set.clone(),
            plan: self.plan_digest.clone(),
            tenants,
        })
    }
}

fn image(picture: &Picture) -> Image<'_> {
    Image {
        data: picture.rgb(),
        width: picture.width(),
        height: picture.height(),
        stride: 3 * picture.width(),
        format: PixelFormat::Rgb8,
    }
}
