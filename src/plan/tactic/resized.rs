//! Resizes of halves whose results a copy turns into planes, widened or not: pictures of classes, made larger at the end of a
//! network.

use crate::plan::format::{Operand, Operator, Rounding, View};
use crate::primitive::{Coordinates, Primitive, Resize, ResizeMode};
use crate::tensor::{DType, Shape};

/// Neighbouring outputs of a row that are made from the same piece of the input's rows.
pub const PIECE: u32 = 512;
/// Most bytes of the input's pixels that shared memory has room for under a piece.
pub const MAX_PIXELS: u32 = 80 << 10;
/// Bytes of an input pixel's channel in shared memory: of two rows.
pub const PAIR_BYTES: u32 = 8;

/// True for a resize between two pixels of either axis whose result a kernel can store in planes: the input pixels under a
/// piece fit into shared memory.
pub fn is_form(resize: &Resize, from: Shape, to: Shape) -> bool {
    let linear = matches!(resize.mode, ResizeMode::Linear { antialias: false });
    let whole = !matches!(resize.coordinates, Coordinates::CropAndResize { .. });
    if !linear || !whole || from.rank() != 4 || to.rank() != 4 || from.dims()[..2] != to.dims()[..2] {
        return false;
    }
    let grows = (2..4).all(|a| to.dim(a) > from.dim(a) && from.dim(a) > 0);
    // The scales are the sides' ratios: then an output's taps lie where these say.
    let even = (2..4).all(|a| resize.scales[a].0 == (f64::from(to.dim(a)) / f64::from(from.dim(a).max(1))) as f32);
    let reach = u64::from(PIECE) * u64::from(from.dim(3)) / u64::from(to.dim(3).max(1)) + 6;
    grows && even && u64::from(from.dim(1)) * reach * u64::from(PAIR_BYTES) <= u64::from(MAX_PIXELS)
}

/// True for an operator of such a resize and the copy of its result into planes of f16 or f32.
pub fn is_planes(operator: &Operator) -> bool {
    let ([resize, copy], [y]) = (operator.calls.as_slice(), operator.outputs.as_slice()) else {
        return false;
    };
    let (Primitive::Resize(form), [Operand::View(x)]) = (&resize.primitive, resize.inputs.as_slice()) else {
        return false;
    };
    let copies = copy.primitive == Primitive::Copy && copy.inputs == [Operand::Inner(0)];
    let types = [x.dtype, resize.dtype] == [DType::F16; 2] && copy.dtype == y.dtype && y.dtype.is_float();
    let shapes = resize.shape == copy.shape && is_form(form, x.layout.shape, resize.shape);
    let side_by_side = |v: &View, axis: usize| v.layout.shape.dim(axis) <= 1 || v.layout.stride(axis) == 1;
    let rounded = resize.rounding == Rounding::Rounded;
    copies && types && shapes && rounded && side_by_side(x, 1) && side_by_side(y, 3)
}
