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
    // Where a range of an axis begins, counted from its front.
    let inside = |(axis, &start): (usize, &i64)| {
        let whole = i64::from(data.dim(axis));
        let first = if start < 0 { start.checked_add(whole)? } else { start };
        let ends = first.checked_add(i64::from(extents[axis]))?;
        (first >= 0 && ends <= whole).then_some(first)
    };
    let inside = |starts: &[i64]| starts.iter().enumerate().map(inside).collect::<Option<Vec<_>>>();
    match indices.host().and_then(Host::as_i64s) {
        Some(places) => {
            let starts = &places[..extents.len()];
            let firsts = inside(starts)?;
            names_all(&places, starts, extents).then_some(firsts)
        }
        None => {
            let ranges = ranges(b, indices, extents.len())?;
            let starts: Vec<i64> = ranges.iter().map(|range| range[0]).collect();
            let firsts = inside(&starts)?;
            let ascends = |range: &Vec<i64>, extent: u32| (0..i64::from(extent)).all(|i| range[i as usize] == range[0] + i);
            ranges.iter().zip(extents).all(|(r, &n)| ascends(r, n)).then_some(firsts)
        }
    }
}

/// True if places that are all there are those of the box from `starts` on, which lies inside the data, in C order.
fn names_all(places: &[i64], starts: &[i64], extents: &[u32]) -> bool {
    let axes = extents.len();
    let mut at = vec![0i64; axes];
    places.chunks_exact(axes).all(|place| {
        let named = (0..axes).all(|axis| place[axis] == starts[axis] + at[axis]);
        for axis in (0..axes).rev() {
            at[axis] += 1;
            if at[axis] < i64::from(extents[axis]) {
                break;
            }
            at[axis] = 0;
        }
        named
    })
}

/// Of places whose `axes` are joined, each a constant that varies along its own axis alone: the positions along it.
fn ranges(b: &Builder, indices: &Operand, axes: usize) -> Option<Vec<Vec<i64>>> {
    let Operand::Computed { id, .. } = indices else { return None };
    let producers = strided::producers(&b.graph);
    let joined = &b.graph.nodes[producers[id.index()]?];
    if joined.op != (Op::Concat { axis: axes }) || joined.inputs.len() != axes {
        return None;
    }
    let range = |(axis, &part): (usize, &ValueId)| {
        let numbers = strided::along(&b.graph, &producers, part, axis)?;
        Some(numbers.into_iter().map(|v| v as i64).collect())
    };
    joined.inputs.iter().enumerate().map(range).collect()
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
