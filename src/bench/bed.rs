//! A bed for trying many plans of the same networks, some at a time: weights and kernels are there once for all of them.

use super::BenchError;
use super::measure::WARM;
use super::refine::Meter;
use super::stage::{Inputs, Stage, traced};
use crate::backend::Backend;
use crate::board::BoardRecord;
use crate::plan::deployment::Deployment;
use crate::plan::format::{Digest, Plan};
use crate::plan::table::{Entry, Table};
use crate::plan::weights::WeightStore;
use crate::runtime::{Engine, Options, keeping};
use crate::units::Nanos;
use std::sync::Arc;

/// The bed.
pub struct Bed {
    backend: Box<dyn Backend>,
    weights: WeightStore,
    inputs: Arc<Inputs>,
    board: BoardRecord,
    options: Options,
    stage: Option<Stage>,
    /// Frames after which they repeat.
    cycle: usize,
}

impl Bed {
    /// A bed for plans whose weight files are these.
    pub fn new(
        weight_files: &[(Digest, Vec<u8>)],
        inputs: impl Into<Arc<Inputs>>,
        board: &BoardRecord,
        options: &Options,
    ) -> Result<Bed, BenchError> {
        let mut weights = WeightStore::new();
        weight_files.iter().for_each(|(_, bytes)| {
            weights.own(bytes);
        });
        Ok(Bed {
            backend: keeping(options.backend.unwrap_or(board.backend), options)?,
            weights,
            inputs: inputs.into(),
            board: board.clone(),
            options: options.clone(),
            stage: None,
            cycle: 1,
        })
    }
}

impl Meter for Bed {
    fn load(&mut self, mut plans: Vec<Plan>) -> Result<(), BenchError> {
        self.unload();
        self.cycle = plans.iter().map(|p| p.cycle.len()).max().unwrap_or(1).max(1);
        for (number, plan) in plans.iter_mut().enumerate() {
            plan.task_set = format!("plan {number}");
        }
        let table = Table {
            board: self.board.clone(),
            backend: self.board.backend,
            default_task_set: plans.first().map(|p| p.task_set.clone()).unwrap_or_default(),
            slots: 1,
            cameras: plans.first().map(|p| p.cameras.clone()).unwrap_or_default(),
            entries: plans.iter().map(Entry::of).collect(),
        };
        let options = traced(plans.iter(), &self.options);
        let deployment = Deployment::over(table, plans, self.weights.clone())?;
        let engine = Engine::over(deployment, &*self.backend, &options)?;
        self.stage = Some(Stage::over(engine, self.inputs.clone()));
        Ok(())
    }

    fn run(&mut self, plan: usize, frames: usize) -> Result<Vec<Nanos>, BenchError> {
        let Some(stage) = &mut self.stage else { return Ok(Vec::new()) };
        stage.select(plan)?;
        // Where frames differ, a sample is the mean of those of a cycle.
        let times = stage.run(WARM, frames * self.cycle)?.device();
        let mean = |some: &[Nanos]| Nanos(some.iter().map(|t| t.0).sum::<u64>() / some.len().max(1) as u64);
        Ok(times.chunks(self.cycle).map(mean).collect())
    }

    fn unload(&mut self) {
        if let Some(stage) = self.stage.take() {
            stage.close();
        }
    }
}
