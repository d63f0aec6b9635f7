//! Operators that order elements: ArgMax, ArgMin, Hardmax, TopK.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed};
use super::super::host::{Elem, Host, runs, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, convert, mask};
use super::logic::{self, Comparison};
use super::reshape::{as_matrix, extents};
use crate::primitive::{Binary, Primitive, Unary};
use std::cmp::Ordering;

/// Elements up to which constants are put in order while importing.
const MAX_ORDERED: u64 = 1 << 22;

/// ArgMax, and ArgMin as that of the negated input: the first index of the largest, or the last with `select_last_index`.
pub(super) fn arg_max(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(0), x.shape().rank(), "axis")?;
    let keep = node.flag("keepdims", true)?;
    let from_the_end = node.flag("select_last_index", false)?;
    let index = place_of_best(b, x, axis, node.op == "ArgMax", from_the_end)?;
    if keep {
        return Ok(index);
    }
    let mut dims = extents(x.shape());
    dims.remove(axis);
    b.reshape(&index, shape_of(&dims)?)
}

/// The first (or last) index of the largest (or least) along an axis, whose extent becomes 1.
fn place_of_best(b: &mut Builder, x: &Operand, axis: usize, largest: bool, last: bool) -> Fallible<Operand> {
    let shape = x.shape();
    let n = i64::from(shape.dim(axis));
    if n == 0 {
        return Err(malformed(format!("an input {shape} without elements along axis {axis}")));
    }
    let result = shape.with_dim(axis, 1).ok_or_else(|| malformed("result too large"))?;
    if let Some(keys) = x.host().and_then(|host| keys(host, axis, largest)) {
        let best = |run: Vec<usize>| {
            let least = run.iter().map(|&at| keys[at]).min();
            let mut places = run.iter().map(|&at| Some(keys[at]));
            let place = if last {
                places.rposition(|key| key == least)
            } else {
                places.position(|key| key == least)
            };
            place.unwrap_or(0) as i64
        };
        let places = runs(shape, axis).map(best).collect();
        return Ok(b.constant(Host::i64s(result, places)?));
    }
    let mut values = ordered(b, x, largest)?;
    if last {
        let (mut start, mut step) = (vec![0; shape.rank()], vec![1; shape.rank()]);
        (start[axis], step[axis]) = if n > 1 { (n - 1, -1) } else { (0, 1) };
        values = b.slice(&values, start, step, shape)?;
    }
    let index = b.one(Primitive::ArgMax { axis: axis as u8 }, &[&values], Elem::I64, result)?;
    if !last {
        return Ok(index);
    }
    let end = b.scalar(Elem::I64, (n - 1) as f64)?;
    b.binary(Binary::Sub, &end, &index)
}

/// The elements such that the wanted ones are the largest: as they are, or negated. Small integers are widened for that.
fn ordered(b: &mut Builder, x: &Operand, largest: bool) -> Fallible<Operand> {
    let x = match x.elem() {
        Elem::U8 | Elem::I8 | Elem::Bool => convert(b, x, Elem::I32)?,
        _ => x.clone(),
    };
    if largest { Ok(x) } else { apply(b, Unary::Neg, &x) }
}

/// Numbers that order the elements of a constant along an axis: the best one has the least, equal ones have the same, and what is no
/// number comes behind all others, as it does where a frame computes. None for constants too large to order here.
fn keys(host: &Host, axis: usize, largest: bool) -> Option<Vec<i64>> {
    let shape = host.shape();
    if shape.elements() > MAX_ORDERED {
        return None;
    }
    let (ints, floats) = (host.as_i64s(), host.as_f64s());
    let compare = |i: usize, j: usize| {
        let ascending = match &ints {
            Some(ints) => ints[i].cmp(&ints[j]),
            None => floats[i].partial_cmp(&floats[j]).unwrap_or(Ordering::Equal),
        };
        let no_numbers = floats[i].is_nan().cmp(&floats[j].is_nan());
        no_numbers.then(if largest { ascending.reverse() } else { ascending })
    };
    let mut keys = vec![0; shape.elements() as usize];
    for mut run in runs(shape, axis) {
        run.sort_by(|&i, &j| compare(i, j));
        for pair in run.windows(2) {
            keys[pair[1]] = keys[pair[0]] + i64::from(compare(pair[0], pair[1]).is_ne());
        }
    }
    Some(keys)
}

/// TopK of a constant whose elements have these [`keys`] along the axis.
fn best_of_constant(b: &mut Builder, x: &Host, keys: &[i64], axis: usize, k: usize) -> Fallible<Vec<Operand>> {
    let shape = x.shape();
    let result = shape.with_dim(axis, k as u32).ok_or_else(|| malformed("result too large"))?;
    let mut sources = vec![0; result.elements() as usize];
    let mut indices = vec![0; sources.len()];
    for (run, targets) in runs(shape, axis).zip(runs(result, axis)) {
        let mut best: Vec<usize> = (0..run.len()).collect();
        // Of equal elements the first one stays in front.
        best.sort_by_key(|&step| keys[run[step]]);
        for (step, target) in best.into_iter().zip(targets) {
            sources[target] = run[step];
            indices[target] = step as i64;
        }
    }
    let values = match x.as_i64s() {
        Some(ints) => Host::i64s(result, sources.iter().map(|&at| ints[at]).collect())?.cast(x.elem())?,
        None => {
            let numbers = x.as_f64s();
            Host::from_f64s(x.elem(), result, sources.iter().map(|&at| numbers[at]).collect())?
        }
    };
    Ok(vec![b.constant(values), b.constant(Host::i64s(result, indices)?)])
}

/// Hardmax: 1 at the first of the largest along an axis, 0 elsewhere. Before operator set 13, along all axes from `axis` on as one.
pub(super) fn hardmax(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    let shape = x.shape();
    if !x.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    let flattens = node.opset < 13;
    let axis = node.int("axis")?.unwrap_or(if flattens { 1 } else { -1 });
    let (seen, axis) = if flattens {
        (b.reshape(x, as_matrix(shape, axis)?)?, 1)
    } else {
        (x.clone(), OnnxNode::axis(axis, shape.rank(), "axis")?)
    };
    let first = place_of_best(b, &seen, axis, true, false)?;
    let n = i64::from(seen.shape().dim(axis));
    let mut along = vec![1; seen.shape().rank()];
    along[axis] = n;
    let numbers = b.constant(Host::i64s(shape_of(&along)?, (0..n).collect())?);
    let here = logic::compared(b, &numbers, &first, Comparison::Equal)?;
    let here = mask(b, &here)?;
    let here = convert(b, &here, x.elem())?;
    b.reshape(&here, shape)
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
    if let Some((host, keys)) = x.host().and_then(|host| Some((host, keys(host, axis, largest)?))) {
        return best_of_constant(b, host, &keys, axis, k as usize);
    }
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
