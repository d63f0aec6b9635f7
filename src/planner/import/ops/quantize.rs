//! QuantizeLinear and DequantizeLinear, read as arithmetic: the numbers a quantized value stands for are computed in floats.
//!
//! What a QuantizeLinear makes is known as the whole number it was before its conversion to bytes too, from its zero point on, so
//! that the DequantizeLinear behind it starts from there; the bytes themselves are made where something else reads them. What lies
//! on the grid that it is rounded to again, as parts of a value and what is joined of them do, stays as it is. 8-bit integers are imported; other types, blocks of scales, and 8-bit floats are refused by name.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::grid::Grid;
use super::super::host::{Elem, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, convert};
use crate::primitive::{Binary, Scalar, Unary};

/// Scale or zero point `x`, of one value or one for each position of `axis`, laid along the axes of an input of rank `rank`.
fn along(b: &mut Builder, node: &OnnxNode<'_>, x: &Operand, input: &Operand, name: &str) -> Fallible<Operand> {
    let shape = x.shape();
    if shape.elements() == 1 && shape.rank() <= 1 {
        return b.reshape(x, crate::tensor::Shape::SCALAR);
    }
    let rank = input.shape().rank();
    if shape.rank() != 1 {
        return Err(unsupported(format!("blocks of scales (shape {shape}): quantise by tensor or by channel")).at(name));
    }
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(1), rank, "axis")?;
    if input.shape().dim(axis) != shape.dim(0) {
        return Err(malformed(format!("shape {shape} for axis {axis} of {}", input.shape())).at(name));
    }
    let mut dims = vec![1; rank];
    dims[axis] = i64::from(shape.dim(0));
    b.reshape(x, shape_of(&dims)?)
}

/// Refuses a constant scale that is no finite number: nothing that it is computed with is one either.
fn finite(scale: &Operand, name: &str) -> Fallible<()> {
    let numbers = scale.host().map(|host| host.as_f64s()).unwrap_or_default();
    match numbers.iter().find(|n| !n.is_finite()) {
        Some(n) => Err(malformed(format!(
            "a scale of {n}, as a quantiser gives where its calibration met infinities: quantise the network again with other \
             pictures, or without this node"
        ))
        .at(name)),
        None => Ok(()),
    }
}

/// Reads the attributes that both operators have and that mean nothing here, and refuses blocks.
fn attributes(node: &OnnxNode<'_>) -> Fallible<()> {
    node.int("axis")?;
    // It concerns 8-bit floats only.
    node.ignore("saturate");
    match node.int("block_size")? {
        None | Some(0) => Ok(()),
        Some(_) => Err(unsupported("blocks of scales: quantise by tensor or by channel").at("block_size")),
    }
}

/// The one number that all elements of a constant are.
fn single(x: &Operand) -> Option<f64> {
    let numbers = x.host()?.as_f64s();
    let first = *numbers.first()?;
    numbers.iter().all(|&n| n == first).then_some(first)
}

/// The grid of bytes `elem` with one scale and one zero point for all elements; 0 where there is none.
fn grid(elem: Elem, scale: &Operand, zero: Option<&Operand>) -> Option<Grid> {
    let scale = single(scale).filter(|scale| scale.is_normal() && *scale > 0.0)?;
    let zero = zero.map_or(Some(0.0), single)?;
    Some(Grid { scale, zero, elem })
}

