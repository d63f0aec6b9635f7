//! What the GPU kernels take that compute on ordinary arithmetic units: all but image preparation, decoding, and products on
//! tensor cores.
//!
//! They compute f32 and f16 in any mixture, with any tail of floats. The generic kernel takes everything else too.

use super::forms::need;
use super::resized::is_planes;
use super::{Misfit, group_normalise, reduction};
use crate::plan::format::{ArithmeticClass, Call, Family, Kernel, Operand, Operator, Plan, Space, Tactic, View};
use crate::primitive::{Coordinates, Primitive, ReduceKind, Window};
use crate::tensor::DType;

/// The kernels, in the order in which the menu prefers them; the generic kernel comes behind them.
pub(super) const KERNELS: [Kernel; 15] = [
    Kernel::MatVec,
    Kernel::ConvDepthwise,
    Kernel::ConvTranspose,
    Kernel::MatMul,
    Kernel::Elementwise,
    Kernel::Copy,
    Kernel::Pool,
    Kernel::Reduce,
    Kernel::Softmax,
    Kernel::Resize,
    Kernel::Recurrent,
    Kernel::Normalise,
    Kernel::GroupNormalise,
    Kernel::Attention,
    Kernel::Places,
];

/// Ranges of K of a product or reduction that is split: one a lane of a warp.
const SPLITS: u16 = 32;
/// Ranges of a long reduction: one a thread of a block.
const MANY_SPLITS: u16 = 256;
/// Fewest elements that are cut into so many ranges where the last axis or neighbours are kept, or where pixels are reduced.
const LARGE_PICTURE: u64 = 512;
/// Fewest elements that are cut into so many ranges elsewhere: there a warp keeps up with shorter ones.
const LONG_ROW: u64 = 4096;
/// Ranges of K of a split product are a multiple of this: what a lane reads at once.
pub const PRODUCT_STEP: u32 = 8;
/// Fewest weights of a fully connected layer whose cost is that of reading them.
const STREAMED: u64 = 1 << 16;
/// Shortest f16 reduction that is split.
const SPLIT_REDUCTION: u64 = 32;
/// Longest f16 reduction that the kernel takes, so that positions of empty ranges stay in 32 bits.
const LONGEST_REDUCTION: u64 = 1 << 26;
/// Most hidden units of a recurrent layer: six floats of each lie in shared memory.
const MAX_HIDDEN: u32 = 4096;

/// Most elements of a key, and of a value, that attention's kernel takes: steps of both lie in shared memory.
pub const MAX_ATTENTION_WIDTH: u32 = 96;

/// The class of operators that sum in several ranges of K; `None` for those that sum in one.
pub(super) fn class(plan: &Plan, operator: &Operator) -> Option<ArithmeticClass> {
    let call = operator.calls.first()?;
    let (x, split) = (view(call, 0)?, call.dtype == DType::F16);
    let split_k = match call.primitive {
        Primitive::Reduce {
            kind: ReduceKind::Mean | ReduceKind::Sum | ReduceKind::Norm,
            axes,
        } => match x.layout.shape.elements_along(axes) {
            LARGE_PICTURE.. if over_pixels(x, axes) && pixels(x, x).is_ok() => MANY_SPLITS,
            LARGE_PICTURE.. if axes & 1 == 0 && takes_columns(x, axes) => MANY_SPLITS,
            LONG_ROW.. if axes & 1 == 0 => MANY_SPLITS,
            SPLIT_REDUCTION.. if axes & 1 == 0 => SPLITS,
            _ => 1,
        },
        _ if streams(plan, call) => SPLITS,
        _ => 1,
    };
    (split && split_k > 1).then_some(ArithmeticClass {
        family: Family::Fma,
        split_k,
    })
}

/// True for a reduction of the rows and columns of pictures.
fn over_pixels(x: &View, axes: u8) -> bool {
    axes == 0b1100 && x.layout.shape.rank() == 4
}

/// True for a reduction that keeps the last axis.
fn keeps_last(x: &View, axes: u8) -> bool {
    axes >> x.layout.shape.rank().saturating_sub(1) == 0
}

