//! ScatterND to all places of a box of the data, one element or slice each: how exporters spell assignments to slices.
//!
//! What lies beside the box is joined to the updates, axis by axis, so that nothing is picked by its place.

use super::super::builder::Builder;
use super::super::error::Fallible;
use super::super::host::{Host, shape_of};
use super::super::values::Operand;
use crate::planner::graph::{Op, ValueId};
use crate::planner::strided;
use crate::tensor::Shape;

/// Where the box begins whose places `indices` (`[extents of the box.., its axes]`) name in C order; `None` if they name no box of
/// `data`, or are not known.
pub(super) fn named(b: &Builder, data: Shape, indices: &Operand) -> Option<Vec<i64>> {
    let shape = indices.shape();
    let (&axes, extents) = shape.dims().split_last()?;
    if axes == 0 || extents.len() != axes as usize || extents.len() > data.rank() || extents.contains(&0) {
        return None;
    }
    let starts = match indices.host().and_then(Host::as_i64s) {
        Some(places) => of_places(&places, extents),
        None => of_parts(b, indices, extents),
    }?;
    let inside = |(axis, &start): (usize, &i64)| {
        let whole = i64::from(data.dim(axis));
        let start = if start < 0 { start + whole } else { start };
        (start >= 0 && start + i64::from(extents[axis]) <= whole).then_some(start)
    };
    starts.iter().enumerate().map(inside).collect()
}

/// Of places that are all there.
fn of_places(places: &[i64], extents: &[u32]) -> Option<Vec<i64>> {
    let axes = extents.len();
    let starts = places.get(..axes)?.to_vec();
    let mut at = vec![0i64; axes];
    for place in places.chunks_exact(axes) {
        if (0..axes).any(|axis| place[axis] != starts[axis] + at[axis]) {
            return None;
        }
        for axis in (0..axes).rev() {
            at[axis] += 1;
            if at[axis] < i64::from(extents[axis]) {
                break;
            }
            at[axis] = 0;
        }
    }
    passes_no_end(starts, extents)
}

/// Of places whose axes are joined, each a constant that varies along its own axis alone.
fn of_parts(b: &Builder, indices: &Operand, extents: &[u32]) -> Option<Vec<i64>> {
    let Operand::Computed { id, .. } = indices else { return None };
    let producers = strided::producers(&b.graph);
    let joined = &b.graph.nodes[producers[id.index()]?];
    if joined.op != (Op::Concat { axis: extents.len() }) || joined.inputs.len() != extents.len() {
        return None;
    }
    let start_of = |(axis, &part): (usize, &ValueId)| {
        let (tensor, at) = strided::constant(&b.graph, &producers, part)?;
        let layout = at.layout;
        let varies = |a: usize| layout.shape.dim(a) > 1 && layout.stride(a) != 0;
        if (0..layout.shape.rank()).any(|a| a != axis && varies(a)) {
            return None;
        }
        let value = |i: u32| {
            let element = usize::try_from(at.origin + i64::from(i) * layout.stride(axis)).ok()?;
            tensor.get_f64(element).map(|v| v as i64)
        };
        let start = value(0)?;
        (1..extents[axis]).all(|i| value(i) == Some(start + i64::from(i))).then_some(start)
    };
    let starts = joined.inputs.iter().enumerate().map(start_of).collect::<Option<Vec<_>>>()?;
    passes_no_end(starts, extents)
}

/// Starts of ranges that do not go on from the last position, -1, to the first.
fn passes_no_end(starts: Vec<i64>, extents: &[u32]) -> Option<Vec<i64>> {
    let ends = starts.iter().zip(extents).all(|(&s, &n)| s >= 0 || s + i64::from(n) <= 0);
    ends.then_some(starts)
}

/// `data` with `updates` in a box of `extents` that begins at `starts`.
pub(super) fn pasted(b: &mut Builder, data: &Operand, updates: &Operand, starts: &[i64], extents: &[u32]) -> Fallible<Operand> {
    let whole: Vec<i64> = data.shape().dims().iter().map(|&d| i64::from(d)).collect();
    // Of the box along its first `axes` axes, of the data along the others.
    let dims = |axes: usize| -> Vec<i64> {
        let of_box = extents[..axes].iter().map(|&n| i64::from(n));
        of_box.chain(whole[axes..].iter().copied()).collect()
    };
    let mut result = b.reshape(updates, shape_of(&dims(extents.len()))?)?;
    for axis in (0..extents.len()).rev() {
        let end = starts[axis] + i64::from(extents[axis]);
        let mut beside = |from: i64, to: i64| -> Fallible<Option<Operand>> {
            if from == to {
                return Ok(None);
            }
            let mut first = vec![0; whole.len()];
            first[..axis].copy_from_slice(&starts[..axis]);
            first[axis] = from;
            let mut shape = dims(axis);
            shape[axis] = to - from;
            b.slice(data, first, vec![1; whole.len()], shape_of(&shape)?).map(Some)
        };
        let (before, behind) = (beside(0, starts[axis])?, beside(end, whole[axis])?);
        let parts: Vec<&Operand> = before.iter().chain([&result]).chain(&behind).collect();
        result = b.concat(&parts, axis, shape_of(&dims(axis))?)?;
    }
    Ok(result)
}
