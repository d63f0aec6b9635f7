//! An engine on a plan and its rivals with what their frames run on: times by two clocks, and results.
//!
//! A frame has two times. The host's goes from submission until the last result is there: on a GPU the launch, the copies of
//! inputs and results, and the wait are in it. The networks' own goes from the start of the first segment to the end of the
//! last, by the stamps of the progress words: nothing but the plan's work, on the device's clock.

use super::inputs::Picture;
use super::measure::{Samples, counted};
use super::{BenchError, ours};
use crate::board::BoardRecord;
use crate::ids::{CameraId, SegmentId, TenantId};
use crate::plan::format::{Plan, Port};
use crate::planner::Compiled;
use crate::runtime::{Draft, Engine, Options};
use crate::tensor::Tensor;
use crate::units::Nanos;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Frames that the trace holds; one is looked at as soon as it has ended.
const TRACED: usize = 4;

/// A tenant's outputs by name.
pub type Results = Vec<(String, Tensor)>;

/// True if all tensors of all tenants have the same bytes.
pub fn same_bits(a: &[Results], b: &[Results]) -> bool {
    let bytes = |all: &[Results]| -> Vec<Vec<u8>> { all.iter().flatten().map(|(_, t)| t.bytes().to_vec()).collect() };
    bytes(a) == bytes(b)
}

/// Times of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Whole frames, on the host's clock.
    pub frame: Vec<Nanos>,
    /// The plan's work alone, on the device's clock; empty if it was not asked.
    pub networks: Vec<Nanos>,
    /// On the same clock, for each frame when each segment began and ended, from the start of the first.
    pub segments: Vec<Vec<(Nanos, Nanos)>>,
}

impl Times {
    /// The work alone; whole frames where there is no device.
    pub fn device(self) -> Vec<Nanos> {
        if self.networks.is_empty() { self.frame } else { self.networks }
    }
}

/// What a side took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Whole frames, on the host's clock.
    pub frame: Samples,
    /// The plan's work alone, on the device's clock; empty if there is none.
    pub networks: Samples,
}

impl Side {
    /// The work alone; whole frames of a side that has no device.
    pub fn device(&self) -> &Samples {
        if self.networks.count() > 0 { &self.networks } else { &self.frame }
    }

    /// Adds frames.
    pub fn add(&mut self, times: Times) {
        self.frame.extend(times.frame);
        self.networks.extend(times.networks);
    }
}

/// What frames run on: the same in every frame.
#[derive(Default)]
pub struct Inputs {
    /// One a camera.
    pub pictures: Vec<Picture>,
    /// Tenant, port, bytes.
    pub tensors: Vec<(usize, usize, Vec<u8>)>,
}

/// Options for an engine that traces all segments of a frame of any of its plans.
pub(super) fn traced<'p>(plans: impl Iterator<Item = &'p Plan>, options: &Options) -> Options {
    let segments = plans.flat_map(|p| &p.cycle).map(|f| f.segments.len()).max().unwrap_or(0);
    Options {
        trace: segments * TRACED,
        ..options.clone()
    }
}

/// The engine, open on all plans.
pub struct Stage {
    engine: Engine,
    /// The task sets that the plans are told apart by.
    plans: Vec<String>,
    tenants: usize,
    /// Frames after which they repeat, of any of the plans.
    cycle: usize,
    inputs: Arc<Inputs>,
}

impl Stage {
    /// Opens an engine on a compiled task set's plan and its rivals.
    pub fn open(compiled: Compiled, inputs: impl Into<Arc<Inputs>>, board: &BoardRecord, options: &Options) -> Result<Stage, BenchError> {
        let options = traced(std::iter::once(&compiled.plan).chain(&compiled.rivals), options);
        let deployment = ours::deployment(ours::apart(compiled), board)?;
        Ok(Stage::over(Engine::with(deployment, &options)?, inputs.into()))
    }

    /// The stage of an engine whose options are [`traced`].
    pub(super) fn over(engine: Engine, inputs: Arc<Inputs>) -> Stage {
        Stage {
            plans: engine.task_sets().into_iter().map(str::to_string).collect(),
            tenants: engine.plan().tenants.len(),
            cycle: engine.plan().cycle.len().max(1),
            engine,
            inputs,
        }
    }

    /// Lets the frames that follow run by the plan (0) or one of its rivals, in their order (from 1).
    pub fn select(&mut self, plan: usize) -> Result<(), BenchError> {
        Ok(self.engine.select(&self.plans[plan])?)
    }

