//! The menu of tactics as data: which kernel can run which operator, and what fixes an operator's bits.
//!
//! The planner chooses from [`menu`], the checks refuse what does not [`fits`], and the backends implement every kernel
//! for all operators that fit it.

use super::format::{ArithmeticClass, Call, Family, Kernel, Operand, Operator, Plan, Space, Tactic, View};
use crate::board::BackendKind;
use crate::primitive::{Primitive, ResizeMode};
use crate::tensor::DType;

/// Kernels in the order in which the menu prefers them.
const PREFERENCE: [Kernel; 13] = [
    Kernel::Prepare,
    Kernel::Decode,
    Kernel::ConvDepthwise,
    Kernel::ConvIgemm,
    Kernel::ConvTranspose,
    Kernel::MatMul,
    Kernel::Elementwise,
    Kernel::Pool,
    Kernel::Reduce,
    Kernel::Softmax,
    Kernel::Resize,
    Kernel::Copy,
    Kernel::Generic,
];

/// Why a kernel cannot run an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The first primitive is of another kind, or has attributes the kernel does not take.
    #[error("the kernel does not compute the operator's first primitive")]
    Primitive,
    /// Something is not f32.
    #[error("the kernel computes in f32 only")]
    Type,
    /// A later primitive is not an elementwise function of the value before it.
    #[error("the kernel takes no such primitive after the first")]
    Tail,
    /// A tensor lies in memory otherwise than the kernel walks it.
    #[error("the kernel needs its tensors laid out in another way")]
    Layout,
    /// The kernel packs its weights ahead of time, and these are computed.
    #[error("the kernel needs weights that are in the plan's weight files")]
    Weights,
    /// The tile is not on the menu.
    #[error("the kernel has no such tile")]
    Tile,
}

/// The arithmetic class of an operator on a backend: sequential fused multiply-add on both, as no kernel of another
/// family is on the menu.
pub fn arithmetic_class(_operator: &Operator, backend: BackendKind) -> ArithmeticClass {
    match backend {
        BackendKind::Cpu | BackendKind::Cuda => ArithmeticClass {
            family: Family::Fma,
            split_k: 1,
        },
    }
}

/// Checks that the operator's tactic can run it.
pub fn fits(plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    if operator.tactic.tile != (0, 0) {
        return Err(Misfit::Tile);
    }
    kernel_fits(operator.tactic.kernel, plan, operator)
}

/// All tactics that can run the operator, best first; the generic kernel is always the last.
pub fn menu(plan: &Plan, operator: &Operator) -> Vec<Tactic> {
    PREFERENCE
        .iter()
        .filter(|&&kernel| kernel_fits(kernel, plan, operator).is_ok())
        .map(|&kernel| Tactic { kernel, tile: (0, 0) })
        .collect()
}

/// What may follow the first primitive.
#[derive(Clone, Copy, PartialEq)]
enum Tail {
    /// Nothing.
    None,
    /// Elementwise primitives, each of the value before it and at most one tensor in memory.
    Elementwise,
}

/// What a kernel asks of its tensors.
#[derive(Clone, Copy, PartialEq)]
enum Walk {
    /// Any strides.
    Any,
    /// First input and outputs channels-last: axis 1 has stride 1.
    ChannelsLast,
    /// First input and outputs with stride 1 along the last axis.
    Rows,
}

