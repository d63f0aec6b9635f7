//! Maximum and average pooling of up to three spatial axes.
//!
//! Taps run in row-major order. Padding never wins a maximum; the first of equal elements does, and a NaN beats every
//! number. An average is the sum in tap order, from 0, divided by the number of elements (or of padded positions).

use super::value::{Lane, RUN, Value};
use super::walk::{Bounds, pieces, walk};
use crate::limits::MAX_RANK;
use crate::primitive::{PoolKind, Window};
use crate::tensor::Shape;
use std::ops::Range;

/// A pooling with its geometry.
pub struct Pooling {
    /// Maximum or average.
    pub kind: PoolKind,
    /// Kernel, strides, dilations, pads.
    pub window: Window,
    /// `[N, C, spatial..]`.
    pub input: Shape,
}

/// A tap over a run of outputs along the last axis.
struct Tap {
    /// Input coordinates of the run's first output, per spatial axis; may lie outside.
    at: [i64; 3],
    /// Outputs of the run for which the tap is inside the input.
    inside: Range<usize>,
    /// Outputs of the run for which the tap is inside the padded input.
    padded: Range<usize>,
}

impl Pooling {
    fn axes(&self) -> usize {
        usize::from(self.window.axes)
    }

    /// Visits the taps of the `n` outputs from spatial coordinates `start` on, in row-major order.
    fn taps(&self, start: &[i64; 3], n: usize, mut visit: impl FnMut(&Tap)) {
        let (w, inner) = (&self.window, self.axes() - 1);
        let [k0, k1, k2] = w.kernel;
        for t0 in 0..k0 {
            for t1 in 0..k1 {
                for t2 in 0..k2 {
                    let taps = [t0, t1, t2];
                    let mut at = [0i64; 3];
                    let (mut inside, mut padded) = (true, true);
                    for axis in 0..self.axes() {
                        at[axis] = start[axis] * i64::from(w.stride[axis]) - i64::from(w.pad_begin[axis])
                            + i64::from(taps[axis]) * i64::from(w.dilation[axis]);
                        if axis < inner {
                            let extent = i64::from(self.input.dim(axis + 2));
                            inside &= (0..extent).contains(&at[axis]);
                            padded &= self.padded(axis).contains(&at[axis]);
                        }
                    }
                    let within = |on: bool, low: i64, high: i64| {
                        let step = i64::from(w.stride[inner]);
                        let below = |limit: i64| ((limit - at[inner]).max(0) as u64).div_ceil(step as u64).min(n as u64) as usize;
                        if on { below(low)..below(high).max(below(low)) } else { 0..0 }
                    };
                    let pads = self.padded(inner);
                    visit(&Tap {
                        at,
                        inside: within(inside, 0, i64::from(self.input.dim(inner + 2))),
                        padded: within(padded, pads.start, pads.end),
                    });
                }
            }
        }
    }

    /// Coordinates along a spatial axis with the declared padding around.
    fn padded(&self, axis: usize) -> Range<i64> {
        -i64::from(self.window.pad_begin[axis])..i64::from(self.input.dim(axis + 2)) + i64::from(self.window.pad_end[axis])
    }

    /// Computes the outputs in `bounds`, and where `indices` is there, the winners' flat indices.
    pub fn run(&self, x: &Value<'_>, y: &Value<'_>, indices: Option<&Value<'_>>, bounds: &Bounds) {
        match self.kind {
            PoolKind::Average { count_pad } => self.average(x, y, count_pad, bounds),
            PoolKind::Max { column_major } if x.cell.is_float() => self.max::<f32>(x, y, indices, column_major, bounds),
            PoolKind::Max { column_major } => self.max::<i32>(x, y, indices, column_major, bounds),
        }
    }

    /// Visits runs of outputs: the first's coordinates, the run's length, and the element of `x` at its batch, channel and spatial origin.
    fn runs(&self, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds, mut visit: impl FnMut(&[u32; MAX_RANK], &[i64; 3], usize, i64, i64)) {
        let last = self.axes() + 1;
        walk(bounds, Some(last), [y.place], |at, [yo]| {
            let base = x.place.origin + i64::from(at[0]) * x.stride(0) + i64::from(at[1]) * x.stride(1);
            pieces(bounds.len(last), RUN, |first, n| {
                let mut start = [0i64; 3];
                for (axis, s) in start.iter_mut().enumerate().take(self.axes()) {
                    *s = i64::from(at[axis + 2]);
                }
                start[last - 2] += first as i64;
                visit(at, &start, n, base, yo + first as i64 * y.stride(last));
            });
        });
    }

