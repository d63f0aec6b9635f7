//! Linear and cubic resizing.
//!
//! An output is the sum of its taps in row-major order of the resized axes; a tap's weight is the product of its axes'
//! weights in axis order. The first tap is a product, every later one a fused multiply-add.

use super::value::{Lane, RUN, Value};
use super::walk::{Bounds, pieces, walk};
use crate::backend::taps::{Taps, is_identity, weighted};
use crate::limits::MAX_RANK;
use crate::primitive::{Coordinates, PrimitiveError, Resize};
use crate::tensor::Shape;

/// A linear or cubic resize with its tables.
pub struct Resample {
    rank: usize,
    /// The taps of each axis; `None` where the axis is left as it is.
    axes: [Option<Taps>; MAX_RANK],
    outside: f32,
}

impl Resample {
    /// The tables from `input` to `output`, both not empty.
    pub fn new(resize: &Resize, input: Shape, output: Shape) -> Result<Resample, PrimitiveError> {
        let mut axes = [const { None }; MAX_RANK];
        for (axis, taps) in axes.iter_mut().enumerate().take(input.rank()) {
            let (from, to) = (input.dim(axis), output.dim(axis));
            if !is_identity(resize, axis, from, to) {
                *taps = Some(weighted(resize, axis, from, to)?);
            }
        }
        let outside = match &resize.coordinates {
            Coordinates::CropAndResize { outside, .. } => outside.0,
            _ => 0.0,
        };
        Ok(Resample {
            rank: input.rank(),
            axes,
            outside,
        })
    }

    /// Computes the outputs in `bounds`.
    pub fn run(&self, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
        // Runs go along an axis that keeps its positions, or else along the last one, whose taps are the innermost.
        let dense = bounds.run_axis(y);
        let along = if self.axes[dense].is_none() { dense } else { self.rank.max(1) - 1 };
        let mut box_of_taps = Bounds::origin(self.rank);
        for (axis, taps) in self.axes.iter().enumerate() {
            if let (Some(taps), true) = (taps, axis != along) {
                box_of_taps = box_of_taps.with(axis, 0..taps.count as u32);
            }
        }
        let mut sums = [0.0f32; RUN];
        let mut loaded = [0.0f32; RUN];
        let ys = y.stride(along);
        walk(bounds, Some(along), [y.place], |at, [yo]| {
            let gone = |axis: usize| self.axes[axis].as_ref().is_some_and(|t| t.outside[at[axis] as usize]);
            let outside = (0..self.rank).any(|a| a != along && gone(a));
            pieces(bounds.len(along), RUN, |first, n| {
                let (sums, loaded) = (&mut sums[..n], &mut loaded[..n]);
                if outside {
                    sums.fill(self.outside);
                } else {
                    let start = at[along] as usize + first;
                    let mut fresh = true;
                    walk(&box_of_taps, None, [], |tap, []| {
                        let (base, weight) = self.tap(x, at, tap, along);
                        self.take(x, along, start, base, weight, &mut fresh, loaded, sums);
                    });
                }
                f32::store(y, yo + first as i64 * ys, ys, sums);
            });
        });
    }

    /// Element and weight of a tap, over all axes but `along`.
    fn tap(&self, x: &Value<'_>, at: &[u32; MAX_RANK], tap: &[u32; MAX_RANK], along: usize) -> (i64, f32) {
        let mut base = x.place.origin;
        let mut weight = 1.0f32;
        for axis in (0..self.rank).filter(|&a| a != along) {
            let position = match &self.axes[axis] {
                Some(taps) => {
                    let i = at[axis] as usize * taps.count + tap[axis] as usize;
                    weight *= taps.weights[i];
                    taps.positions[i]
                }
                None => at[axis],
            };
            base += i64::from(position) * x.stride(axis);
        }
        (base, weight)
    }

    /// Adds a tap to a run of outputs that starts at `start` along `along`.
    #[allow(clippy::too_many_arguments)]
    fn take(
        &self,
        x: &Value<'_>,
        along: usize,
        start: usize,
        base: i64,
        weight: f32,
        fresh: &mut bool,
        loaded: &mut [f32],
        sums: &mut [f32],
    ) {
        let stride = x.stride(along);
        let Some(taps) = &self.axes[along] else {
            f32::load(x, base + start as i64 * stride, stride, loaded);
            for (sum, &value) in sums.iter_mut().zip(loaded.iter()) {
                *sum = add(*sum, weight, value, *fresh);
            }
            *fresh = false;
            return;
        };
        for (i, sum) in sums.iter_mut().enumerate() {
            if taps.outside[start + i] {
                *sum = self.outside;
                continue;
            }
            let row = (start + i) * taps.count..(start + i + 1) * taps.count;
            let mut first = *fresh;
            for (&position, &w) in taps.positions[row.clone()].iter().zip(&taps.weights[row]) {
                let value = f32::read(x, base + i64::from(position) * stride);
                *sum = add(*sum, weight * w, value, first);
                first = false;
            }
        }
        *fresh = false;
    }
}

#[inline]
fn add(sum: f32, weight: f32, value: f32, first: bool) -> f32 {
    if first { weight * value } else { weight.mul_add(value, sum) }
}
