//! Reductions, softmax, and normalisation.
//!
//! A reduction takes the reduced elements one after another in C order of the reduced axes, from 0 (or the lowest value), a norm
//! their squares by fused multiply-adds.
//! Softmax takes the maximum one after another, sums `e^(x - max)` in sixteen partial sums by the position's remainder,
//! folded in halves, and divides. Normalisation sums in the same way.

use super::scalar;
use super::value::{Lane, Place, RUN, Value};
use super::walk::{Bounds, pieces, walk};
use crate::primitive::{ReduceKind, Unary};
use crate::tensor::Shape;

/// Reduces the axes of `input` whose bit is set, for the outputs in `bounds`.
pub fn reduce(kind: ReduceKind, axes: u8, input: Shape, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
    if x.cell.is_float() {
        reduce_lanes::<f32>(kind, axes, input, x, y, bounds);
    } else {
        reduce_lanes::<i32>(kind, axes, input, x, y, bounds);
    }
}

fn reduce_lanes<T: Lane>(kind: ReduceKind, axes: u8, input: Shape, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
    let reduced = |axis: usize| axes & (1 << axis) != 0;
    let start = if kind == ReduceKind::Max { T::lowest(x.cell) } else { T::default() };
    let step = |sum: &mut T, x: T| match kind {
        ReduceKind::Max if x.beats(*sum) => *sum = x,
        ReduceKind::Max => {}
        ReduceKind::Sum | ReduceKind::Mean => *sum = sum.plus(x),
        ReduceKind::Norm => *sum = sum.plus_square(x),
    };
    // The box of the reduced axes alone.
    let mut inner = Bounds::whole(input);
    for axis in (0..input.rank()).filter(|&a| !reduced(a)) {
        inner = inner.with(axis, 0..1);
    }
    let count = inner.elements();
    let finish = |sum: &mut T| match kind {
        ReduceKind::Mean => *sum = sum.over(count),
        ReduceKind::Norm => *sum = sum.root(),
        ReduceKind::Max | ReduceKind::Sum => {}
    };
    let mut loaded = [T::default(); RUN];
    let kept = (0..input.rank()).filter(|&a| !reduced(a)).max_by_key(|&a| bounds.len(a));
    let last = (0..input.rank()).rev().find(|&a| reduced(a));
    match (kept, last) {
        // Runs of outputs, where those are longer than runs of reduced elements.
        (Some(along), last) if last.is_none_or(|l| bounds.len(along) > inner.len(l)) => {
            let mut sums = [T::default(); RUN];
            walk(bounds, Some(along), [x.place, y.place], |_, [xo, yo]| {
                pieces(bounds.len(along), RUN, |first, n| {
                    let (loaded, sums) = (&mut loaded[..n], &mut sums[..n]);
                    sums.fill(start);
                    let from = Place {
                        origin: xo + first as i64 * x.stride(along),
                        ..x.place
                    };
                    walk(&inner, None, [from], |_, [at]| {
                        T::load(x, at, x.stride(along), loaded);
                        sums.iter_mut().zip(loaded.iter()).for_each(|(sum, &x)| step(sum, x));
                    });
                    sums.iter_mut().for_each(finish);
                    T::store(y, yo + first as i64 * y.stride(along), y.stride(along), sums);
                });
            });
        }
        (_, last) => {
            let along = last.unwrap_or(0);
            walk(bounds, None, [x.place, y.place], |_, [xo, yo]| {
                let mut sum = start;
                let from = Place { origin: xo, ..x.place };
                walk(&inner, Some(along), [from], |_, [at]| {
                    pieces(inner.len(along), RUN, |first, n| {
                        let loaded = &mut loaded[..n];
                        T::load(x, at + first as i64 * x.stride(along), x.stride(along), loaded);
                        loaded.iter().for_each(|&x| step(&mut sum, x));
                    });
                });
                finish(&mut sum);
                T::store(y, yo, 1, &[sum]);
            });
        }
    }
}

/// Number of partial sums of a softmax or a normalisation.
const PARTIALS: usize = 16;

/// Values added by `step` to sixteen partial sums, by the position's remainder, which are folded in halves.
pub fn folded(values: &[f32], step: impl Fn(f32, f32) -> f32) -> f32 {
    let mut partials = [0.0f32; PARTIALS];
    for run in values.chunks(PARTIALS) {
        partials.iter_mut().zip(run).for_each(|(sum, &x)| *sum = step(*sum, x));
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            partials[i] += partials[i + half];
        }
    }
    partials[0]
}

