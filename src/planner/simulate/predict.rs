//! Predictions of whole schedules: frame times, finishes, and the deadlines that they meet or miss (P8).

use super::costs::Costs;
use super::engine::Simulator;
use super::frame::Frame;
use super::trace::Trace;
use crate::plan::format::{FramePrediction, Prediction, Tenant};
use crate::planner::cost::Infeasible;
use crate::planner::schedule::Schedule;
use crate::units::Nanos;

/// Predicts every frame of a schedule; misses are stored if `best_effort`, refused otherwise.
pub fn predict(tenants: &[Tenant], schedule: &Schedule, costs: &Costs<'_>, best_effort: bool) -> Result<Prediction, Infeasible> {
    let mut simulator = Simulator::new(*costs.machine());
    let mut frames = Vec::with_capacity(schedule.cycle.len());
    for own in &schedule.cycle {
        let (frame, table) = Frame::of(own, &schedule.streams, &schedule.operators, costs);
        let total = Nanos(simulator.run(&frame, &table, &mut ()));
        let finish_of = |tenant| {
            let ends = frame.segments().iter().zip(simulator.ends());
            Nanos(ends.filter(|(s, _)| s.tenant == tenant).map(|(_, &end)| end).max().unwrap_or(0))
        };
        let finish: Vec<Nanos> = own.tenants.iter().map(|&t| finish_of(t)).collect();
        let mut misses = Vec::new();
        for (i, (tenant, end)) in own.tenants.iter().zip(&finish).enumerate() {
            let tenant = &tenants[tenant.index()];
            let Some(deadline) = tenant.urgency.deadline.filter(|d| end > d) else {
                continue;
            };
            if !best_effort {
                return Err(Infeasible {
                    tenant: tenant.name.clone(),
                    deadline,
                    late: Nanos(end.0 - deadline.0),
                });
            }
            misses.push(i as u16);
        }
        frames.push(FramePrediction { total, finish, misses });
    }
    Ok(Prediction {
        basis: costs.basis(),
        best_effort,
        frames,
    })
}

/// Simulates one frame of a schedule under a watchful eye.
pub fn trace(schedule: &Schedule, frame: usize, costs: &Costs<'_>) -> (Frame, Trace) {
    let (frame, table) = Frame::of(&schedule.cycle[frame], &schedule.streams, &schedule.operators, costs);
    let mut trace = Trace::of(&frame);
    Simulator::new(*costs.machine()).run(&frame, &table, &mut trace);
    (frame, trace)
}
