//! Operators that order elements: ArgMax, ArgMin, TopK.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed};
use super::super::host::{Elem, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, convert};
use super::reshape::extents;
use crate::primitive::{Binary, Primitive, Unary};

/// ArgMax, and ArgMin as that of the negated input: the first index of the largest, or the last with `select_last_index`.
pub(super) fn arg_max(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    let shape = x.shape();
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(0), shape.rank(), "axis")?;
    let keep = node.flag("keepdims", true)?;
    let from_the_end = node.flag("select_last_index", false)?;
    let mut values = ordered(b, x, node.op == "ArgMax")?;
    let n = i64::from(shape.dim(axis));
    if n == 0 {
        return Err(malformed(format!("an input {shape} without elements along axis {axis}")));
    }
    if from_the_end {
        let (mut start, mut step) = (vec![0; shape.rank()], vec![1; shape.rank()]);
        (start[axis], step[axis]) = if n > 1 { (n - 1, -1) } else { (0, 1) };
        values = b.slice(&values, start, step, shape)?;
    }
    let mut dims = extents(shape);
    dims[axis] = 1;
    let mut index = b.one(Primitive::ArgMax { axis: axis as u8 }, &[&values], Elem::I64, shape_of(&dims)?)?;
    if from_the_end {
        let last = b.scalar(Elem::I64, (n - 1) as f64)?;
        index = b.binary(Binary::Sub, &last, &index)?;
    }
    if keep {
        return Ok(index);
    }
    dims.remove(axis);
    b.reshape(&index, shape_of(&dims)?)
}

/// The elements such that the wanted ones are the largest: as they are, or negated. Small integers are widened for that.
fn ordered(b: &mut Builder, x: &Operand, largest: bool) -> Fallible<Operand> {
    let x = match x.elem() {
        Elem::U8 | Elem::I8 | Elem::Bool => convert(b, x, Elem::I32)?,
        _ => x.clone(),
    };
    if largest { Ok(x) } else { apply(b, Unary::Neg, &x) }
}

/// TopK: the `k` largest (or smallest) along an axis, in order, and their indices. `k` is an attribute before operator set 10.
pub(super) fn top_k(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    let x = node.input(0)?;
    let shape = x.shape();
    let rank = shape.rank();
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(-1), rank, "axis")?;
    let k = if node.opset < 10 {
        node.arity(1, 1)?;
        node.int("k")?
    } else {
        node.arity(2, 2)?;
        node.int_input(1, "K")?.and_then(|k| k.first().copied())
    };
    let k = k.ok_or_else(|| malformed("missing").at("K"))?;
    let n = i64::from(shape.dim(axis));
    if !(0..=n).contains(&k) {
        return Err(malformed(format!("{k} of {n} elements")).at("K"));
    }
    let largest = node.flag("largest", true)?;
    // Elements in order are also right where the order does not matter.
    node.flag("sorted", true)?;
    let values = ordered(b, x, largest)?;
    let mut order: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
    order.push(axis);
    let turned = b.transpose(&values, &order)?;
    let rows = (shape.elements() / (n.max(1) as u64)) as i64;
    let matrix = b.reshape(&turned, shape_of(&[rows, n])?)?;
    let flat = shape_of(&[rows, k])?;
    let found = b.primitive(Primitive::TopK, &[&matrix], &[(values.elem(), flat), (Elem::I64, flat)])?;
    let mut dims: Vec<i64> = order.iter().map(|&a| i64::from(shape.dim(a))).collect();
    dims[rank - 1] = k;
    let mut back = vec![0; rank];
    for (to, &from) in order.iter().enumerate() {
        back[from] = to;
    }
    let mut results = Vec::with_capacity(2);
    for (index, part) in found.iter().enumerate() {
        let part = b.reshape(part, shape_of(&dims)?)?;
        let mut part = b.transpose(&part, &back)?;
        if index == 0 {
            if !largest {
                part = apply(b, Unary::Neg, &part)?;
            }
            part = convert(b, &part, x.elem())?;
        }
        results.push(part);
    }
    Ok(results)
}
