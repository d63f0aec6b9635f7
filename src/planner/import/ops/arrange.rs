//! Operators that arrange elements anew: DepthToSpace, SpaceToDepth, Tile.

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed};
use super::super::host::shape_of;
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::reshape::extents;
use crate::limits::MAX_RANK;
use crate::planner::graph::ViewOp;

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
