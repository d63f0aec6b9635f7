//! Sampling of pictures at computed places, and the sources of what is scattered.

use super::value::{Lane, RUN, Value};
use super::walk::{Bounds, pieces};
use crate::primitive::{Outside, Places, Sample, Sampling};
use crate::tensor::Shape;

/// Keys' coefficient.
const A: f32 = -0.75;
/// Farther from a picture than this nothing is sampled; positions stay in 32 bits.
const FAR: f32 = 1_073_741_824.0;
/// A place that no sampling reaches a picture from.
const NOWHERE: f32 = -8.0;

/// A sampling of pictures of given shapes.
pub struct Sampler {
    sample: Sample,
    input: Shape,
    /// Samples of an output pixel, where they are added.
    points: u32,
}

/// The elements that a sample is made of along an axis, `None` for zeros outside, and their weights.
#[derive(Clone, Copy)]
struct Taps {
    count: usize,
    positions: [Option<u32>; 4],
    weights: [f32; 4],
}

impl Sampler {
    /// A sampling of pictures of shape `input`, `[N, C, H, W]`, at places of a shape.
    pub fn new(sample: Sample, input: Shape, places: Shape) -> Sampler {
        let points = match sample.places {
            Places::Sums { .. } => places.dim(2),
            Places::Grid { .. } | Places::Taps { .. } => 1,
        };
        Sampler { sample, input, points }
    }

