//! LayerNormalization.

use super::super::builder::{Builder, Operand};
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::Elem;
use super::super::node::OnnxNode;
use super::elementwise::{apply, convert};
use super::reduce;
use crate::primitive::{Binary, ReduceKind, Unary};

/// LayerNormalization: `(x - mean) / sqrt(var + epsilon) * scale + bias`, mean and variance over the axes from `axis` on, in f32.
/// The mean and the reciprocal deviation are its second and third output.
pub(super) fn layer_normalization(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(2, 3)?;
    let x = node.input(0)?;
    if !x.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    let rank = x.shape().rank();
    let first = OnnxNode::axis(node.int("axis")?.unwrap_or(-1), rank, "axis")?;
    let epsilon = node.float("epsilon")?.unwrap_or(1e-5);
    if node.int("stash_type")?.unwrap_or(1) != 1 {
        return Err(unsupported("statistics in another type than f32").at("stash_type"));
    }
    let axes: Vec<usize> = (first..rank).collect();
    let wide = convert(b, x, Elem::F32)?;
    let mean = reduce::over(b, &wide, ReduceKind::Mean, &axes)?;
    let centred = b.binary(Binary::Sub, &wide, &mean)?;
    let squared = b.binary(Binary::Mul, &centred, &centred)?;
    let variance = reduce::over(b, &squared, ReduceKind::Mean, &axes)?;
    let epsilon = b.scalar(Elem::F32, f64::from(epsilon))?;
    let shifted = b.binary(Binary::Add, &variance, &epsilon)?;
    let deviation = apply(b, Unary::Sqrt, &shifted)?;
    let normal = b.binary(Binary::Div, &centred, &deviation)?;
    let normal = convert(b, &normal, x.elem())?;
    let mut result = b.binary(Binary::Mul, &normal, node.input(1)?)?;
    if let Some(bias) = node.optional(2) {
        result = b.binary(Binary::Add, &result, bias)?;
    }
    if result.shape() != x.shape() {
        return Err(malformed(format!(
            "a scale or bias that widens {} to {}",
            x.shape(),
            result.shape()
        )));
    }
    let mut outputs = vec![result];
    if node.output_count() > 1 {
        outputs.push(mean);
    }
    if node.output_count() > 2 {
        let one = b.scalar(Elem::F32, 1.0)?;
        outputs.push(b.binary(Binary::Div, &one, &deviation)?);
    }
    Ok(outputs)
}
