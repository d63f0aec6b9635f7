//! Predicted times from counted operations and bytes.
//!
//! An operator takes `max(multiply-adds / rate, bytes / bandwidth) + issue`, with the board's sustained rates: the roofline
//! of Williams, Waterman and Patterson 2009 plus the cost of an issue. A frame is predicted by processor sharing: every
//! segment that may run gets an equal share of the board, so k streams at work each go on at 1/k of their speed alone.
//! Such predictions are marked `estimated`. A board's operator table (see [`super::optable`]) replaces the roofline; where it
//! knows every operator of a plan, the prediction is marked `measured`.

use super::schedule::Schedule;
use crate::board::BoardRecord;
use crate::plan::format::{Basis, Call, FramePrediction, FrameSchedule, Operand, Operator, Prediction, Tenant, View};
use crate::primitive::Primitive;
use crate::units::Nanos;

/// Multiply-adds of one call, counting every elementwise function as one.
fn operations(call: &Call) -> u64 {
    let out = call.shape.elements();
    let shape = |i: usize| match call.inputs.get(i) {
        Some(Operand::View(v)) => Some(v.layout.shape),
        _ => None,
    };
    let per_output = match &call.primitive {
        Primitive::Conv { window, .. } => window.taps() * shape(1).map_or(1, |w| u64::from(w.dim(1))),
        Primitive::ConvTranspose { window, groups } => {
            let strides: u64 = window.stride.iter().map(|&s| u64::from(s)).product();
            let inputs = shape(0).map_or(1, |x| u64::from(x.dim(1)) / u64::from(*groups).max(1));
            window.taps().div_ceil(strides.max(1)) * inputs
        }
        Primitive::MatMul => shape(0).map_or(1, |a| u64::from(a.dim(a.rank().saturating_sub(1)))),
        Primitive::Pool { window, .. } => window.taps(),
        Primitive::Reduce { .. } => shape(0).map_or(1, |x| x.elements().checked_div(out).unwrap_or(1)),
        Primitive::Softmax { .. } | Primitive::Normalise { .. } => 12,
        // A key's product with the query is shared by the elements of its value.
        Primitive::Attention { .. } => shape(1).map_or(1, |k| {
            let (d, keys) = (
                u64::from(k.dim(k.rank().saturating_sub(2))),
                u64::from(k.dim(k.rank().saturating_sub(1))),
            );
            keys + ((d + 12) * keys).div_ceil(u64::from(call.shape.dim(call.shape.rank().saturating_sub(1))).max(1))
        }),
        // Four gates of one multiply-add per hidden unit.
        Primitive::Lstm { .. } => 4 * u64::from(call.shape.dim(2)),
        Primitive::Resize(_) | Primitive::Prepare(_) | Primitive::Crop(_) => 8,
        _ => 1,
    };
    out.saturating_mul(per_output)
}

/// Bytes that a view's distinct elements occupy.
fn bytes(view: &View) -> u64 {
    let layout = &view.layout;
    let extents = layout.shape.dims().iter().zip(layout.strides());
    let distinct: u64 = extents.filter(|(_, s)| **s != 0).map(|(&d, _)| u64::from(d)).product();
    distinct.saturating_mul(view.dtype.bytes())
}

/// Multiply-adds and bytes of a whole operator.
pub fn work(operator: &Operator) -> (u64, u64) {
    let macs = operator.calls.iter().map(operations).fold(0, u64::saturating_add);
    let inputs = operator.calls.iter().flat_map(|c| &c.inputs);
    let views = inputs.filter_map(|o| match o {
        Operand::View(v) => Some(v),
        Operand::Inner(_) => None,
    });
    (macs, views.chain(&operator.outputs).map(bytes).fold(0, u64::saturating_add))
}

/// The time of a whole operator alone on the board.
pub fn estimate(operator: &Operator, board: &BoardRecord) -> Nanos {
    let (macs, bytes) = work(operator);
    let time = |amount: u64, rate: f32| amount as f64 / f64::from(rate.max(1e-6));
    let longest = time(macs, board.macs_per_ns).max(time(bytes, board.bytes_per_ns));
    Nanos(longest.ceil() as u64 + board.issue.0)
}

/// A deadline that the prediction misses, where misses are not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "tenant `{tenant}` would finish {late} after its deadline of {deadline}: lengthen the deadline, lower its rate or load, or ask for best effort"
)]
pub struct Infeasible {
    /// The tenant.
    pub tenant: String,
    /// Its deadline.
    pub deadline: Nanos,
    /// By how much it is missed.
    pub late: Nanos,
}

