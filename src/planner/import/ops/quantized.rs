//! Operators that compute on quantized numbers: QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger,
//! DynamicQuantizeLinear. As QuantizeLinear and DequantizeLinear they are read as arithmetic in floats, which is exact for the
//! integers themselves as long as sums stay below 2^24. Sums that are results as integers stay f32 where activations are halves,
//! which hold neither their digits nor, beyond 65504, their size.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed};
use super::super::host::{Elem, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, convert};
use super::{conv, matrix, reduce};
use crate::primitive::{Binary, ReduceKind, Scalar, Unary};
use crate::tensor::Shape;

/// A scale or zero point of one value, or of one for each position of `axis` of an operand of rank `rank`.
fn along(b: &mut Builder, x: &Operand, rank: usize, axis: usize) -> Fallible<Operand> {
    let shape = x.shape();
    if shape.elements() == 1 {
        return b.reshape(x, Shape::SCALAR);
    }
    if shape.rank() != 1 || axis >= rank {
        return Err(malformed(format!("a scale or zero point of shape {shape}")));
    }
    let mut dims = vec![1; rank];
    dims[axis] = i64::from(shape.dim(0));
    b.reshape(x, shape_of(&dims)?)
}

/// The whole numbers `x - zero point`, as f32.
fn centred(b: &mut Builder, x: &Operand, zero: Option<&Operand>, axis: usize) -> Fallible<Operand> {
    let whole = match b.known_float(x) {
        Some(whole) => whole,
        None => convert(b, x, Elem::F32)?,
    };
    let Some(zero) = zero else { return Ok(whole) };
    let zero = convert(b, zero, Elem::F32)?;
    let zero = along(b, &zero, x.shape().rank(), axis)?;
    b.binary(Binary::Sub, &whole, &zero)
}

fn dequantized(b: &mut Builder, x: &Operand, scale: &Operand, zero: Option<&Operand>, axis: usize) -> Fallible<Operand> {
    let whole = centred(b, x, zero, axis)?;
    let scale = convert(b, scale, Elem::F32)?;
    let scale = along(b, &scale, x.shape().rank(), axis)?;
    b.binary(Binary::Mul, &whole, &scale)
}

/// `saturate(round(x / scale) + zero point)` in the zero point's type.
fn quantized(b: &mut Builder, x: &Operand, scale: &Operand, zero: &Operand) -> Fallible<Operand> {
    let (low, high) = match zero.elem() {
        Elem::U8 => (0.0, 255.0),
        Elem::I8 => (-128.0, 127.0),
        other => return Err(malformed(format!("values quantized to {other:?}")).at("y_zero_point")),
    };
    let scale = convert(b, scale, Elem::F32)?;
    let scale = along(b, &scale, x.shape().rank(), 0)?;
    let scaled = b.binary(Binary::Div, x, &scale)?;
    let whole = apply(b, Unary::Round, &scaled)?;
    let point = convert(b, zero, Elem::F32)?;
    let point = along(b, &point, x.shape().rank(), 0)?;
    let whole = b.binary(Binary::Add, &whole, &point)?;
    let whole = apply(b, Unary::Clip(Scalar(low), Scalar(high)), &whole)?;
    let bytes = convert(b, &whole, zero.elem())?;
    b.remember_float(&bytes, whole);
    Ok(bytes)
}

pub(super) fn qlinear_conv(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(8, 9)?;
    let (x_scale, w_scale) = (node.input(1)?, node.input(4)?);
    let x = dequantized(b, node.input(0)?, x_scale, node.optional(2), 1)?;
    let w = dequantized(b, node.input(3)?, w_scale, node.optional(5), 0)?;
    let mut operands = vec![x, w];
    if let Some(bias) = node.optional(8) {
        let channels = i64::from(node.input(3)?.shape().dim(0));
        let (x_scale, w_scale) = (convert(b, x_scale, Elem::F32)?, convert(b, w_scale, Elem::F32)?);
        let (x_scale, w_scale) = (along(b, &x_scale, 1, 0)?, along(b, &w_scale, 1, 0)?);
        let scale = b.binary(Binary::Mul, &x_scale, &w_scale)?;
        let bias = convert(b, bias, Elem::F32)?;
        let bias = b.binary(Binary::Mul, &bias, &scale)?;
        operands.push(b.reshape(&bias, shape_of(&[channels])?)?);
    }
    let y = conv::convolution(b, node, &operands.iter().collect::<Vec<_>>())?;
    quantized(b, &y, node.input(6)?, node.input(7)?)
}

pub(super) fn qlinear_mat_mul(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(8, 8)?;
    let columns = node.input(3)?.shape().rank().saturating_sub(1);
    let rows = node.input(0)?.shape().rank().saturating_sub(2);
    let a = dequantized(b, node.input(0)?, node.input(1)?, node.optional(2), rows)?;
    let w = dequantized(b, node.input(3)?, node.input(4)?, node.optional(5), columns)?;
    let y = matrix::product(b, &a, &w)?;
    quantized(b, &y, node.input(6)?, node.input(7)?)
}

pub(super) fn conv_integer(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 4)?;
    let x = centred(b, node.input(0)?, node.optional(2), 1)?;
    let w = centred(b, node.input(1)?, node.optional(3), 0)?;
    let y = b.in_single(|b| conv::convolution(b, node, &[&x, &w]))?;
    convert(b, &y, Elem::I32)
}

pub(super) fn mat_mul_integer(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 4)?;
    let columns = node.input(1)?.shape().rank().saturating_sub(1);
    let rows = node.input(0)?.shape().rank().saturating_sub(2);
    let a = centred(b, node.input(0)?, node.optional(2), rows)?;
    let w = centred(b, node.input(1)?, node.optional(3), columns)?;
    let y = b.in_single(|b| matrix::product(b, &a, &w))?;
    let whole = convert(b, &y, Elem::I32)?;
    b.remember_float(&whole, y);
    Ok(whole)
}

/// DynamicQuantizeLinear: bytes over the range that the input takes and that holds 0, their scale and zero point.
pub(super) fn dynamic(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if x.elem() != Elem::F32 {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    let axes: Vec<usize> = (0..x.shape().rank()).collect();
    let falling = apply(b, Unary::Neg, x)?;
    let (top, bottom) = (
        reduce::over(b, x, ReduceKind::Max, &axes)?,
        reduce::over(b, &falling, ReduceKind::Max, &axes)?,
    );
    let top = b.reshape(&top, Shape::SCALAR)?;
    let bottom = b.reshape(&bottom, Shape::SCALAR)?;
    let (top, bottom) = (apply(b, Unary::Relu, &top)?, apply(b, Unary::Relu, &bottom)?);
    let range = b.binary(Binary::Add, &top, &bottom)?;
    let steps = b.scalar(Elem::F32, 255.0)?;
    let scale = b.binary(Binary::Div, &range, &steps)?;
    let point = b.binary(Binary::Div, &bottom, &scale)?;
    let point = apply(b, Unary::Clip(Scalar(0.0), Scalar(255.0)), &point)?;
    let point = apply(b, Unary::Round, &point)?;
    let zero = convert(b, &point, Elem::U8)?;
    b.remember_float(&zero, point);
    let y = quantized(b, x, &scale, &zero)?;
    Ok(vec![y, scale, zero])
}
