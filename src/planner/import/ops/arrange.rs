//! Operators that arrange elements anew: DepthToSpace, SpaceToDepth, ReverseSequence, Tile.

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed};
use super::super::host::{Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::counting;
use super::reshape::extents;
use crate::limits::MAX_RANK;
use crate::planner::graph::ViewOp;
use crate::primitive::Primitive;

/// The blocks of an input `[N, C, H, W]`.
fn blocks(node: &OnnxNode<'_>) -> Fallible<([i64; 4], i64)> {
    node.arity(1, 1)?;
    let x = node.input(0)?.shape();
    let size = node.int("blocksize")?.ok_or_else(|| malformed("missing").at("blocksize"))?;
    let dims: [i64; 4] = extents(x)
        .try_into()
        .map_err(|_| malformed(format!("an input {x} that is no batch of pictures")))?;
    if !(1..=i64::from(u16::MAX)).contains(&size) {
        return Err(malformed(format!("{size}")).at("blocksize"));
    }
    Ok((dims, size))
}

pub(super) fn depth_to_space(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let ([n, c, h, w], s) = blocks(node)?;
    if c % (s * s) != 0 {
        return Err(malformed(format!("{c} channels in blocks of {s} by {s}")).at("blocksize"));
    }
    let deep = c / (s * s);
    let (split, perm) = match node.string("mode")?.unwrap_or("DCR") {
        "DCR" => ([n, s, s, deep, h, w], [0, 3, 4, 1, 5, 2]),
        "CRD" => ([n, deep, s, s, h, w], [0, 1, 4, 2, 5, 3]),
        other => return Err(malformed(format!("`{other}`")).at("mode")),
    };
    let x = b.reshape(node.input(0)?, shape_of(&split)?)?;
    let x = b.transpose(&x, &perm)?;
    b.reshape(&x, shape_of(&[n, deep, h * s, w * s])?)
}

pub(super) fn space_to_depth(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let ([n, c, h, w], s) = blocks(node)?;
    if h % s != 0 || w % s != 0 {
        return Err(malformed(format!("{h} by {w} in blocks of {s}")).at("blocksize"));
    }
    let x = b.reshape(node.input(0)?, shape_of(&[n, c, h / s, s, w / s, s])?)?;
    // The block's places in front of the channels or behind them (an attribute since operator set 26).
    let perm = match node.string("mode")?.unwrap_or("DCR") {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return Err(malformed(format!("`{other}`")).at("mode")),
    };
    let x = b.transpose(&x, &perm)?;
    b.reshape(&x, shape_of(&[n, c * s * s, h / s, w / s])?)
}

/// Tile: the input repeated along each axis, one axis at a time.
pub(super) fn tile(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let mut x = node.input(0)?.clone();
    let repeats = node.int_input(1, "repeats")?.ok_or_else(|| malformed("missing").at("repeats"))?;
    if repeats.len() != x.shape().rank() {
        return Err(malformed(format!("{} numbers for an input {}", repeats.len(), x.shape())).at("repeats"));
    }
    for (axis, &times) in repeats.iter().enumerate() {
        let dims = extents(x.shape());
        let mut tiled = dims.clone();
        tiled[axis] = dims[axis].checked_mul(times).ok_or_else(|| limit("out of range").at("repeats"))?;
        let tiled = shape_of(&tiled).map_err(|e| e.at("repeats"))?;
        if times == 1 {
            continue;
        }
        if dims[axis] == 1 {
            x = b.view(ViewOp::Broadcast, &x, tiled)?;
            continue;
        }
        // A new axis in front of it, repeated; what lies before and behind is one axis each, for the rank has a limit.
        const _: () = assert!(MAX_RANK >= 4);
        let (before, behind) = (dims[..axis].iter().product::<i64>(), dims[axis..].iter().product::<i64>());
        let one = b.reshape(&x, shape_of(&[before, 1, behind])?)?;
        let many = b.view(ViewOp::Broadcast, &one, shape_of(&[before, times, behind])?)?;
        x = b.reshape(&many, tiled)?;
    }
    Ok(x)
}

/// ReverseSequence: of each sample of a batch the first elements along the time axis the other way round, as many as a constant says.
pub(super) fn reverse_sequence(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let x = node.input(0)?;
    let (batch, time) = (node.int("batch_axis")?.unwrap_or(1), node.int("time_axis")?.unwrap_or(0));
    let (batch, time) = match (batch, time) {
        (1, 0) => (1, 0),
        (0, 1) => (0, 1),
        _ => return Err(malformed(format!("axis {batch}, with the time on axis {time}: they are axes 0 and 1")).at("batch_axis")),
    };
    let dims = extents(x.shape());
    if dims.len() < 2 {
        return Err(malformed(format!("an input {} without a batch and a time", x.shape())));
    }
    let lengths = counting::known(node, 1, "sequence_lens")?.as_i64s().unwrap_or_default();
    if lengths.len() as i64 != dims[batch] || lengths.iter().any(|n| !(0..=dims[time]).contains(n)) {
        return Err(malformed(format!("{lengths:?} for {} sequences of {} elements", dims[batch], dims[time])).at("sequence_lens"));
    }
    let Some(&first) = lengths.first().filter(|_| x.shape().elements() > 0) else {
        return Ok(x.clone());
    };
    if lengths.iter().all(|&n| n == first) {
        return reversed(b, x, time, first);
    }
    let mut order = vec![batch, time];
    order.extend(2..dims.len());
    let turned = b.transpose(x, &order)?;
    let (samples, steps) = (dims[batch], dims[time]);
    let rows = shape_of(&[samples * steps, dims[2..].iter().product()])?;
    let matrix = b.reshape(&turned, rows)?;
    let row = |sample: i64, step: i64, length: i64| sample * steps + if step < length { length - 1 - step } else { step };
    let numbers = (0..)
        .zip(&lengths)
        .flat_map(|(sample, &length)| (0..steps).map(move |step| row(sample, step, length)));
    let numbers = b.constant(Host::i64s(shape_of(&[samples * steps])?, numbers.collect())?);
    let moved = b.one(Primitive::Gather { axis: 0 }, &[&matrix, &numbers], x.elem(), rows)?;
    let moved = b.reshape(&moved, turned.shape())?;
    // Two axes that changed places change back in the same way.
    b.transpose(&moved, &order)
}

/// The first `length` elements along an axis the other way round, in front of the others.
fn reversed(b: &mut Builder, x: &Operand, axis: usize, length: i64) -> Fallible<Operand> {
    if length < 2 {
        return Ok(x.clone());
    }
    let dims = extents(x.shape());
    let part = |b: &mut Builder, first: i64, way: i64, count: i64| {
        let (mut start, mut step, mut dims) = (vec![0; dims.len()], vec![1; dims.len()], dims.clone());
        (start[axis], step[axis], dims[axis]) = (first, way, count);
        b.slice(x, start, step, shape_of(&dims)?)
    };
    let front = part(b, length - 1, -1, length)?;
    if length == dims[axis] {
        return Ok(front);
    }
    let rest = part(b, length, 1, dims[axis] - length)?;
    b.concat(&[&front, &rest], axis, x.shape())
}