/// The table: what each kernel takes.
fn kernel_fits(kernel: Kernel, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    let first = operator.calls.first().ok_or(Misfit::Primitive)?;
    let channels = match first.inputs.first() {
        Some(Operand::View(x)) => x.layout.shape.dim(1),
        _ => 0,
    };
    use Primitive as P;
    //                             computes it?                                             f32 only  tail               layout
    let (computes, f32_only, tail, walk) = match (kernel, &first.primitive) {
        (Kernel::Generic, _) => return Ok(()),
        (Kernel::ConvIgemm, P::Conv { groups, .. }) => (*groups == 1, true, Tail::Elementwise, Walk::ChannelsLast),
        (Kernel::ConvDepthwise, P::Conv { groups, .. }) => (
            *groups > 1 && *groups == channels && first.shape.dim(1) == channels,
            true,
            Tail::Elementwise,
            Walk::ChannelsLast,
        ),
        (Kernel::ConvTranspose, P::ConvTranspose { groups, .. }) => (*groups == 1, true, Tail::Elementwise, Walk::ChannelsLast),
        (Kernel::MatMul, P::MatMul) => (true, true, Tail::Elementwise, Walk::Rows),
        (Kernel::Elementwise, P::Unary(_) | P::Binary(_)) => (true, true, Tail::Elementwise, Walk::Any),
        (Kernel::Pool, P::Pool { .. }) => (operator.outputs.len() == 1, true, Tail::None, Walk::ChannelsLast),
        (Kernel::Reduce, P::Reduce { .. }) => (true, true, Tail::None, Walk::Any),
        (Kernel::Softmax, P::Softmax { .. }) => (true, true, Tail::None, Walk::Any),
        (Kernel::Resize, P::Resize(r)) => (
            matches!(r.mode, ResizeMode::Linear { antialias: false }) && first.shape.rank() == 4,
            true,
            Tail::None,
            Walk::ChannelsLast,
        ),
        (Kernel::Copy, P::Copy) => (same_type(first), false, Tail::None, Walk::Any),
        (Kernel::Prepare, P::Prepare(_)) => (true, false, Tail::None, Walk::Any),
        (Kernel::Decode, P::DecodeYolox { .. } | P::Nms(_) | P::TopK | P::ArgMax { .. }) => (true, false, Tail::None, Walk::Any),
        _ => (false, false, Tail::None, Walk::Any),
    };
    need(computes && views(first).count() == first.inputs.len(), Misfit::Primitive)?;
    need(!f32_only || all_f32(operator), Misfit::Type)?;
    match tail {
        Tail::None => need(operator.calls.len() == 1, Misfit::Tail)?,
        Tail::Elementwise => need((1..operator.calls.len()).all(|i| is_tail(&operator.calls[i], i)), Misfit::Tail)?,
    }
    let laid_out = |view: &View| match walk {
        Walk::Any => true,
        Walk::ChannelsLast => unit_stride(view, 1),
        Walk::Rows => unit_stride(view, view.layout.shape.rank().saturating_sub(1)),
    };
    need(views(first).take(1).chain(&operator.outputs).all(laid_out), Misfit::Layout)?;
    let packs = matches!(first.primitive, P::Conv { .. } | P::ConvTranspose { .. } | P::MatMul);
    need(!packs || views(first).skip(1).take(1).all(|v| is_weight(plan, v)), Misfit::Weights)
}

fn need(ok: bool, misfit: Misfit) -> Result<(), Misfit> {
    if ok { Ok(()) } else { Err(misfit) }
}

/// The inputs of a call that lie in memory.
fn views(call: &Call) -> impl Iterator<Item = &View> {
    call.inputs.iter().filter_map(|operand| match operand {
        Operand::View(view) => Some(view),
        Operand::Inner(_) => None,
    })
}

fn same_type(call: &Call) -> bool {
    views(call).all(|v| v.dtype == call.dtype)
}

fn all_f32(operator: &Operator) -> bool {
    let calls = operator.calls.iter();
    calls.clone().all(|c| c.dtype == DType::F32) && calls.flat_map(views).chain(&operator.outputs).all(|v| v.dtype == DType::F32)
}

/// True if call `index` is an elementwise function of the value before it, the other operand being in memory.
fn is_tail(call: &Call, index: usize) -> bool {
    let previous = |o: &Operand| matches!(o, Operand::Inner(j) if usize::from(*j) + 1 == index);
    let elementwise = matches!(call.primitive, Primitive::Unary(_) | Primitive::Binary(_));
    elementwise && call.inputs.iter().filter(|o| previous(o)).count() == 1 && views(call).count() + 1 == call.inputs.len()
}

/// True if neighbours along `axis` are neighbours in memory, or there are none.
fn unit_stride(view: &View, axis: usize) -> bool {
    view.layout.shape.dim(axis) <= 1 || view.layout.stride(axis) == 1
}

fn is_weight(plan: &Plan, view: &View) -> bool {
    plan.buffers
        .get(view.buffer.index())
        .is_some_and(|b| matches!(b.space, Space::Weights(_)))
}
