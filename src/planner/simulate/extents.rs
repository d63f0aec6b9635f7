//! The extents of an operator's output and product, which its tiles and its room are counted from.

use crate::plan::format::{Operand, Operator};
use crate::primitive::{Primitive, Window};
use crate::tensor::Shape;

/// Shape of the first output.
pub fn shape(operator: &Operator) -> Shape {
    operator.outputs.first().map_or(Shape::SCALAR, |v| v.layout.shape)
}

/// Input channels of an operator's product, and its taps; `None` without one.
pub fn depth(operator: &Operator) -> Option<(u32, u32)> {
    operator.calls.iter().find_map(|call| match (&call.primitive, call.inputs.get(1)) {
        (Primitive::Conv { window, .. }, Some(Operand::View(weights))) => Some((weights.layout.shape.dim(1), window.taps() as u32)),
        (Primitive::MatMul, Some(Operand::View(weights))) => {
            let shape = weights.layout.shape;
            Some((shape.dim(shape.rank().saturating_sub(2)), 1))
        }
        _ => None,
    })
}

/// Pixels and channels of a product's output: rows and columns of a matrix product.
pub fn matrix(operator: &Operator, shape: Shape) -> (u64, u64) {
    let matrix = operator.calls.iter().any(|c| c.primitive == Primitive::MatMul);
    let channels = u64::from(shape.dim(if matrix { shape.rank().saturating_sub(1) } else { 1 })).max(1);
    (shape.elements() / channels, channels)
}

/// The window of an operator's convolution; `None` without one.
pub fn window(operator: &Operator) -> Option<&Window> {
    operator.calls.iter().find_map(|call| match &call.primitive {
        Primitive::Conv { window, .. } => Some(window),
        _ => None,
    })
}
