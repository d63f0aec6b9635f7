//! Estimated times of operators from counted operations and bytes.
//!
//! An operator takes `max(multiply-adds / rate, bytes / bandwidth) + issue`, with the board's sustained rates: the roofline
//! of Williams, Waterman and Patterson 2009 plus the cost of an issue, and what steps wait for each other. A board's operator
//! table (see [`super::optable`]) replaces the roofline; where it knows every operator of a plan, the plan's prediction is
//! marked `measured`, else `estimated`. What operators take together is for [`super::simulate`] to say.

use crate::board::{BackendKind, BoardRecord};
use crate::ids::BufferId;
use crate::plan::format::{Call, Family, Operand, Operator, View};
use crate::plan::tactic::recurrent;
use crate::primitive::{Places, Primitive, Sample};
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
        Primitive::Softmax { .. } | Primitive::Normalise { .. } | Primitive::RmsNormalise { .. } | Primitive::GroupNormalise { .. } => 12,
        Primitive::Expectation { .. } => 12 * shape(1).map_or(1, |values| values.elements()),
        // A key's product with the query is shared by the elements of its value.
        Primitive::Attention { .. } => shape(1).map_or(1, |k| {
            let (d, keys) = (
                u64::from(k.dim(k.rank().saturating_sub(2))),
                u64::from(k.dim(k.rank().saturating_sub(1))),
            );
            keys + ((d + 12) * keys).div_ceil(u64::from(call.shape.dim(call.shape.rank().saturating_sub(1))).max(1))
        }),
        // Four gates of one multiply-add per hidden unit.
        Primitive::Lstm { .. } | Primitive::Gru { .. } => 4 * u64::from(call.shape.dim(2)),
        Primitive::Sample(_) => 16 * samples(call),
        Primitive::Resize(_) | Primitive::Prepare(_) | Primitive::Crop(_) => 8,
        _ => 1,
    };
    out.saturating_mul(per_output)
}

/// Samples that an element of a call's result is made of: more than one where they are weighed and added.
fn samples(call: &Call) -> u64 {
    match (call.primitive, call.inputs.get(1)) {
        (
            Primitive::Sample(Sample {
                places: Places::Sums { .. },
                ..
            }),
            Some(Operand::View(places)),
        ) => u64::from(places.layout.shape.dim(2)),
        _ => 1,
    }
}

/// Bytes that a view's distinct elements occupy.
fn bytes(view: &View) -> u64 {
    let layout = &view.layout;
    let extents = layout.shape.dims().iter().zip(layout.strides());
    let distinct: u64 = extents.filter(|(_, s)| **s != 0).map(|(&d, _)| u64::from(d)).product();
    distinct.saturating_mul(view.dtype.bytes())
}

/// Multiply-adds and bytes of a whole operator; a view that several calls read counts once.
pub fn work(operator: &Operator) -> (u64, u64) {
    let macs = operator.calls.iter().map(operations).fold(0, u64::saturating_add);
    let mut met: Vec<View> = Vec::new();
    let mut read = 0u64;
    for call in &operator.calls {
        for (index, input) in call.inputs.iter().enumerate() {
            let Operand::View(view) = input else { continue };
            if met.contains(view) {
                continue;
            }
            met.push(*view);
            // Of what a gathering call chooses from, no more is read than it gives.
            let most = match call.primitive {
                Primitive::Gather { .. } | Primitive::Sample(_) if index == 0 => {
                    let chosen = call.shape.elements().saturating_mul(samples(call));
                    chosen.saturating_mul(view.dtype.bytes())
                }
                _ => u64::MAX,
            };
            read = read.saturating_add(bytes(view).min(most));
        }
    }
    (macs, read.saturating_add(written(operator)))
}

/// Bytes of an operator's results.
pub fn written(operator: &Operator) -> u64 {
    operator.outputs.iter().map(bytes).fold(0, u64::saturating_add)
}

/// Bytes that an operator reads from buffers that are not `written`, each view once.
pub fn unwritten(operator: &Operator, written: impl Fn(BufferId) -> bool) -> u64 {
    let mut met: Vec<&View> = Vec::new();
    for input in operator.calls.iter().flat_map(|c| &c.inputs) {
        if let Operand::View(view) = input
            && !written(view.buffer)
            && !met.contains(&view)
        {
            met.push(view);
        }
    }
    met.into_iter().map(bytes).fold(0, u64::saturating_add)
}

/// The time of a whole operator alone on the board.
pub fn estimate(operator: &Operator, board: &BoardRecord) -> Nanos {
    let (macs, bytes) = work(operator);
    let time = |amount: u64, rate: f32| amount as f64 / f64::from(rate.max(1e-6));
    let longest = time(macs, board.macs_per_ns).max(time(bytes, board.bytes_per_ns));
    Nanos(longest.ceil() as u64 + board.issue.0 + waits(operator, board))
}

/// What the steps of a recurrence wait for each other on a GPU, in nanoseconds: they exchange states between blocks, which takes
/// about as long as three halves of an issue (1.2 microseconds on an H200, whatever the batch), inside a block about half of one.
fn waits(operator: &Operator, board: &BoardRecord) -> u64 {
    let waits = |call: &Call| match call.primitive {
        Primitive::Lstm { .. } | Primitive::Gru { .. } => {
            let inside = operator.class.family == Family::TensorCore && recurrent::keeper(call.shape.dim(2)).is_some();
            let step = if inside { board.issue.0 / 2 } else { 3 * board.issue.0 / 2 };
            u64::from(call.shape.dim(0)).saturating_mul(step)
        }
        _ => 0,
    };
    match board.backend {
        BackendKind::Cuda => operator.calls.iter().map(waits).fold(0, u64::saturating_add),
        BackendKind::Cpu => 0,
    }
}

/// A deadline that the prediction misses, where misses are not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "tenant `{tenant}` would finish {late} after its deadline of {deadline}: lengthen the deadline, lower its rate or load, let another \
     method search, or ask for best effort"
)]
pub struct Infeasible {
    /// The tenant.
    pub tenant: String,
    /// Its deadline.
    pub deadline: Nanos,
    /// By how much it is missed.
    pub late: Nanos,
}
