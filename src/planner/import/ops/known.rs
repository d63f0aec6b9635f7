//! Operators that are computed while importing, since their operands are constants, or their results' extents depend on one:
//! Compress, Unique, functions of bits, windows of signals.

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed, unsupported};
use super::super::host::{Elem, Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::counting::{self, MAX_MADE};
use super::logic;
use super::reshape::extents;
use crate::planner::graph::broadcast;
use crate::primitive::Primitive;
use std::cmp::Ordering;
use std::f64::consts::TAU;

/// Positions of `axis` of `x`, in their order: a view where they follow each other.
pub(super) fn picked(b: &mut Builder, x: &Operand, axis: usize, positions: Vec<i64>) -> Fallible<Operand> {
    let mut dims = extents(x.shape());
    dims[axis] = positions.len() as i64;
    let shape = shape_of(&dims)?;
    if positions.windows(2).all(|pair| pair[1] == pair[0] + 1) {
        let mut start = vec![0; dims.len()];
        start[axis] = positions.first().copied().unwrap_or(0);
        return b.slice(x, start, vec![1; dims.len()], shape);
    }
    let count = shape_of(&[positions.len() as i64])?;
    let positions = b.constant(Host::i64s(count, positions)?);
    b.one(Primitive::Gather { axis: axis as u8 }, &[x, &positions], x.elem(), shape)
}

/// `x` and `axis`, or without an axis the elements of `x` side by side and their only one.
fn along(b: &mut Builder, node: &OnnxNode<'_>, x: &Operand) -> Fallible<(Operand, usize)> {
    match node.int("axis")? {
        Some(axis) => Ok((x.clone(), OnnxNode::axis(axis, x.shape().rank(), "axis")?)),
        None => {
            let flat = shape_of(&[x.shape().elements() as i64])?;
            Ok((b.reshape(x, flat)?, 0))
        }
    }
}

/// Compress: the positions of an axis, or of all elements, where a constant condition holds. A condition may end before the axis.
pub(super) fn compress(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (x, axis) = along(b, node, node.input(0)?)?;
    let condition = counting::known(node, 1, "condition")?;
    let extent = i64::from(x.shape().dim(axis));
    let holds = match (condition.elem(), condition.shape().rank(), condition.as_i64s()) {
        (Elem::Bool, 1, Some(holds)) => holds,
        _ => {
            return Err(malformed(format!(
                "shape {} and type {:?} where a list of truth values is expected",
                condition.shape(),
                condition.elem()
            ))
            .at("condition"));
        }
    };
    let positions: Vec<i64> = (0..).zip(&holds).filter(|(_, holds)| **holds != 0).map(|(at, _)| at).collect();
    if positions.last().is_some_and(|&last| last >= extent) {
        return Err(malformed(format!("true behind the {extent} elements of the axis")).at("condition"));
    }
    picked(b, &x, axis, positions)
}

/// What two elements are ordered by: numbers by size, equal zeros, what is no number at the ends.
fn ordered(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.total_cmp(&b))
}

/// Unique of a constant: its different elements, or different slices along an axis; where each is first, which of them each place
/// has, and how many places have it.
pub(super) fn unique(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(1, 1)?;
    counting::known(node, 0, "X")?;
    let (x, axis) = along(b, node, node.input(0)?)?;
    let sorted = node.flag("sorted", true)?;
    let host = x.host().ok_or_else(|| limit("a constant too large to look at").at("X"))?;
    let dims = x.shape();
    let extent = dims.dim(axis) as usize;
    let inner: usize = dims.dims()[axis + 1..].iter().map(|&d| d as usize).product();
    let outer: usize = dims.dims()[..axis].iter().map(|&d| d as usize).product();
    let elements = move |slice: usize| (0..outer * inner).map(move |i| (i / inner * extent + slice) * inner + i % inner);
    let (ints, floats) = (host.as_i64s(), host.as_f64s());
    let compare = |a: usize, b: usize| {
        let pairs = elements(a).zip(elements(b));
        let each = pairs.map(|(i, j)| match &ints {
            Some(ints) => ints[i].cmp(&ints[j]),
            None => ordered(floats[i], floats[j]),
        });
        each.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..extent).collect();
    // Equal slices stay in the order of their places, so the first of them is the first place.
    order.sort_by(|&a, &b| compare(a, b));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for place in order {
        match groups.last_mut() {
            Some(group) if compare(group[0], place).is_eq() => group.push(place),
            _ => groups.push(vec![place]),
        }
    }
    if !sorted {
        groups.sort_by_key(|group| group[0]);
    }
    let mut inverse = vec![0; extent];
    for (at, group) in groups.iter().enumerate() {
        group.iter().for_each(|&place| inverse[place] = at as i64);
    }
    let firsts: Vec<i64> = groups.iter().map(|group| group[0] as i64).collect();
    let counts: Vec<i64> = groups.iter().map(|group| group.len() as i64).collect();
    let values = picked(b, &x, axis, firsts.clone())?;
    let mut results = vec![values];
    for list in [firsts, inverse, counts] {
        let shape = shape_of(&[list.len() as i64])?;
        results.push(b.constant(Host::i64s(shape, list)?));
    }
    Ok(results)
}

