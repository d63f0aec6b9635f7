//! Operators that keep all elements: reshapes, Transpose, Expand, and what does nothing at inference.

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed, unsupported};
use super::super::host::{Elem, Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use crate::limits::MAX_RANK;
use crate::planner::graph::{ViewOp, broadcast};
use crate::tensor::Shape;

pub(in super::super) fn extents(shape: Shape) -> Vec<i64> {
    shape.dims().iter().map(|&d| i64::from(d)).collect()
}

pub(super) fn identity(node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    node.input(0).cloned()
}

/// Extents of 0 are copied from the input (unless `allowzero`), one of -1 takes what is left.
pub(super) fn reshape(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let x = node.input(0)?;
    let wanted = node.int_input(1, "shape")?.ok_or_else(|| malformed("missing").at("shape"))?;
    let dims = wanted_extents(&extents(x.shape()), &wanted, node.flag("allowzero", false)?)?;
    let shape = shape_of(&dims).map_err(|e| e.at("shape"))?;
    b.reshape(x, shape).map_err(|e| e.at("shape"))
}

/// The extents that Reshape asks for.
pub(in super::super) fn wanted_extents(given: &[i64], wanted: &[i64], allow_zero: bool) -> Fallible<Vec<i64>> {
    let bad = |why: &str| malformed(format!("{wanted:?} for an input {given:?}: {why}")).at("shape");
    let mut dims = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (axis, &d) in wanted.iter().enumerate() {
        dims.push(match d {
            -1 if open.is_some() => return Err(bad("-1 twice")),
            -1 => {
                open = Some(axis);
                1
            }
            0 if !allow_zero => *given.get(axis).ok_or_else(|| bad("0 beyond the input's axes"))?,
            d => d,
        });
    }
    if let Some(axis) = open {
        if allow_zero && wanted.contains(&0) {
            return Err(bad("-1 beside 0"));
        }
        let product = |dims: &[i64]| dims.iter().try_fold(1i64, |all, &d| all.checked_mul(d).filter(|_| d >= 0));
        let (rest, all) = (product(&dims), product(given));
        dims[axis] = match rest.zip(all) {
            Some((rest, all)) if rest > 0 && all % rest == 0 => all / rest,
            _ => return Err(bad("the elements do not divide")),
        };
    }
    Ok(dims)
}

pub(super) fn flatten(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    let matrix = as_matrix(x.shape(), node.int("axis")?.unwrap_or(1))?;
    b.reshape(x, matrix)
}

/// A shape's axes before `axis` as one, and those from it on as another; none of these where it is the rank.
pub(super) fn as_matrix(shape: Shape, axis: i64) -> Fallible<Shape> {
    let axis = match axis {
        a if a == shape.rank() as i64 => shape.rank(),
        a => OnnxNode::axis(a, shape.rank(), "axis")?,
    };
    let (outer, inner) = shape.dims().split_at(axis);
    let product = |dims: &[u32]| dims.iter().map(|&d| i64::from(d)).product::<i64>();
    shape_of(&[product(outer), product(inner)])
}

/// The axes of Squeeze and Unsqueeze: an attribute before operator set 13, an input since.
fn axes(node: &OnnxNode<'_>) -> Fallible<Option<Vec<i64>>> {
    if node.opset < 13 {
        node.arity(1, 1)?;
        Ok(node.ints("axes")?.map(<[i64]>::to_vec))
    } else {
        node.arity(1, 2)?;
        node.int_input(1, "axes")
    }
}

pub(super) fn squeeze(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = node.input(0)?;
    let dims = x.shape();
    let axes = match axes(node)? {
        Some(axes) => OnnxNode::axes(&axes, dims.rank(), "axes")?,
        None => (0..dims.rank()).filter(|&a| dims.dim(a) == 1).collect(),
    };
    if let Some(a) = axes.iter().find(|&&a| dims.dim(a) != 1) {
        return Err(malformed(format!("axis {a} of {dims} has more than one element")).at("axes"));
    }
    let left: Vec<i64> = (0..dims.rank())
        .filter(|a| !axes.contains(a))
        .map(|a| i64::from(dims.dim(a)))
        .collect();
    b.reshape(x, shape_of(&left)?)
}

pub(super) fn unsqueeze(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = node.input(0)?;
    let axes = axes(node)?.ok_or_else(|| malformed("missing").at("axes"))?;
    let rank = x.shape().rank() + axes.len();
    if rank > MAX_RANK {
        return Err(limit(format!(
            "rank {rank} (at most {MAX_RANK}): export the network with axes merged there, or cut it in front of this with --output NAME"
        ))
        .at("axes"));
    }
    let axes = OnnxNode::axes(&axes, rank, "axes")?;
    let old = x.shape();
    let mut old = old.dims().iter();
    let dims: Vec<i64> = (0..rank)
        .map(|a| {
            if axes.contains(&a) {
                1
            } else {
                old.next().map_or(1, |&d| i64::from(d))
            }
        })
        .collect();
    b.reshape(x, shape_of(&dims)?)
}

pub(super) fn transpose(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    let rank = x.shape().rank();
    let perm = match node.ints("perm")? {
        Some(perm) if perm.len() == rank => OnnxNode::axes(perm, rank, "perm")?,
        Some(perm) => return Err(malformed(format!("{} axes of {rank}", perm.len())).at("perm")),
        None => (0..rank).rev().collect(),
    };
    b.transpose(x, &perm)
}

pub(super) fn expand(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let x = node.input(0)?;
    let wanted = node.int_input(1, "shape")?.ok_or_else(|| malformed("missing").at("shape"))?;
    let wanted = shape_of(&wanted).map_err(|e| e.at("shape"))?;
    let shape = broadcast(x.shape(), wanted).ok_or_else(|| malformed(format!("{wanted} for an input {}", x.shape())).at("shape"))?;
    if shape == x.shape() {
        return Ok(x.clone());
    }
    b.view(ViewOp::Broadcast, x, shape)
}

/// Dropout does nothing at inference; its mask is all true (before operator set 10, all 1 in the input's type).
pub(super) fn dropout(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    if node.opset < 12 {
        node.arity(1, 1)?;
        node.ignore("ratio");
    } else {
        node.arity(1, 3)?;
        node.ignore("seed");
        if node.bool_input(2, "training_mode")?.unwrap_or(false) {
            return Err(unsupported("training: export the network for inference (model.eval())").at("training_mode"));
        }
    }
    let x = node.input(0)?;
    let mut results = vec![x.clone()];
    if node.wants(1) {
        let elem = if node.opset < 10 { x.elem() } else { Elem::Bool };
        let one = b.constant(Host::from_f64s(elem, Shape::SCALAR, vec![1.0])?);
        results.push(if x.shape() == Shape::SCALAR {
            one
        } else {
            b.view(ViewOp::Broadcast, &one, x.shape())?
        });
    }
    Ok(results)
}
