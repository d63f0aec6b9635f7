//! The simulator's rules fitted to frames that were measured.

use super::calibration::Calibration;
use super::costs::Costs;
use super::machine::Machine;
use super::predict::predict;
use crate::board::BoardRecord;
use crate::plan::format::{Operator, Plan};
use crate::planner::schedule::Schedule;
use crate::units::Nanos;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// Errors above this count more than once, as a part of the measured time: what searches find is where predictions are off.
const LARGE: f64 = 0.12;
/// How often.
const LARGE_WEIGHT: f64 = 2.0;
/// Figures change by no less than this, times 4, 2 and 1: one that is 0 would never grow otherwise.
const LEAST_STEP: u64 = 25;
/// A figure changes only where all errors together become smaller than this part of what they were.
const WORTH: f64 = 0.998;

/// Times of operators by tenant, name and number of chunks.
type Times = RefCell<BTreeMap<(u16, String, usize), Option<Nanos>>>;

/// A frame that was measured: its plan, and how long it took.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The plan, of one frame a cycle.
    pub plan: Plan,
    /// The median of its frames.
    pub time: Nanos,
}

impl Calibration {
    /// The figures under which predictions are nearest to what was measured, from these on: coordinate descent, one figure at a
    /// time through some values around it. The same observations give the same figures.
    pub fn fit(
        self,
        observed: &[Observed],
        board: &BoardRecord,
        measured: &(dyn Fn(&Plan, &Operator) -> Option<Nanos> + Sync),
    ) -> Calibration {
        // An operator's times are looked up once, whole and as it is cut.
        let mut known = vec![Times::default(); observed.len()];
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = observed.len().div_ceil(cores).max(1);
        let mut score = |calibration: &Calibration| {
            let machine = Machine::of(board).calibrated(Some(*calibration));
            let one = |(own, known): (&Observed, &Times)| {
                let time = |plan: &Plan, operator: &Operator| {
                    let key = (operator.tenant.0, operator.name.clone(), operator.chunks.len());
                    *known.borrow_mut().entry(key).or_insert_with(|| measured(plan, operator))
                };
                let error = own.error(machine, board, &time).abs();
                error + LARGE_WEIGHT * (error - LARGE).max(0.0)
            };
            let mut errors = vec![0.0; observed.len()];
            std::thread::scope(|scope| {
                let shares = observed.chunks(share).zip(known.chunks_mut(share)).zip(errors.chunks_mut(share));
                for ((observed, known), errors) in shares {
                    scope.spawn(move || {
                        let found = observed.iter().zip(&*known).map(one);
                        errors.iter_mut().zip(found).for_each(|(to, error)| *to = error);
                    });
                }
            });
            // In order, so that the sum does not depend on the number of threads.
            errors.iter().sum::<f64>()
        };
        let mut best = (score(&self), self);
        let mut step = 4;
        while step > 0 {
            let before = best.0;
            for figure in 0..=Self::FITTED {
                for more in [true, false] {
                    let mut tried = best.1;
                    if figure < Self::FITTED {
                        change(&mut *tried.figures()[figure], step, more);
                    } else {
                        // What all launches take longer is much the same as what their weights cost them: one goes for the other.
                        change(&mut tried.chain, step, !more);
                        change(&mut tried.cold, step, more);
                    }
                    let found = score(&tried);
                    if found < best.0 * WORTH {
                        best = (found, tried);
                        break;
                    }
                }
            }
            if best.0 >= before {
                step /= 2;
            }
        }
        best.1
    }
}

/// A figure tried anew: from half of it to twice as much at first, then in finer steps.
fn change(value: &mut u64, step: u64, more: bool) {
    let by = (*value * step / 8).max(LEAST_STEP * step);
    *value = if more { *value + by } else { value.saturating_sub(by).max(1) };
}

impl Observed {
    /// By how much the frame is predicted too long, as a part of what it took.
    pub fn error(&self, machine: Machine, board: &BoardRecord, measured: &dyn Fn(&Plan, &Operator) -> Option<Nanos>) -> f64 {
        let plan = &self.plan;
        let time = |o: &Operator| measured(plan, o);
        let costs = Costs::on(machine, &plan.operators, board, &time);
        let schedule = Schedule {
            operators: plan.operators.clone(),
            streams: plan.streams.clone(),
            cycle: plan.cycle.clone(),
        };
        match predict(&plan.tenants, &schedule, &costs, true) {
            Ok(prediction) => prediction.longest().0 as f64 / self.time.0.max(1) as f64 - 1.0,
            // Misses are allowed, so there is no such case.
            Err(_) => 0.0,
        }
    }
}
