//! Our side of a comparison: an engine with two plans, of whole frames and of networks alone.

use super::BenchError;
use super::inputs::{self, Picture};
use super::measure::counted;
use super::mixes::{CompiledMix, Mix};
use crate::board::BoardRecord;
use crate::ids::{CameraId, TenantId};
use crate::plan::deployment::Deployment;
use crate::plan::format::Plan;
use crate::planner::{self, Compiled};
use crate::runtime::{Engine, Options};
use crate::units::Nanos;
use std::collections::BTreeMap;
use std::time::Instant;

/// The engine, and what its frames run on.
pub struct Ours {
    engine: Engine,
    frame: Side,
    networks: Side,
}

/// One plan and its inputs.
struct Side {
    task_set: String,
    pictures: Vec<Picture>,
    tensors: Vec<(usize, usize, Vec<u8>)>,
}

/// Which plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Pictures in, results out.
    Frame,
    /// Tensors in, tensors out.
    Networks,
}

/// Compiled task sets as a deployment in memory.
pub fn deployment(compiled: Vec<Compiled>, board: &BoardRecord) -> Result<Deployment, BenchError> {
    let name = compiled.first().map(|c| c.plan.task_set.clone()).unwrap_or_default();
    let table = planner::table(&compiled, board, &name, 1).map_err(|error| BenchError::Plan {
        name,
        error: Box::new(error),
    })?;
    let (mut plans, mut weights) = (Vec::new(), BTreeMap::new());
    for one in compiled {
        plans.push(one.plan);
        weights.extend(one.weight_files);
    }
    Ok(Deployment::assemble(table, plans, weights.into_values().collect())?)
}

/// A plan and its rivals as task sets of their own; the first has the weights of all.
pub(super) fn apart(mut compiled: Compiled) -> Vec<Compiled> {
    let rivals = std::mem::take(&mut compiled.rivals);
    let report = compiled.report.clone();
    let rival = |(number, mut plan): (usize, Plan)| {
        plan.task_set = format!("{}, rival {}", plan.task_set, number + 1);
        Compiled {
            plan,
            rivals: Vec::new(),
            weight_files: Vec::new(),
            report: report.clone(),
            refinery: None,
        }
    };
    let others = rivals.into_iter().enumerate().map(rival);
    std::iter::once(compiled).chain(others).collect()
}

/// A frame, from before its inputs are copied in until its last result is there.
fn frame(engine: &mut Engine, pictures: &[Picture], tensors: &[(usize, usize, Vec<u8>)]) -> Result<Nanos, BenchError> {
    let start = Instant::now();
    let mut draft = engine.begin()?;
    for (camera, picture) in pictures.iter().enumerate() {
        draft.copy_image(CameraId(camera as u16), &picture.image())?;
    }
    for (tenant, port, data) in tensors {
        draft.copy_input(TenantId(*tenant as u16), *port, data)?;
    }
    let ticket = draft.submit()?;
    engine.wait(&ticket, None)?;
    let time = start.elapsed();
    engine.release(ticket)?;
    Ok(Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

impl Ours {
    /// Opens an engine on both plans.
    pub fn open(mix: &Mix, compiled: CompiledMix, board: &BoardRecord, options: &Options) -> Result<Ours, BenchError> {
        let ranges: Vec<(f32, f32)> = mix.networks.iter().map(|n| n.range).collect();
        let side = |compiled: &Compiled, pictures: bool| Side {
            task_set: compiled.plan.task_set.clone(),
            pictures: compiled.plan.cameras.iter().filter(|_| pictures).map(Picture::of).collect(),
            tensors: inputs::tensors(&compiled.plan, &ranges),
        };
        let (frame, networks) = (side(&compiled.frame, true), side(&compiled.networks, false));
        let deployment = deployment(vec![compiled.frame, compiled.networks], board)?;
        Ok(Ours {
            engine: Engine::with(deployment, options)?,
            frame,
            networks,
        })
    }

    /// Runs frames one after another: `warm` uncounted ones, then `count` of which the times are returned, from before
    /// the inputs are copied in until the last result is there.
    pub fn run(&mut self, part: Part, warm: usize, count: usize) -> Result<Vec<Nanos>, BenchError> {
        let side = match part {
            Part::Frame => &self.frame,
            Part::Networks => &self.networks,
        };
        self.engine.select(&side.task_set)?;
        counted(warm, count, || frame(&mut self.engine, &side.pictures, &side.tensors))
    }

    /// Stops the engine.
    pub fn close(self) {
        self.engine.close();
    }
}
