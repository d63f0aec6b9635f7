//! ReduceMean, ReduceMax, ReduceSum and the global pools.

use super::super::builder::{Builder, Operand};
use super::super::error::{Fallible, malformed};
use super::super::host::shape_of;
use super::super::node::OnnxNode;
use crate::primitive::{Primitive, ReduceKind};

/// Reduces `axes` of `x` to extent 1.
pub(super) fn over(b: &mut Builder, x: &Operand, kind: ReduceKind, axes: &[usize]) -> Fallible<Operand> {
    let bits = axes.iter().fold(0u8, |bits, &a| bits | 1 << a);
    let dims: Vec<i64> = (0..x.shape().rank())
        .map(|a| if axes.contains(&a) { 1 } else { i64::from(x.shape().dim(a)) })
        .collect();
    b.one(Primitive::Reduce { kind, axes: bits }, &[x], x.elem(), shape_of(&dims)?)
}

pub(super) fn global(b: &mut Builder, node: &OnnxNode<'_>, kind: ReduceKind) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if x.shape().rank() < 3 {
        return Err(malformed(format!("an input {} without spatial axes", x.shape())));
    }
    let axes: Vec<usize> = (2..x.shape().rank()).collect();
    over(b, x, kind, &axes)
}

/// A reduction; the axes are an attribute before operator set 13 (ReduceSum) or 18 (the others), an input since.
pub(super) fn reduce(b: &mut Builder, node: &OnnxNode<'_>, kind: ReduceKind) -> Fallible<Operand> {
    let since = if kind == ReduceKind::Sum { 13 } else { 18 };
    let x = node.input(0)?;
    let (axes, nothing_without_axes) = if node.opset < since {
        node.arity(1, 1)?;
        (node.ints("axes")?.map(<[i64]>::to_vec), false)
    } else {
        node.arity(1, 2)?;
        (node.int_input(1, "axes")?, node.flag("noop_with_empty_axes", false)?)
    };
    let keep = node.flag("keepdims", true)?;
    let rank = x.shape().rank();
    let axes = match axes.filter(|a| !a.is_empty()) {
        Some(axes) => OnnxNode::axes(&axes, rank, "axes")?,
        None if nothing_without_axes => return Ok(x.clone()),
        None => (0..rank).collect(),
    };
    if axes.is_empty() {
        return Ok(x.clone());
    }
    let reduced = over(b, x, kind, &axes)?;
    if keep {
        return Ok(reduced);
    }
    let left: Vec<i64> = (0..rank)
        .filter(|a| !axes.contains(a))
        .map(|a| i64::from(x.shape().dim(a)))
        .collect();
    b.reshape(&reduced, shape_of(&left)?)
}