/// How long each operator takes alone on the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alone {
    /// One an operator.
    pub times: Vec<Nanos>,
    /// Where they come from: measured if all are.
    pub basis: Basis,
}

impl Alone {
    /// Measured times where `measured` knows them, estimates for the others.
    pub fn of(operators: &[Operator], board: &BoardRecord, measured: impl Fn(&Operator) -> Option<Nanos>) -> Alone {
        let known: Vec<Option<Nanos>> = operators.iter().map(measured).collect();
        let basis = match known.iter().all(Option::is_some) {
            true => Basis::Measured,
            false => Basis::Estimated,
        };
        let time = |(operator, known): (&Operator, Option<Nanos>)| known.unwrap_or_else(|| estimate(operator, board));
        Alone {
            times: operators.iter().zip(known).map(time).collect(),
            basis,
        }
    }
}

/// Predicts every frame of a schedule from estimates; see [`predict_from`].
pub fn predict(tenants: &[Tenant], schedule: &Schedule, board: &BoardRecord, best_effort: bool) -> Result<Prediction, Infeasible> {
    let alone = Alone {
        times: schedule.operators.iter().map(|o| estimate(o, board)).collect(),
        basis: Basis::Estimated,
    };
    predict_from(tenants, schedule, &alone, best_effort)
}

/// Predicts every frame of a schedule; misses are stored if `best_effort`, refused otherwise.
pub fn predict_from(tenants: &[Tenant], schedule: &Schedule, alone: &Alone, best_effort: bool) -> Result<Prediction, Infeasible> {
    let mut frames = Vec::with_capacity(schedule.cycle.len());
    for frame in &schedule.cycle {
        let ends = simulate(frame, schedule, &alone.times);
        let finish_of = |tenant| {
            let own = frame.segments.iter().zip(&ends).filter(|(s, _)| s.tenant == tenant);
            Nanos(own.map(|(_, &end)| end).max().unwrap_or(0))
        };
        let finish: Vec<Nanos> = frame.tenants.iter().map(|&t| finish_of(t)).collect();
        let mut misses = Vec::new();
        for (i, (tenant, end)) in frame.tenants.iter().zip(&finish).enumerate() {
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
        frames.push(FramePrediction {
            total: Nanos(ends.iter().copied().max().unwrap_or(0)),
            finish,
            misses,
        });
    }
    Ok(Prediction {
        basis: alone.basis,
        best_effort,
        frames,
    })
}

/// End of every segment of a frame in nanoseconds, by processor sharing in exact integers.
fn simulate(frame: &FrameSchedule, schedule: &Schedule, alone: &[Nanos]) -> Vec<u64> {
    let cost = |s: &crate::plan::format::Segment| -> u64 {
        let share = |step: &crate::plan::format::Step| {
            let operator = &schedule.operators[step.operator.index()];
            let area = |r: &crate::primitive::Region| r.batch.len() as u64 * r.rows.len() as u64;
            let whole: u64 = operator.chunks.iter().map(area).sum();
            alone[step.operator.index()]
                .0
                .saturating_mul(area(&operator.chunks[usize::from(step.chunk)]))
                .div_ceil(whole.max(1))
        };
        s.steps.iter().map(share).fold(0, u64::saturating_add)
    };
    let mut left: Vec<u64> = frame.segments.iter().map(cost).collect();
    let mut ends: Vec<Option<u64>> = vec![None; left.len()];
    let mut now = 0u64;
    loop {
        // A segment runs if the one before it on its stream, and all it waits for, have ended.
        let mut busy = vec![false; schedule.streams.len()];
        let mut running = Vec::new();
        for (i, segment) in frame.segments.iter().enumerate() {
            if ends[i].is_some() || std::mem::replace(&mut busy[segment.stream.index()], true) {
                continue;
            }
            let id = crate::ids::SegmentId(i as u32);
            let waits = frame.syncs.iter().filter(|s| s.before.contains(&id)).flat_map(|s| &s.after);
            if waits.clone().all(|a| ends[a.index()].is_some()) {
                running.push(i);
            }
        }
        let Some(shortest) = running.iter().map(|&i| left[i]).min() else {
            break;
        };
        now = now.saturating_add(shortest.saturating_mul(running.len() as u64));
        for &i in &running {
            left[i] -= shortest;
            if left[i] == 0 {
                ends[i] = Some(now);
            }
        }
    }
    ends.into_iter().map(|e| e.unwrap_or(now)).collect()
}
