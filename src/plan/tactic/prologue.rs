//! Operators that begin with what happens to a product's input: a scale, a shift and a relu for every input channel, as
//! batch normalisation before a convolution leaves them; or a factor for every input channel of each sample, as squeeze and
//! excitation makes them.

use super::product::Pixels;
use crate::plan::format::{Call, Operand, Operator, Plan, Rounding, Space, View};
use crate::primitive::{Binary, Primitive, Unary, Window};
use crate::tensor::{DType, Layout, Shape};

/// Calls of a prologue of scale, shift and relu.
pub const AFFINE_CALLS: usize = 3;
/// Calls of a prologue of factors.
pub const GATE_CALLS: usize = 1;
/// Most input channels that the kernels have a table for.
pub const MAX_CHANNELS: u32 = 4096;
/// Input channels are a multiple of this, and each pixel begins at one.
const PIECE: u32 = 8;

/// Constants of scale and shift: one for each channel, stride 0 along all other axes.
#[derive(Clone, Copy, Debug)]
pub struct Affine {
    /// Factors.
    pub scale: View,
    /// What is added then.
    pub shift: View,
}

/// What happens to a product's input.
#[derive(Clone, Copy, Debug)]
pub enum Prologue {
    /// Scale, shift and relu.
    Affine(Affine),
    /// Factors by sample and channel, stride 0 from pixel to pixel.
    Gate(View),
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

/// Factors of a tensor of some shape that the kernels can read: the same for all pixels of a sample, its channels side by side
/// from a multiple of 16 bytes on.
pub fn gates(factors: &View, shape: Shape) -> bool {
    let layout = &factors.layout;
    let alike = |axis: usize| shape.dim(axis) == 1 || layout.stride(axis) == 0;
    let fits = shape.rank() == 4 && layout.shape == shape && factors.dtype == DType::F16;
    let lies = || {
        let begins = shape.dim(0) == 1 || layout.stride(0) >= 0 && layout.stride(0) % i64::from(PIECE) == 0;
        (layout.stride(1) == 1 || shape.dim(1) == 1) && begins && factors.origin.is_multiple_of(PIECE.into())
    };
    fits && alike(2) && alike(3) && lies()
}

/// The prologue of an operator, and the operator without it; `None` for an operator that has none.
pub fn cut(plan: &Plan, operator: &Operator) -> Option<(Prologue, Operator)> {
    affine(plan, operator).or_else(|| gate(operator))
}

/// Scale, shift and relu before a product.
fn affine(plan: &Plan, operator: &Operator) -> Option<(Prologue, Operator)> {
    let [mul, add, relu, ..] = operator.calls.as_slice() else {
        return None;
    };
    let (x, scale) = match joined(mul, Binary::Mul)? {
        (Operand::View(x), Operand::View(scale)) if per_channel(plan, &scale) => (x, scale),
        (Operand::View(scale), Operand::View(x)) if per_channel(plan, &scale) => (x, scale),
        _ => return None,
    };
    let shift = match joined(add, Binary::Add)? {
        (Operand::Inner(0), Operand::View(shift)) | (Operand::View(shift), Operand::Inner(0)) if per_channel(plan, &shift) => shift,
        _ => return None,
    };
    let passed = relu.primitive == Primitive::Unary(Unary::Relu) && relu.inputs == [Operand::Inner(1)];
    let body = body(operator, AFFINE_CALLS, x).filter(|_| passed)?;
    Some((Prologue::Affine(Affine { scale, shift }), body))
}

/// Factors of channels and samples before a product.
fn gate(operator: &Operator) -> Option<(Prologue, Operator)> {
    let mul = operator.calls.first()?;
    let (x, factors) = match joined(mul, Binary::Mul)? {
        (Operand::View(x), Operand::View(factors)) if gates(&factors, x.layout.shape) => (x, factors),
        (Operand::View(factors), Operand::View(x)) if gates(&factors, x.layout.shape) => (x, factors),
        _ => return None,
    };
    Some((Prologue::Gate(factors), body(operator, GATE_CALLS, x)?))
}

/// The two operands of a function.
fn joined(call: &Call, kind: Binary) -> Option<(Operand, Operand)> {
    match (&call.primitive, call.inputs.as_slice()) {
        (Primitive::Binary(it), [a, b]) if *it == kind => Some((*a, *b)),
        _ => None,
    }
}

/// What is left behind a prologue of some calls that begins with `x`: a product that alone reads the prologue's value.
fn body(operator: &Operator, calls: usize, x: View) -> Option<Operator> {
    let (before, behind) = operator.calls.split_at_checked(calls)?;
    let product = behind.first()?;
    let Primitive::Conv { window, groups } = product.primitive else {
        return None;
    };
    let halves = |c: &Call| c.dtype == DType::F16 && c.rounding == Rounding::Rounded && c.shape == x.layout.shape;
    let inner = |o: &Operand| matches!(o, Operand::Inner(j) if usize::from(*j) < calls);
    let read_once = product.inputs.first() == Some(&Operand::Inner(calls as u8 - 1))
        && !product.inputs[1..].iter().any(inner)
        && !behind[1..].iter().flat_map(|c| &c.inputs).any(inner);
    if !serves(&window, groups) || !before.iter().all(halves) || !read_once || !reads(&x) {
        return None;
    }
    let mut body = operator.clone();
    body.calls.drain(..calls);
    for (index, call) in body.calls.iter_mut().enumerate() {
        for (k, input) in call.inputs.iter_mut().enumerate() {
            match input {
                Operand::Inner(_) if index == 0 && k == 0 => *input = Operand::View(x),
                Operand::Inner(j) => *j -= calls as u8,
                Operand::View(_) => {}
            }
        }
    }
    Some(body)
}

/// A constant that differs from channel to channel alone.
fn per_channel(plan: &Plan, view: &View) -> bool {
    let constant = plan
        .buffers
        .get(view.buffer.index())
        .is_some_and(|b| matches!(b.space, Space::Weights(_)));
    constant && varies_by_channel(&view.layout) && view.dtype == DType::F16
}
