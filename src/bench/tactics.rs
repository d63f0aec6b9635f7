//! The times of all tactics of a plan's operators on a board, for its operator table.
//!
//! Each operator runs on its own with every tactic of its menu, a chain of repetitions a tactic, all tactics in turn in
//! every frame, so that what else the machine does meets them alike. A chain's time is that of its segment, on the device's
//! own clock; what begins and ends a segment is spread over its repetitions.

use super::BenchError;
use super::agree::alone;
use super::inputs::{self, Picture};
use super::measure::Samples;
use crate::board::BoardRecord;
use crate::ids::{CameraId, PlanId, TenantId};
use crate::limits::MAX_BYTES;
use crate::plan::deployment::Deployment;
use crate::plan::format::Plan;
use crate::plan::tactic::{self, Target};
use crate::planner::isolate::{Isolated, Trial, isolate};
use crate::planner::optable::{Key, Measured, OpTable};
use crate::runtime::{Engine, Options};
use crate::units::Nanos;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Times that a tactic runs in a frame.
const REPEATS: u32 = 16;
/// Frames before those that count: they fetch code and weights into the caches and raise the clocks.
const WARM: usize = 3;
/// Frames that count.
const FRAMES: usize = 20;
/// Operators of one plan on the device.
const GROUP: usize = 24;
/// The range of noise in operands.
const RANGE: (f32, f32) = (-1.0, 1.0);

/// How far a table has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Operators that differ in what their time depends on.
    pub operators: usize,
    /// Of them, those whose tactics all have times.
    pub known: usize,
}

impl Progress {
    /// True if nothing is left to measure.
    pub fn complete(&self) -> bool {
        self.known == self.operators
    }
}

/// An operator with tactics that have no time yet, under the keys of their times.
struct Open {
    trial: Trial,
    keys: Vec<Key>,
}

/// Measures what the table lacks of a deployment's plans, until `deadline` or until nothing is left. `save` is given the
/// table after every group of operators, so that a measurement can be broken off and taken up again.
pub fn measure(
    deployment: &Deployment,
    table: &mut OpTable,
    options: &Options,
    deadline: Option<Instant>,
    save: &mut dyn FnMut(&OpTable, Progress) -> Result<(), BenchError>,
) -> Result<Progress, BenchError> {
    let mut seen = BTreeSet::new();
    let mut progress = Progress::default();
    for (index, plan) in deployment.plans.iter().enumerate() {
        let Some(id) = PlanId::from_index(index) else { break };
        let open = open(plan, &deployment.table.board, table, &mut seen, &mut progress);
        for group in open.chunks(GROUP) {
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(progress);
            }
            time(deployment, id, group, table, options)?;
            progress.known += group.len();
            save(table, progress)?;
        }
    }
    Ok(progress)
}

/// The operators of a plan that were not met before and have tactics without times.
fn open(plan: &Plan, board: &BoardRecord, table: &OpTable, seen: &mut BTreeSet<Vec<Key>>, progress: &mut Progress) -> Vec<Open> {
    let mut open = Vec::new();
    for (index, operator) in plan.operators.iter().enumerate() {
        let menu = tactic::menu(plan, operator, Target::of(board));
        let keys: Vec<Key> = menu.iter().map(|&t| table.key(plan, operator, t)).collect();
        if menu.is_empty() || !seen.insert(keys.clone()) {
            continue;
        }
        progress.operators += 1;
        let left = || menu.iter().zip(&keys).filter(|(_, key)| table.time(key).is_none());
        if left().next().is_none() {
            progress.known += 1;
            continue;
        }
        open.push(Open {
            trial: Trial {
                operator: crate::ids::OperatorId(index as u32),
                tactics: left().map(|(t, _)| *t).collect(),
                repeats: REPEATS,
            },
            keys: left().map(|(_, key)| key.clone()).collect(),
        });
    }
    open
}

/// Times a group of operators and notes what was found.
fn time(deployment: &Deployment, id: PlanId, group: &[Open], table: &mut OpTable, options: &Options) -> Result<(), BenchError> {
    let plan: &Plan = &deployment.plans[id.index()];
    let board = BoardRecord {
        memory_budget: MAX_BYTES,
        ..deployment.table.board.clone()
    };
    let trials: Vec<Trial> = group.iter().map(|o| o.trial.clone()).collect();
    let isolated = isolate(plan, &trials, &board).map_err(|error| BenchError::Plan {
        name: plan.task_set.clone(),
        error: Box::new(error),
    })?;
    let segments = isolated.plan.cycle.iter().map(|f| f.segments.len()).sum::<usize>();
    let options = Options {
        trace: segments * (WARM + FRAMES),
        ..options.clone()
    };
    let engine = Engine::with(alone(deployment, plan, &isolated, &board)?, &options)?;
    let samples = run(engine, &isolated, segments)?;
    for (open, ends) in group.iter().zip(&isolated.operators) {
        for (key, segment) in open.keys.iter().zip(&ends.segments) {
            let all = &samples[segment.index()];
            if all.count() > 0 {
                let measured = Measured {
                    median: all.median(),
                    spread: Nanos(all.quantile(0.9).0 - all.quantile(0.1).0),
                    runs: all.count() as u32,
                };
                table.note(key.clone(), measured);
            }
        }
    }
    Ok(())
}