    /// The element of `x` under the first inside output of a tap, and the stride from one output to the next.
    fn source(&self, x: &Value<'_>, base: i64, tap: &Tap) -> (i64, i64) {
        let inner = self.axes() - 1;
        let step = i64::from(self.window.stride[inner]) * x.stride(inner + 2);
        let spatial: i64 = (0..self.axes()).map(|a| tap.at[a] * x.stride(a + 2)).sum();
        (base + spatial + tap.inside.start as i64 * step, step)
    }

    fn average(&self, x: &Value<'_>, y: &Value<'_>, count_pad: bool, bounds: &Bounds) {
        let last = self.axes() + 1;
        let mut loaded = [0.0f32; RUN];
        let mut sums = [0.0f32; RUN];
        let mut counts = [0u32; RUN];
        self.runs(x, y, bounds, |_, start, n, base, yo| {
            sums[..n].fill(0.0);
            counts[..n].fill(0);
            self.taps(start, n, |tap| {
                let (at, step) = self.source(x, base, tap);
                let loaded = &mut loaded[..tap.inside.len()];
                f32::load(x, at, step, loaded);
                sums[tap.inside.clone()]
                    .iter_mut()
                    .zip(loaded.iter())
                    .for_each(|(sum, &x)| *sum += x);
                let counted = if count_pad { tap.padded.clone() } else { tap.inside.clone() };
                counts[counted].iter_mut().for_each(|c| *c += 1);
            });
            sums[..n].iter_mut().zip(&counts).for_each(|(sum, &count)| *sum /= count as f32);
            f32::store(y, yo, y.stride(last), &sums[..n]);
        });
    }

    fn max<T: Lane>(&self, x: &Value<'_>, y: &Value<'_>, indices: Option<&Value<'_>>, column_major: bool, bounds: &Bounds) {
        let last = self.axes() + 1;
        let lowest = T::lowest(x.cell);
        let mut loaded = [T::default(); RUN];
        let mut best = [lowest; RUN];
        let mut winners = [0i32; RUN];
        // Flat index steps per spatial axis.
        let mut pitch = [0i64; 3];
        let mut elements = 1i64;
        for i in 0..self.axes() {
            let axis = if column_major { i } else { self.axes() - 1 - i };
            pitch[axis] = elements;
            elements *= i64::from(self.input.dim(axis + 2));
        }
        let inner = self.axes() - 1;
        let flat_step = i64::from(self.window.stride[inner]) * pitch[inner];
        self.runs(x, y, bounds, |at, start, n, base, yo| {
            best[..n].fill(lowest);
            winners[..n].fill(0);
            let plane = (i64::from(at[0]) * i64::from(self.input.dim(1)) + i64::from(at[1])) * elements;
            let mut fresh = [true; RUN];
            self.taps(start, n, |tap| {
                let (from, step) = self.source(x, base, tap);
                let loaded = &mut loaded[..tap.inside.len()];
                T::load(x, from, step, loaded);
                let first: i64 = plane + (0..self.axes()).map(|a| tap.at[a] * pitch[a]).sum::<i64>();
                for (i, &value) in tap.inside.clone().zip(loaded.iter()) {
                    if fresh[i] || value.beats(best[i]) {
                        fresh[i] = false;
                        best[i] = value;
                        winners[i] = (first + i as i64 * flat_step) as i32;
                    }
                }
            });
            T::store(y, yo, y.stride(last), &best[..n]);
            if let Some(indices) = indices {
                let mut to = indices.place.origin + i64::from(at[0]) * indices.stride(0) + i64::from(at[1]) * indices.stride(1);
                to += (0..self.axes()).map(|a| start[a] * indices.stride(a + 2)).sum::<i64>();
                i32::store(indices, to, indices.stride(last), &winners[..n]);
            }
        });
    }
}