    /// Computes the outputs in `bounds` from a picture, places, and factors of taps if there are three inputs.
    pub fn run(&self, inputs: &[Value<'_>], y: &Value<'_>, bounds: &Bounds) {
        for n in bounds.range(0) {
            for row in bounds.range(2) {
                for column in bounds.range(3) {
                    self.pixel(inputs, y, [n, row, column]);
                }
            }
        }
    }

    fn pixel(&self, inputs: &[Value<'_>], y: &Value<'_>, at: [u32; 3]) {
        let (x, places) = (&inputs[0], &inputs[1]);
        let [n, row, column] = at.map(i64::from);
        let channels = self.input.dim(1);
        let origin = |v: &Value<'_>, rows: usize| v.place.origin + n * v.stride(0) + row * v.stride(rows) + column * v.stride(rows + 1);
        let from = x.place.origin + n * x.stride(0);
        let to = origin(y, 2);
        match self.sample.places {
            Places::Grid { align_corners } => {
                let pair = origin(places, 1);
                let along = |axis: i64| f32::read(places, pair + axis * places.stride(3));
                let taps = [
                    self.taps(centred(along(1), self.input.dim(2), align_corners), 2, align_corners),
                    self.taps(centred(along(0), self.input.dim(3), align_corners), 3, align_corners),
                ];
                channel_run(x, y, &taps, from, to, channels, 1.0);
            }
            Places::Sums { align_corners } => self.sum(inputs, y, [n, row], align_corners),
            Places::Taps { window, groups, parts } => {
                let (moved, together) = (channels / groups, channels / parts);
                let taps = window.taps() as u32;
                for group in 0..groups {
                    for tap in 0..taps {
                        let first = |axis: usize, position: u32, inside: u32| {
                            let start = i64::from(position) * i64::from(window.stride[axis]) - i64::from(window.pad_begin[axis]);
                            (start + i64::from(inside) * i64::from(window.dilation[axis])) as f32
                        };
                        let index = i64::from(group * taps + tap);
                        let offset = |axis: i64| f32::read(places, origin(places, 2) + (2 * index + axis) * places.stride(1));
                        let (ky, kx) = (tap / window.kernel[1], tap % window.kernel[1]);
                        let around = [
                            self.taps(first(0, at[1], ky) + offset(0), 2, false),
                            self.taps(first(1, at[2], kx) + offset(1), 3, false),
                        ];
                        let factor = inputs.get(2).map_or(1.0, |f| f32::read(f, origin(f, 2) + index * f.stride(1)));
                        // The channels of the group, part by part.
                        let (mut channel, end) = (group * moved, (group + 1) * moved);
                        while channel < end {
                            let part = channel / together;
                            let count = end.min((part + 1) * together) - channel;
                            let out = (part * taps + tap) * together + channel - part * together;
                            let (from, to) = (from + i64::from(channel) * x.stride(1), to + i64::from(out) * y.stride(1));
                            channel_run(x, y, &around, from, to, count, factor);
                            channel += count;
                        }
                    }
                }
            }
        }
    }

    /// Weighs and adds the samples of a query in a picture.
    fn sum(&self, inputs: &[Value<'_>], y: &Value<'_>, [n, query]: [i64; 2], align_corners: bool) {
        let [x, places, factors] = [&inputs[0], &inputs[1], &inputs[2]];
        let origin = |v: &Value<'_>, queries: usize| v.place.origin + n * v.stride(0) + query * v.stride(queries);
        let from = x.place.origin + n * x.stride(0);
        let points = i64::from(self.points);
        let along = |point: i64, axis: i64| f32::read(places, origin(places, 1) + point * places.stride(2) + axis * places.stride(3));
        let (mut sums, mut sampled, mut row, mut loaded) = ([0.0f32; RUN], [0.0f32; RUN], [0.0f32; RUN], [0.0f32; RUN]);
        pieces(self.input.dim(1) as usize, RUN, |first, count| {
            let [sums, sampled, row, loaded] = [&mut sums[..count], &mut sampled[..count], &mut row[..count], &mut loaded[..count]];
            match inputs.get(3) {
                Some(start) => f32::load(start, origin(start, 2) + first as i64 * start.stride(1), start.stride(1), sums),
                None => sums.fill(0.0),
            }
            for point in 0..points {
                let taps = [
                    self.taps(centred(along(point, 1), self.input.dim(2), align_corners), 2, align_corners),
                    self.taps(centred(along(point, 0), self.input.dim(3), align_corners), 3, align_corners),
                ];
                blend(x, &taps, from + first as i64 * x.stride(1), [sampled, row, loaded]);
                let factor = f32::read(factors, origin(factors, 2) + point * factors.stride(3));
                sums.iter_mut()
                    .zip(sampled.iter())
                    .for_each(|(sum, &v)| *sum = factor.mul_add(v, *sum));
            }
            f32::store(y, origin(y, 2) + first as i64 * y.stride(1), y.stride(1), sums);
        });
    }

    /// The elements around `place` along an axis of the input.
    fn taps(&self, place: f32, axis: usize, align_corners: bool) -> Taps {
        let extent = self.input.dim(axis);
        let last = extent as f32 - 1.0;
        let (low, high) = if align_corners { (0.0, last) } else { (-0.5, last + 0.5) };
        let mut place = match self.sample.sampling {
            Sampling::Nearest => place.round_ties_even(),
            _ => place,
        };
        if !(place >= low && place <= high) {
            place = match self.sample.outside {
                Outside::Zero if place.abs() < FAR => place,
                Outside::Zero => NOWHERE,
                Outside::Border => place.max(0.0).min(last),
                Outside::Reflection => mirrored(place, low, high),
            };
        }
        let floor = place.floor();
        let (t, first) = (place - floor, floor as i32);
        let (count, first, weights) = match self.sample.sampling {
            Sampling::Nearest => (1, first, [1.0, 0.0, 0.0, 0.0]),
            Sampling::Linear => (2, first, [1.0 - t, t, 0.0, 0.0]),
            Sampling::Cubic => (4, first - 1, [outer(t + 1.0), inner(t), inner(1.0 - t), outer(2.0 - t)]),
        };
        let inside = |i: i32| u32::try_from(i).ok().filter(|&i| i < extent);
        let position = |k: usize| {
            let i = first + k as i32;
            inside(i).or_else(|| match self.sample.outside {
                Outside::Zero => None,
                Outside::Border => Some(i.clamp(0, last as i32) as u32),
                Outside::Reflection => Some(mirrored(i as f32, low, high).clamp(0.0, last) as u32),
            })
        };
        Taps {
            count,
            positions: std::array::from_fn(position),
            weights,
        }
    }
}

/// A grid's coordinate in elements.
fn centred(g: f32, extent: u32, align_corners: bool) -> f32 {
    let extent = extent as f32;
    match align_corners {
        true => (g + 1.0) * 0.5 * (extent - 1.0),
        false => ((g + 1.0) * extent - 1.0) * 0.5,
    }
}

/// The mirror image of `place` between `low` and `high`, as often as it takes.
fn mirrored(place: f32, low: f32, high: f32) -> f32 {
    let range = high - low;
    let beyond = if place < low { low - place } else { place - high };
    let turns = (beyond / range).trunc();
    let rest = beyond - turns * range;
    let even = (turns * 0.5).trunc() * 2.0 == turns;
    let image = if (place < low) == even { low + rest } else { high - rest };
    // What has no number lies at the start.
    image.max(low).min(high)
}

/// The weight of an element less than one away.
fn inner(t: f32) -> f32 {
    ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0
}

/// The weight of an element one to two away.
fn outer(t: f32) -> f32 {
    ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A
}

/// Samples `channels` channels, of which the first lie at `from` and `to`.
fn channel_run(x: &Value<'_>, y: &Value<'_>, taps: &[Taps; 2], from: i64, to: i64, channels: u32, factor: f32) {
    let (xs, ys) = (x.stride(1), y.stride(1));
    let (mut sums, mut row, mut loaded) = ([0.0f32; RUN], [0.0f32; RUN], [0.0f32; RUN]);
    pieces(channels as usize, RUN, |first, n| {
        let [sums, row, loaded] = [&mut sums[..n], &mut row[..n], &mut loaded[..n]];
        blend(x, taps, from + first as i64 * xs, [sums, row, loaded]);
        sums.iter_mut().for_each(|sum| *sum *= factor);
        f32::store(y, to + first as i64 * ys, ys, sums);
    });
}

/// Samples neighbouring channels, of which the first lies at `from`, into `sums`, with room for a row's sums and what is loaded.
fn blend(x: &Value<'_>, [rows, columns]: &[Taps; 2], from: i64, [sums, row, loaded]: [&mut [f32]; 3]) {
    sums.fill(0.0);
    for j in 0..rows.count {
        row.fill(0.0);
        for i in 0..columns.count {
            match (rows.positions[j], columns.positions[i]) {
                (Some(r), Some(c)) => {
                    let at = from + i64::from(r) * x.stride(2) + i64::from(c) * x.stride(3);
                    f32::load(x, at, x.stride(1), loaded);
                }
                _ => loaded.fill(0.0),
            }
            let weight = columns.weights[i];
            row.iter_mut()
                .zip(loaded.iter())
                .for_each(|(sum, &v)| *sum = weight.mul_add(v, *sum));
        }
        let weight = rows.weights[j];
        sums.iter_mut().zip(row.iter()).for_each(|(sum, &v)| *sum = weight.mul_add(v, *sum));
    }
}

/// Where each row of a scattering comes from: from the last update that names it, or it stays.
pub fn sources(common: bool, count: u32, places: &Value<'_>, y: &Value<'_>, rows: u32) {
    let store = |row: u32, source: u32| i32::store(y, y.place.origin + i64::from(row) * y.stride(0), 1, &[source as i32]);
    let first = if common { 1 } else { rows };
    for row in 0..rows {
        store(row, if common { 0 } else { row });
    }
    for update in 0..count {
        let place = i32::read(places, places.place.origin + i64::from(update) * places.stride(0));
        if let Some(row) = u32::try_from(place).ok().filter(|&row| row < rows) {
            store(row, first + update);
        }
    }
}