    /// Runs frames one after another: `warm` uncounted ones, then `count` of which the times are returned. Inputs are in
    /// place before the clock is read.
    pub fn run(&mut self, warm: usize, count: usize) -> Result<Times, BenchError> {
        let mut times = Times::default();
        for one in counted(warm, count, || self.frame_at(None))? {
            times.frame.extend(one.frame);
            times.networks.extend(one.networks);
            times.segments.extend(one.segments);
        }
        Ok(times)
    }

    /// Runs one frame whose clock starts, and which is submitted, at `start`; at once if that has passed or is `None`. What is
    /// late by then is part of the frame's time.
    pub fn frame_at(&mut self, start: Option<Instant>) -> Result<Times, BenchError> {
        let draft = self.draft()?;
        let frame = draft.frame();
        let start = start.unwrap_or_else(Instant::now);
        while Instant::now() < start {
            std::hint::spin_loop();
        }
        let ticket = draft.submit()?;
        self.engine.wait(&ticket, None)?;
        let time = start.elapsed();
        self.engine.release(ticket)?;
        let segments = self.segments(frame);
        Ok(Times {
            frame: vec![Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))],
            networks: segments.iter().map(|(_, end)| *end).max().into_iter().collect(),
            segments: vec![segments],
        })
    }

    /// For each plan whether its results are, bit for bit, those of the plan `reference`.
    pub fn identical(&mut self, reference: usize) -> Result<Vec<bool>, BenchError> {
        self.select(reference)?;
        let wanted = self.results()?;
        let mut identical = Vec::with_capacity(self.plans.len());
        for plan in 0..self.plans.len() {
            let same = plan == reference || {
                self.select(plan)?;
                same_bits(&self.results()?, &wanted)
            };
            identical.push(same);
        }
        Ok(identical)
    }

    /// When each segment of a frame began and ended, from the start of the first; none where nothing was traced.
    fn segments(&self, frame: u64) -> Vec<(Nanos, Nanos)> {
        let mut seen: BTreeMap<SegmentId, (u64, u64)> = BTreeMap::new();
        self.engine.trace(|event| {
            if event.frame == frame {
                seen.insert(event.segment, (event.start, event.end));
            }
        });
        let first = seen.values().map(|(start, _)| *start).min().unwrap_or(0);
        let since = |at: u64| Nanos(at.saturating_sub(first));
        seen.values().map(|&(start, end)| (since(start), since(end))).collect()
    }

    /// Runs the frames of a cycle: the latest results of each tenant.
    pub fn results(&mut self) -> Result<Vec<Results>, BenchError> {
        for _ in 1..self.cycle {
            self.frame_at(None)?;
        }
        let ticket = self.draft()?.submit()?;
        self.engine.wait(&ticket, None)?;
        let mut all = Vec::with_capacity(self.tenants);
        for tenant in 0..self.tenants {
            let result = self.engine.result(&ticket, TenantId(tenant as u16))?;
            let tensor = |(port, bytes): (&Port, &[u8])| {
                let tensor = Tensor::from_bytes(port.view.dtype, port.view.layout.shape, bytes)?;
                Some((port.name.clone(), tensor))
            };
            all.push(result.tensors().filter_map(tensor).collect());
        }
        self.engine.release(ticket)?;
        Ok(all)
    }

    /// A frame with its inputs in place.
    fn draft(&mut self) -> Result<Draft<'_>, BenchError> {
        let mut draft = self.engine.begin()?;
        for (camera, picture) in self.inputs.pictures.iter().enumerate() {
            draft.copy_image(CameraId(camera as u16), &picture.image())?;
        }
        for (tenant, port, data) in &self.inputs.tensors {
            draft.copy_input(TenantId(*tenant as u16), *port, data)?;
        }
        Ok(draft)
    }

    /// Stops the engine.
    pub fn close(self) {
        self.engine.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Data, Shape};

    #[test]
    fn results_differ_by_a_bit() {
        let results = |x: f32| {
            let tensor = Tensor::new(Shape::new(&[1]).unwrap(), Data::F32(vec![x])).unwrap();
            vec![vec![("y".to_string(), tensor)]]
        };
        assert!(same_bits(&results(f32::NAN), &results(f32::NAN)));
        assert!(!same_bits(&results(0.0), &results(-0.0)));
    }
}