/// Softmax along `axis` of extent `n`; `bounds` holds the axis whole, `work` holds `n` floats.
pub fn softmax(axis: usize, n: usize, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds, work: &mut [f32]) {
    let values = &mut work[..n];
    walk(&bounds.with(axis, 0..1), None, [x.place, y.place], |_, [xo, yo]| {
        f32::load(x, xo, x.stride(axis), values);
        let sum = weigh(values);
        values.iter_mut().for_each(|x| *x /= sum);
        f32::store(y, yo, y.stride(axis), values);
    });
}

/// Makes a softmax's weights of a row, `e^(x - the greatest x)`, and gives their sum.
fn weigh(values: &mut [f32]) -> f32 {
    let greatest = values.iter().fold(f32::NEG_INFINITY, |best, &x| if x > best { x } else { best });
    values.iter_mut().for_each(|x| *x -= greatest);
    scalar::unary(Unary::Exp, values);
    folded(values, |sum, x| sum + x)
}

/// The mean of values, one for each position along `axis` of extent `n`, weighed by a softmax of `x`; `work` holds `2 * n` floats.
pub fn expectation(axis: usize, n: usize, [x, of]: [&Value<'_>; 2], y: &Value<'_>, bounds: &Bounds, work: &mut [f32]) {
    let (values, weights) = work[..2 * n].split_at_mut(n);
    f32::load(of, of.place.origin, of.stride(0), values);
    walk(bounds, None, [x.place, y.place], |_, [xo, yo]| {
        f32::load(x, xo, x.stride(axis), weights);
        let sum = weigh(weights);
        let mean = weights.iter().zip(&*values).fold(0.0f32, |mean, (w, v)| w.mul_add(*v, mean));
        f32::store(y, yo, 1, &[mean / sum]);
    });
}

/// A normalisation along an axis.
pub struct Normalisation {
    /// The axis.
    pub axis: usize,
    /// Its extent.
    pub extent: usize,
    /// What is added to the mean of the squares.
    pub epsilon: f32,
    /// Values have their mean taken from them first.
    pub centred: bool,
}

/// Normalisation along an axis; `bounds` holds it whole, `work` as many floats as its extent.
pub fn normalise(by: &Normalisation, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds, work: &mut [f32]) {
    let (axis, values) = (by.axis, &mut work[..by.extent]);
    walk(&bounds.with(axis, 0..1), None, [x.place, y.place], |_, [xo, yo]| {
        f32::load(x, xo, x.stride(axis), values);
        normalise_run(values, by.epsilon, by.centred);
        f32::store(y, yo, y.stride(axis), values);
    });
}

/// Normalisation of the channels and places of each of `groups` groups of the samples in `bounds`; `work` holds as many floats
/// as a group has of `input`.
pub fn group_normalise(groups: u32, epsilon: f32, input: Shape, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds, work: &mut [f32]) {
    let (each, last) = (input.dim(1) / groups, input.rank() - 1);
    for sample in bounds.range(0) {
        for group in 0..groups {
            let own = Bounds::whole(input)
                .with(0, sample..sample + 1)
                .with(1, group * each..(group + 1) * each);
            let (run, values) = (own.len(last), &mut work[..own.elements() as usize]);
            let mut runs = values.chunks_mut(run);
            walk(&own, Some(last), [x.place], |_, [xo]| {
                if let Some(values) = runs.next() {
                    f32::load(x, xo, x.stride(last), values);
                }
            });
            normalise_run(values, epsilon, true);
            let mut runs = values.chunks(run);
            walk(&own, Some(last), [y.place], |_, [yo]| {
                if let Some(values) = runs.next() {
                    f32::store(y, yo, y.stride(last), values);
                }
            });
        }
    }
}

/// Values less their mean, if they are centred, over the root of the mean of their squares.
fn normalise_run(values: &mut [f32], epsilon: f32, centred: bool) {
    let count = values.len() as f32;
    if centred {
        let mean = folded(values, |sum, x| sum + x) / count;
        values.iter_mut().for_each(|x| *x -= mean);
    }
    let variance = folded(values, |sum, x| x.mul_add(x, sum)) / count;
    let deviation = (variance + epsilon).sqrt();
    values.iter_mut().for_each(|x| *x /= deviation);
}
