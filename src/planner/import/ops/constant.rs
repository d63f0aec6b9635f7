//! Constant, ConstantOfShape, Shape.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::file;
use super::super::host::{Elem, Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use crate::planner::graph::ViewOp;
use crate::tensor::{Data, Shape};
use std::path::Path;

/// The value is one of several attributes.
pub(super) fn constant(b: &mut Builder, node: &OnnxNode<'_>, model: &Path) -> Fallible<Operand> {
    node.arity(0, 0)?;
    let vector = |n: usize| shape_of(&[n as i64]);
    if node.has("sparse_value") {
        return Err(unsupported("a sparse constant: store it densely, as `value`, when exporting").at("sparse_value"));
    }
    let mut forms = Vec::new();
    if let Some(t) = node.tensor("value")? {
        forms.push(file::tensor(t, model).map_err(|e| e.at("value"))?);
    }
    if let Some(v) = node.float("value_float")? {
        forms.push(Host::tensor(Shape::SCALAR, Data::F32(vec![v]))?);
    }
    if let Some(v) = node.floats("value_floats")? {
        forms.push(Host::tensor(vector(v.len())?, Data::F32(v.to_vec()))?);
    }
    if let Some(v) = node.int("value_int")? {
        forms.push(Host::i64s(Shape::SCALAR, vec![v])?);
    }
    if let Some(v) = node.ints("value_ints")? {
        forms.push(Host::i64s(vector(v.len())?, v.to_vec())?);
    }
    match (forms.pop(), forms.is_empty()) {
        (Some(host), true) => Ok(b.constant(host)),
        (Some(_), false) => Err(malformed("several values")),
        // Strings are left over and named by the check of attributes.
        (None, _) => {
            node.finish()?;
            Err(malformed("no value").at("value"))
        }
    }
}

pub(super) fn constant_of_shape(b: &mut Builder, node: &OnnxNode<'_>, model: &Path) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let dims = node.int_input(0, "input")?.ok_or_else(|| malformed("missing").at("input"))?;
    let shape = shape_of(&dims).map_err(|e| e.at("input"))?;
    let value = match node.tensor("value")? {
        Some(t) => file::tensor(t, model).map_err(|e| e.at("value"))?,
        None => Host::tensor(Shape::SCALAR, Data::F32(vec![0.0]))?,
    };
    if value.shape().elements() != 1 {
        return Err(unsupported(format!(
            "a value of shape {}: give one element, and Expand the others",
            value.shape()
        ))
        .at("value"));
    }
    let one = b.constant(value);
    let scalar = b.reshape(&one, Shape::SCALAR)?;
    if shape == Shape::SCALAR {
        return Ok(scalar);
    }
    b.view(ViewOp::Broadcast, &scalar, shape)
}

/// The input's extents, or since operator set 15 those from `start` to before `end`.
pub(super) fn shape(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let dims: Vec<i64> = node.input(0)?.shape().dims().iter().map(|&d| i64::from(d)).collect();
    let rank = dims.len() as i64;
    let cut = |v: i64| (if v < 0 { v.saturating_add(rank) } else { v }).clamp(0, rank) as usize;
    let (start, end) = (cut(node.int("start")?.unwrap_or(0)), cut(node.int("end")?.unwrap_or(rank)));
    let part = dims.get(start..end.max(start)).unwrap_or_default().to_vec();
    let host = Host::i64s(shape_of(&[part.len() as i64])?, part)?;
    debug_assert_eq!(host.elem(), Elem::I64);
    Ok(b.constant(host))
}