/// True for a reduction whose results have neighbours: an axis that is kept lies side by side, or, where none does and the reduced
/// elements do not either, the last is kept.
fn takes_columns(x: &View, axes: u8) -> bool {
    match reduction::walk(x, axes) {
        Ok(walk) if walk.neighbours.is_some() => true,
        Ok(walk) if walk.parts.first().is_some_and(|&(_, step)| step == 1) => false,
        _ => keeps_last(x, axes),
    }
}

/// A product of one row a sample with a constant matrix, whose cost is that of reading the matrix: large fully connected
/// layers, and 1x1 convolutions of one pixel, whose few outputs leave tensor cores idle.
fn streams(plan: &Plan, call: &Call) -> bool {
    let Some(x) = view(call, 0) else { return false };
    let row = match &call.primitive {
        Primitive::MatMul => {
            let weights = u64::from(x.layout.shape.dim(1)) * u64::from(call.shape.dim(1));
            x.layout.shape.rank() == 2 && weights >= STREAMED
        }
        Primitive::Conv { window, groups: 1 } => *window == Window::new(&[1, 1]) && x.layout.shape.dims()[2..] == [1, 1],
        _ => false,
    };
    row && constant(plan, call, 1)
}

/// The table of these kernels.
pub(super) fn fits(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    let call = operator.calls.first().ok_or(Misfit::Primitive)?;
    need(tactic == Tactic::of(tactic.kernel), Misfit::Tile)?;
    use Primitive as P;
    if tactic.kernel == Kernel::Generic {
        let own = matches!(
            call.primitive,
            P::Prepare(_)
                | P::Crop(_)
                | P::DecodeYolox { .. }
                | P::Nms(_)
                | P::TopK
                | P::ArgMax { .. }
                | P::Lstm { .. }
                | P::Gru { .. }
                | P::Normalise { .. }
                | P::RmsNormalise { .. }
                | P::GroupNormalise { .. }
                | P::Attention { .. }
                | P::Expectation { .. }
                | P::Sample(_)
                | P::Sources { .. }
        );
        return need(!own, Misfit::Primitive);
    }
    if tactic.kernel == Kernel::Places {
        need(matches!(call.primitive, P::Sample(_) | P::Sources { .. }), Misfit::Primitive)?;
        need(operator.calls.len() == 1, Misfit::Tail)?;
        return need(operator.class.split_k <= 1, Misfit::Class);
    }
    floats(operator)?;
    let x = view(call, 0).ok_or(Misfit::Primitive)?;
    let y = operator.outputs.first().ok_or(Misfit::Primitive)?;
    let whole = operator.class.split_k <= 1;
    match (tactic.kernel, &call.primitive) {
        (Kernel::MatVec, P::MatMul | P::Conv { .. }) => {
            need(streams(plan, call), Misfit::Primitive)?;
            need(!whole && call.dtype == DType::F16 && x.dtype == DType::F16, Misfit::Class)?;
            need(x.layout.shape.dim(1) <= 1 || x.layout.stride(1) == 1, Misfit::Layout)
        }
        (Kernel::Reduce, P::Reduce { kind, axes }) => {
            let splits = operator.class.split_k;
            let elements = x.layout.shape.elements_along(*axes);
            need(elements < LONGEST_REDUCTION, Misfit::Layout)?;
            need(splits <= SPLITS || splits == MANY_SPLITS, Misfit::Class)?;
            let walk = reduction::walk(x, *axes)?;
            // One range of few elements, or of halves, has one thread: where its results have no neighbours, only the generic kernel's lie
            // as thick.
            let ordered = x.dtype == DType::F32 && elements >= u64::from(reduction::FEWEST_ORDERED);
            let ranged = splits > 1 || *kind == ReduceKind::Max || ordered;
            let row = axes.is_power_of_two() && walk.parts.first().is_none_or(|&(_, step)| step == 1);
            let beside = walk.neighbours.is_some() || (over_pixels(x, *axes) && pixels(x, y).is_ok());
            need(ranged || row || beside, Misfit::Layout)
        }
        _ if !whole => Err(Misfit::Class),
        (Kernel::Elementwise, P::Unary(_) | P::Binary(_)) | (Kernel::Copy, P::Copy) => runs(y),
        (Kernel::Pool, P::Pool { window, .. }) => {
            need(window.axes == 2 && operator.outputs.len() == 1, Misfit::Primitive)?;
            pixels(x, y)
        }
        (Kernel::ConvDepthwise, P::Conv { window, groups }) => {
            let channels = x.layout.shape.dim(1);
            need(
                *groups == channels && call.shape.dim(1) == channels && window.axes == 2,
                Misfit::Primitive,
            )?;
            constants(plan, call)?;
            pixels(x, y)
        }
        (Kernel::ConvTranspose, P::ConvTranspose { window, groups }) => {
            need(*groups == 1 && window.axes == 2, Misfit::Primitive)?;
            constants(plan, call)?;
            pixels(x, y)
        }
        (Kernel::Resize, P::Resize(resize)) => {
            let shape = y.layout.shape;
            let cropped = |a: usize| match &resize.coordinates {
                Coordinates::CropAndResize { start, end, .. } => start[a].0 != 0.0 || end[a].0 != 1.0,
                _ => false,
            };
            let same = |a: usize| resize.scales[a].0 == 1.0 && x.layout.shape.dim(a) == shape.dim(a) && !cropped(a);
            need(shape.rank() == 4 && same(0) && same(1), Misfit::Primitive)?;
            if is_planes(operator) { Ok(()) } else { pixels(x, y) }
        }
        (Kernel::MatMul, P::MatMul) | (Kernel::Softmax, P::Softmax { .. }) => Ok(()),
        (Kernel::Softmax, P::Expectation { .. }) => need(operator.calls.len() == 1, Misfit::Tail),
        (Kernel::Normalise, P::Normalise { .. } | P::RmsNormalise { .. }) => Ok(()),
        (Kernel::GroupNormalise, P::GroupNormalise { .. }) => group_normalise::fits(x),
        (Kernel::Attention, P::Attention { .. }) => {
            let last = |v: &View| v.layout.shape.dim(v.layout.shape.rank().saturating_sub(1));
            need(last(x).max(last(y)) <= MAX_ATTENTION_WIDTH, Misfit::Layout)?;
            need(call.inputs.len() == 3, Misfit::Primitive)?;
            need(operator.calls.len() == 1, Misfit::Tail)
        }
        (Kernel::Recurrent, P::Lstm { .. } | P::Gru { .. }) => {
            need(operator.calls.len() == 1 && call.shape.dim(2) <= MAX_HIDDEN, Misfit::Tail)
        }
        _ => Err(Misfit::Primitive),
    }
}

