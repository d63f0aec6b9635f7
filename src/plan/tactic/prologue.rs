//! Operators that begin with what happens to a product's input: a scale, a shift and a relu for every input channel, as
//! batch normalisation before a convolution leaves them.

use super::product::Pixels;
use crate::plan::format::{Call, Operand, Operator, Plan, Rounding, Space, View};
use crate::primitive::{Binary, Primitive, Unary, Window};
use crate::tensor::{DType, Layout};

/// Calls of a prologue.
pub const CALLS: usize = 3;
/// Most input channels that the kernels have a table for.
pub const MAX_CHANNELS: u32 = 4096;
/// Input channels are a multiple of this, and each pixel begins at one.
const PIECE: u32 = 8;

/// Constants of a prologue: one for each channel, stride 0 along all other axes.
#[derive(Clone, Copy, Debug)]
pub struct Prologue {
    /// Factors.
    pub scale: View,
    /// What is added then.
    pub shift: View,
}

/// A convolution whose input can pass through a prologue: every input element is read at one place, so that the padding of a
/// window is no matter.
pub fn serves(window: &Window, groups: u32) -> bool {
    groups == 1 && *window == Window::new(&[1, 1])
}

/// An input that the kernels with a prologue can read.
pub fn reads(view: &View) -> bool {
    let Some(pixels) = Pixels::of(view).filter(|_| view.layout.shape.rank() == 4 && view.dtype == DType::F16) else {
        return false;
    };
    let channels = pixels.extents[3];
    let whole = channels.is_multiple_of(PIECE) && view.origin.is_multiple_of(u64::from(PIECE));
    let near = view
        .layout
        .bounds()
        .is_some_and(|(low, high)| low >= 0 && high < i64::from(i32::MAX / 2));
    let single = pixels.extents[1] == 1 && pixels.extents[2] == 1;
    whole && (1..=MAX_CHANNELS).contains(&channels) && pixels.channels_last() && pixels.wide() && near && !single
}

/// A layout whose elements differ from channel to channel alone.
pub fn varies_by_channel(layout: &Layout) -> bool {
    let rank = layout.shape.rank();
    rank == 4 && (0..rank).all(|a| a == 1 || layout.shape.dim(a) == 1 || layout.stride(a) == 0)
}

/// The prologue of an operator, and the operator without it; `None` for an operator that has none.
pub fn cut(plan: &Plan, operator: &Operator) -> Option<(Prologue, Operator)> {
    let [mul, add, relu, product, ..] = operator.calls.as_slice() else {
        return None;
    };
    let Primitive::Conv { window, groups } = product.primitive else {
        return None;
    };
    let rounded = |c: &Call| c.dtype == DType::F16 && c.rounding == Rounding::Rounded;
    if !serves(&window, groups) || ![mul, add, relu].into_iter().all(rounded) {
        return None;
    }
    let constants = |call: &Call, kind: Binary| match (&call.primitive, call.inputs.as_slice()) {
        (Primitive::Binary(it), [a, b]) if *it == kind => Some((*a, *b)),
        _ => None,
    };
    let (x, scale) = match constants(mul, Binary::Mul)? {
        (Operand::View(x), Operand::View(scale)) if per_channel(plan, &scale) => (x, scale),
        (Operand::View(scale), Operand::View(x)) if per_channel(plan, &scale) => (x, scale),
        _ => return None,
    };
    let shift = match constants(add, Binary::Add)? {
        (Operand::Inner(0), Operand::View(shift)) | (Operand::View(shift), Operand::Inner(0)) if per_channel(plan, &shift) => shift,
        _ => return None,
    };
    let passed = relu.primitive == Primitive::Unary(Unary::Relu) && relu.inputs == [Operand::Inner(1)];
    let inner = |o: &Operand| matches!(o, Operand::Inner(j) if usize::from(*j) < CALLS);
    let read_once = product.inputs.first() == Some(&Operand::Inner(2))
        && !product.inputs[1..].iter().any(inner)
        && !operator.calls[CALLS + 1..].iter().flat_map(|c| &c.inputs).any(inner);
    let same_shape = [mul, add, relu].into_iter().all(|c| c.shape == x.layout.shape);
    if !passed || !read_once || !same_shape || !reads(&x) {
        return None;
    }
    let mut body = operator.clone();
    body.calls.drain(..CALLS);
    for (index, call) in body.calls.iter_mut().enumerate() {
        for (k, input) in call.inputs.iter_mut().enumerate() {
            match input {
                Operand::Inner(_) if index == 0 && k == 0 => *input = Operand::View(x),
                Operand::Inner(j) => *j -= CALLS as u8,
                Operand::View(_) => {}
            }
        }
    }
    Some((Prologue { scale, shift }, body))
}

/// A constant that differs from channel to channel alone.
fn per_channel(plan: &Plan, view: &View) -> bool {
    let constant = plan
        .buffers
        .get(view.buffer.index())
        .is_some_and(|b| matches!(b.space, Space::Weights(_)));
    constant && varies_by_channel(&view.layout) && view.dtype == DType::F16
}