/// Runs an isolated plan on noise; the times of one repetition in each segment.
fn run(mut engine: Engine, isolated: &Isolated, segments: usize) -> Result<Vec<Samples>, BenchError> {
    let pictures: Vec<Picture> = isolated.plan.cameras.iter().map(Picture::of).collect();
    let tensors = inputs::tensors(&isolated.plan, &[RANGE]);
    for _ in 0..WARM + FRAMES {
        let mut draft = engine.begin()?;
        for (camera, picture) in pictures.iter().enumerate() {
            draft.copy_image(CameraId(camera as u16), &picture.image())?;
        }
        for (tenant, port, data) in &tensors {
            draft.copy_input(TenantId(*tenant as u16), *port, data)?;
        }
        let ticket = draft.submit()?;
        engine.wait(&ticket, None)?;
        engine.release(ticket)?;
    }
    let mut samples = vec![Samples::default(); segments];
    engine.trace(|event| {
        let counts = event.frame >= WARM as u64 && event.end > event.start;
        if let Some(of) = samples.get_mut(event.segment.index()).filter(|_| counts) {
            of.extend([Nanos((event.end - event.start) / u64::from(REPEATS))]);
        }
    });
    engine.close();
    Ok(samples)
}

/// When a budget of seconds that starts now is spent.
pub fn deadline(budget: Option<Duration>) -> Option<Instant> {
    budget.map(|b| Instant::now() + b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::architecture::Toolkit;
    use crate::bench::zoo::build::Net;
    use crate::bench::zoo::layers::Conv;
    use crate::board::BackendKind;
    use crate::plan::format::Basis;
    use crate::planner::optable::Provenance;
    use crate::planner::{self, CompileOptions, Compiled, boards};
    use crate::tensor::DType;
    use std::sync::Arc;

    fn compile(board: &BoardRecord, times: Option<Arc<OpTable>>) -> Compiled {
        let mut net = Net::new("net", 7);
        let x = net.input("x", DType::F32, &[1, 8, 6, 6]);
        let a = net.conv("a", x, Conv::new(8, 3).pad(1).bias());
        let a = net.conv("b", a, Conv::new(8, 3).pad(1).bias());
        let a = net.max_pool("pool", a, 2, 2, 0);
        net.output("y", a);
        let options = CompileOptions {
            dtype: DType::F16,
            best_effort: true,
            times,
            ..CompileOptions::default()
        };
        planner::compile_graph("net", net.finish().graph, board, &options).unwrap()
    }

    #[test]
    fn what_was_measured_is_planned_with_and_not_measured_again() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/boards/orin.toml");
        let board = boards::load(file).unwrap();
        let version = Toolkit { major: 12, minor: 6 };
        let mut table = OpTable::new(Provenance {
            board: board.name.clone(),
            architecture: board.architecture.clone(),
            units: board.units,
            gpu: "the processor".into(),
            driver: version,
            toolkit: version,
            date: String::new(),
        });
        // The processor stands in for the GPU: it runs every tactic's plan, and its segments have times too.
        let options = Options {
            backend: Some(BackendKind::Cpu),
            workers: Some(1),
            ..Options::default()
        };
        let estimated = compile(&board, None);
        assert_eq!(estimated.plan.prediction.basis, Basis::Estimated);
        let deployment = super::super::ours::deployment(vec![estimated], &board).unwrap();
        let mut saved = 0;
        let mut count = |_: &OpTable, _: Progress| {
            saved += 1;
            Ok(())
        };
        let spent = measure(&deployment, &mut table, &options, Some(Instant::now()), &mut count).unwrap();
        assert!(
            spent.operators > 0 && spent.known == 0 && table.is_empty(),
            "a budget of nothing: {spent:?}"
        );
        let done = measure(&deployment, &mut table, &options, None, &mut count).unwrap();
        assert!(done.complete() && done.operators == spent.operators, "{done:?}");
        let times = table.len();
        assert!(times >= done.operators);
        let again = measure(&deployment, &mut table, &options, None, &mut count).unwrap();
        assert_eq!((again, table.len(), saved), (done, times, 1), "everything is known");

        let planned = compile(&board, Some(Arc::new(table))).plan;
        assert_eq!(planned.prediction.basis, Basis::Measured);
        assert!(planned.prediction.frames[0].total.0 > 0);
    }
}