fn view(call: &Call, index: usize) -> Option<&View> {
    match call.inputs.get(index) {
        Some(Operand::View(view)) => Some(view),
        _ => None,
    }
}

/// All tensors and values are floats, and none is empty.
pub(super) fn floats(operator: &Operator) -> Result<(), Misfit> {
    let views = operator.calls.iter().flat_map(|c| &c.inputs).filter_map(|o| match o {
        Operand::View(view) => Some(view),
        Operand::Inner(_) => None,
    });
    let mut all = views.chain(&operator.outputs);
    need(operator.calls.iter().all(|c| c.dtype.is_float()), Misfit::Type)?;
    let fits = |v: &View| v.dtype.is_float() && v.layout.shape.elements() > 0;
    need(all.all(fits), Misfit::Type)
}

/// True if an input lies in the weight files.
fn constant(plan: &Plan, call: &Call, index: usize) -> bool {
    let buffer = view(call, index).and_then(|v| plan.buffers.get(v.buffer.index()));
    buffer.is_some_and(|b| matches!(b.space, Space::Weights(_)))
}

/// Weights and bias lie in the weight files.
fn constants(plan: &Plan, call: &Call) -> Result<(), Misfit> {
    need((1..call.inputs.len()).all(|i| constant(plan, call, i)), Misfit::Weights)
}

/// `[N, C, H, W]` tensors with neighbouring channels side by side.
fn pixels(x: &View, y: &View) -> Result<(), Misfit> {
    let dense = |v: &View| v.layout.shape.rank() == 4 && (v.layout.shape.dim(1) <= 1 || v.layout.stride(1) == 1);
    need(dense(x) && dense(y), Misfit::Layout)
}

/// The output's innermost elements lie side by side.
fn runs(y: &View) -> Result<(), Misfit> {
    let shape = y.layout.shape;
    let moving: Vec<i64> = (0..shape.rank())
        .filter(|&a| shape.dim(a) > 1)
        .map(|a| y.layout.stride(a))
        .collect();
    need(moving.is_empty() || moving.contains(&1), Misfit::Layout)
}