/// `saturate(round(x / scale) + zero point)`, halves to even, to u8 or i8.
pub(super) fn quantize(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 3)?;
    attributes(node)?;
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let (from_float, integer) = (x.elem().is_float(), x.elem() == Elem::I32);
    if !(from_float || integer) || !scale.elem().is_float() {
        return Err(malformed(format!("{:?} over {:?}", x.elem(), scale.elem())));
    }
    let named = match node.int("output_dtype")? {
        None | Some(0) => None,
        Some(number) => Some(Elem::from_onnx(i32::try_from(number).unwrap_or(-1)).map_err(|e| e.at("output_dtype"))?),
    };
    let zero = node.optional(2);
    let to = named.or(zero.map(Operand::elem)).unwrap_or(Elem::U8);
    let (low, high) = match to {
        Elem::U8 => (0.0, 255.0),
        Elem::I8 => (-128.0, 127.0),
        other => {
            return Err(unsupported(format!(
                "values quantized to {other:?}: quantise to UINT8, INT8 or INT32"
            )));
        }
    };
    if zero.is_some_and(|z| z.elem() != to) {
        return Err(malformed("a zero point of another type than the output").at("y_zero_point"));
    }
    let known = grid(to, scale, zero).filter(|_| from_float);
    let wide = convert(b, x, Elem::F32)?;
    let scale = convert(b, scale, Elem::F32)?;
    finite(&scale, "y_scale")?;
    let scale = along(b, node, &scale, x, "y_scale")?;
    let scaled = b.binary(Binary::Div, &wide, &scale)?;
    let mut whole = apply(b, Unary::Round, &scaled)?;
    fitting(&whole, x)?;
    let clipped = |b: &mut Builder, whole: &Operand, zero: f32| apply(b, Unary::Clip(Scalar(low - zero), Scalar(high - zero)), whole);
    let mut centred = None;
    let whole = match (zero, known) {
        // Cut off before it is added, one zero point leaves the arithmetic again where its DequantizeLinear subtracts it.
        (Some(_), Some(known)) => {
            let cut = clipped(b, &whole, known.zero as f32)?;
            let whole = super::elementwise::with(b, Binary::Add, &cut, known.zero)?;
            centred = Some((cut, known.zero));
            whole
        }
        (Some(zero), None) => {
            let zero = convert(b, zero, Elem::F32)?;
            let zero = along(b, node, &zero, x, "y_zero_point")?;
            whole = b.binary(Binary::Add, &whole, &zero)?;
            fitting(&whole, x)?;
            clipped(b, &whole, 0.0)?
        }
        (None, _) => clipped(b, &whole, 0.0)?,
    };
    let bytes = convert(b, &whole, to)?;
    b.remember_float(&bytes, whole);
    if let Some((centred, zero)) = centred {
        b.grids.remember_centred(&bytes, centred, zero);
    }
    if let Some(known) = known {
        b.grids.remember(&b.graph, &bytes, x, known);
    }
    Ok(bytes)
}

/// `(x - zero point) * scale`, in the type of the scale.
pub(super) fn dequantize(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 3)?;
    attributes(node)?;
    let (x, scale) = (node.input(0)?, node.input(1)?);
    if !matches!(x.elem(), Elem::U8 | Elem::I8 | Elem::I32) || !scale.elem().is_float() {
        return Err(malformed(format!("{:?} times {:?}", x.elem(), scale.elem())));
    }
    let result = scale.elem();
    let zero = node.optional(2);
    if zero.is_some_and(|zero| zero.elem() != x.elem()) {
        return Err(malformed("another type than the input's").at("x_zero_point"));
    }
    let known = grid(x.elem(), scale, zero);
    if let Some(floats) = known
        .and_then(|known| b.grids.floats(x, known))
        .filter(|floats| floats.elem() == result)
    {
        return Ok(floats);
    }
    let centred = known.and_then(|known| b.grids.centred(x, known.zero));
    let whole = match (centred, zero) {
        (Some(centred), _) => centred,
        (None, zero) => {
            let whole = match b.known_float(x) {
                Some(whole) => whole,
                None => convert(b, x, Elem::F32)?,
            };
            match zero {
                Some(zero) => {
                    let zero = convert(b, zero, Elem::F32)?;
                    let zero = along(b, node, &zero, x, "x_zero_point")?;
                    b.binary(Binary::Sub, &whole, &zero)?
                }
                None => whole,
            }
        }
    };
    let scale = convert(b, scale, Elem::F32)?;
    finite(&scale, "x_scale")?;
    let scale = along(b, node, &scale, x, "x_scale")?;
    let product = b.binary(Binary::Mul, &whole, &scale)?;
    fitting(&product, x)?;
    let made = convert(b, &product, result)?;
    if let Some(known) = known {
        b.grids.put(&made, known);
    }
    Ok(made)
}

/// Scales and zero points are of the input's shape or narrower.
fn fitting(result: &Operand, x: &Operand) -> Fallible<()> {
    if result.shape() == x.shape() {
        return Ok(());
    }
    Err(malformed(format!("a result {} of an input {}", result.shape(), x.shape())))
}
