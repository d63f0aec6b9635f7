//! Walks over boxes of coordinates, run by run.

use super::value::{Place, Value};
use crate::limits::MAX_RANK;
use crate::primitive::Region;
use crate::tensor::Shape;
use std::ops::Range;

/// A box of coordinates: a range per axis, `0..1` beyond the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    start: [u32; MAX_RANK],
    end: [u32; MAX_RANK],
    rank: usize,
}

impl Bounds {
    /// The box of one coordinate, the origin, with `rank` axes.
    pub fn origin(rank: usize) -> Bounds {
        Bounds {
            start: [0; MAX_RANK],
            end: [1; MAX_RANK],
            rank,
        }
    }

    /// All of `shape`.
    pub fn whole(shape: Shape) -> Bounds {
        Bounds {
            start: [0; MAX_RANK],
            end: std::array::from_fn(|a| shape.dim(a)),
            rank: shape.rank(),
        }
    }

    /// The share `region` of `shape`.
    pub fn of(shape: Shape, region: &Region) -> Bounds {
        let mut bounds = Bounds::whole(shape);
        if shape.rank() > 0 {
            bounds = bounds.with(0, region.batch.clone());
        }
        match shape.row_axis() {
            Some(axis) => bounds.with(axis, region.rows.clone()),
            None => bounds,
        }
    }

    /// The same box with another range along `axis`.
    pub fn with(mut self, axis: usize, range: Range<u32>) -> Bounds {
        self.start[axis] = range.start;
        self.end[axis] = range.end;
        self
    }

    /// The range along `axis`.
    pub fn range(&self, axis: usize) -> Range<u32> {
        self.start[axis]..self.end[axis]
    }

    /// Positions along `axis`.
    pub fn len(&self, axis: usize) -> usize {
        self.range(axis).len()
    }

    /// True if no coordinate is inside.
    pub fn is_empty(&self) -> bool {
        (0..MAX_RANK).any(|a| self.range(a).is_empty())
    }

    /// Number of coordinates inside.
    pub fn elements(&self) -> u64 {
        (0..MAX_RANK).map(|a| self.len(a) as u64).product()
    }

    /// The axis along which `value` is stored most densely: the best one for runs where the order of elements is free.
    pub fn run_axis(&self, value: &Value<'_>) -> usize {
        let moves = (0..self.rank).rev().filter(|&a| self.len(a) > 1);
        moves.min_by_key(|&a| value.stride(a).unsigned_abs()).unwrap_or(0)
    }
}

/// Visits the box in C order of its coordinates, run by run along `along` (every coordinate on its own for `None`).
///
/// `visit` gets the coordinates of the run's first element and, for each place, the element it has there.
pub fn walk<const N: usize>(bounds: &Bounds, along: Option<usize>, places: [Place; N], mut visit: impl FnMut(&[u32; MAX_RANK], [i64; N])) {
    if bounds.is_empty() {
        return;
    }
    let mut at = bounds.start;
    let mut offsets = places.map(|p| p.origin + (0..MAX_RANK).map(|a| i64::from(at[a]) * p.strides[a]).sum::<i64>());
    loop {
        visit(&at, offsets);
        let mut axis = bounds.rank;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            if along == Some(axis) {
                continue;
            }
            at[axis] += 1;
            let wraps = at[axis] == bounds.end[axis];
            let step = if wraps { 1 - bounds.len(axis) as i64 } else { 1 };
            for (offset, place) in offsets.iter_mut().zip(&places) {
                *offset += step * place.strides[axis];
            }
            if !wraps {
                break;
            }
            at[axis] = bounds.start[axis];
        }
    }
}

/// Cuts a run of `len` elements into pieces of at most `piece`: `visit` gets each piece's first position and length.
pub fn pieces(len: usize, piece: usize, mut visit: impl FnMut(usize, usize)) {
    let mut first = 0;
    while first < len {
        let n = piece.min(len - first);
        visit(first, n);
        first += n;
    }
}