/// Why bits of what a frame computes are not looked at.
fn computed_bits() -> super::super::error::Reason {
    unsupported(
        "bits of what is computed at run time: operators that work on bits are imported where their operands are constants. Fix the \
         inputs that they come from, write the node as arithmetic, or cut the network in front of it with --output NAME",
    )
}

/// BitwiseAnd, BitwiseOr, BitwiseXor and BitShift of constants.
pub(super) fn bits(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (x, y) = (node.input(0)?, node.input(1)?);
    let elem = x.elem();
    let shifts = match node.op {
        "BitShift" => Some(match node.string("direction")? {
            Some("LEFT") => true,
            Some("RIGHT") => false,
            other => return Err(malformed(format!("`{}`", other.unwrap_or_default())).at("direction")),
        }),
        _ => None,
    };
    if elem != y.elem() || elem.is_float() || elem == Elem::Bool || (shifts.is_some() && elem != Elem::U8) {
        return Err(malformed(format!("of elements of {elem:?} and {:?}", y.elem())));
    }
    let shape = broadcast(x.shape(), y.shape())
        .ok_or_else(|| malformed(format!("{} and {} cannot be broadcast together", x.shape(), y.shape())))?;
    let hosts = logic::constants([x, y], shape)?.ok_or_else(computed_bits)?;
    let [Some(left), Some(right)] = hosts.each_ref().map(Host::as_i64s) else {
        return Err(computed_bits());
    };
    let of = |(&a, &b): (&i64, &i64)| match (node.op, shifts) {
        ("BitwiseAnd", _) => a & b,
        ("BitwiseOr", _) => a | b,
        ("BitwiseXor", _) => a ^ b,
        // All bits of a byte are out of it after eight steps.
        (_, Some(true)) => a << b.min(8),
        _ => a >> b.min(8),
    };
    let values = left.iter().zip(&right).map(of).collect();
    Ok(b.constant(Host::i64s(shape, values)?.cast(elem)?))
}

/// BitwiseNot of a constant.
pub(super) fn bitwise_not(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if x.elem().is_float() || x.elem() == Elem::Bool {
        return Err(malformed(format!("of elements of {:?}", x.elem())));
    }
    let ints = x.host().and_then(Host::as_i64s).ok_or_else(computed_bits)?;
    let host = Host::i64s(x.shape(), ints.iter().map(|v| !v).collect())?;
    Ok(b.constant(host.cast(x.elem())?))
}

/// HannWindow, HammingWindow and BlackmanWindow: a constant of the size that a constant gives.
pub(super) fn window(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let size = counting::known(node, 0, "size")?;
    let size = match size.as_i64s().as_deref() {
        Some(&[size]) if size >= 0 => size,
        _ => return Err(malformed("not one number of elements").at("size")),
    };
    if size as u64 > MAX_MADE {
        return Err(limit(format!("{size} elements (at most {MAX_MADE})")).at("size"));
    }
    let elem = match node.int("output_datatype")? {
        Some(number) => Elem::from_onnx(i32::try_from(number).unwrap_or(-1)).map_err(|e| e.at("output_datatype"))?,
        None => Elem::F32,
    };
    // A periodic window leaves out its last element, which is the first of the next one.
    let period = if node.flag("periodic", true)? { size } else { size - 1 };
    let element = |at: i64| {
        if period == 0 {
            return 1.0;
        }
        let turn = TAU * at as f64 / period as f64;
        match node.op {
            "HannWindow" => 0.5 - 0.5 * turn.cos(),
            "HammingWindow" => 25.0 / 46.0 - 21.0 / 46.0 * turn.cos(),
            _ => 0.42 - 0.5 * turn.cos() + 0.08 * (2.0 * turn).cos(),
        }
    };
    let host = Host::from_f64s(elem, shape_of(&[size])?, (0..size).map(element).collect())?;
    Ok(b.constant(host))
}
