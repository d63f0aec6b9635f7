//! Primitives that place input elements without computing: padding, nearest resizing, gathering.

use super::value::{Lane, RUN, Value};
use super::walk::{Bounds, pieces, walk};
use crate::backend::taps::padded;
use crate::limits::MAX_RANK;
use crate::primitive::PadMode;
use crate::tensor::Shape;

/// For every output position along an axis the input position; `None` outside the input.
pub type AxisMap = Vec<Option<u32>>;

/// Every output takes the input element that its coordinates map to, axis by axis, or a constant where one maps outside.
pub struct Remap {
    /// One map per axis; `None` where positions stay as they are.
    axes: [Option<AxisMap>; MAX_RANK],
    outside: f32,
}

impl Remap {
    /// A remap from one map per axis and the value outside.
    pub fn new(axes: [Option<AxisMap>; MAX_RANK], outside: f32) -> Remap {
        Remap { axes, outside }
    }

    /// Padding of `input` to `output`, with `begin` elements before the first (fewer where negative).
    pub fn pad(mode: PadMode, begin: &[i32; MAX_RANK], input: Shape, output: Shape) -> Remap {
        let axes = std::array::from_fn(|axis| {
            let (from, to, before) = (input.dim(axis), output.dim(axis), i64::from(begin[axis]));
            (axis < input.rank() && (from != to || before != 0)).then(|| {
                let place = |o: u32| padded(mode, i64::from(o) - before, i64::from(from));
                (0..to).map(place).collect()
            })
        });
        let outside = match mode {
            PadMode::Constant(value) => value.0,
            PadMode::Reflect | PadMode::Edge | PadMode::Wrap => 0.0,
        };
        Remap::new(axes, outside)
    }

    /// Computes the outputs in `bounds`.
    pub fn run(&self, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
        if x.cell.is_float() {
            self.run_lanes::<f32>(x, y, bounds);
        } else {
            self.run_lanes::<i32>(x, y, bounds);
        }
    }

    fn run_lanes<T: Lane>(&self, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
        let along = bounds.run_axis(y);
        let (xs, ys) = (x.stride(along), y.stride(along));
        let outside = T::of_scalar(self.outside);
        let mut values = [T::default(); RUN];
        walk(bounds, Some(along), [y.place], |at, [yo]| {
            let mut base = Some(x.place.origin);
            for axis in (0..MAX_RANK).filter(|&a| a != along) {
                let position = match &self.axes[axis] {
                    Some(map) => map[at[axis] as usize],
                    None => Some(at[axis]),
                };
                base = base.zip(position).map(|(base, p)| base + i64::from(p) * x.stride(axis));
            }
            pieces(bounds.len(along), RUN, |first, n| {
                let values = &mut values[..n];
                let start = at[along] as usize + first;
                match (base, &self.axes[along]) {
                    (None, _) => values.fill(outside),
                    (Some(base), None) => T::load(x, base + start as i64 * xs, xs, values),
                    (Some(base), Some(map)) => place(x, base, xs, &map[start..start + n], outside, values),
                }
                T::store(y, yo + first as i64 * ys, ys, values);
            });
        });
    }
}

/// Fills `values` by `map`; neighbours that stay neighbours are loaded together.
fn place<T: Lane>(x: &Value<'_>, base: i64, stride: i64, map: &[Option<u32>], outside: T, values: &mut [T]) {
    let mut i = 0;
    while i < map.len() {
        let Some(from) = map[i] else {
            values[i] = outside;
            i += 1;
            continue;
        };
        let follows = |(k, m): (usize, &Option<u32>)| *m == from.checked_add(k as u32);
        let n = map[i..].iter().enumerate().take_while(|&(k, m)| follows((k, m))).count();
        T::load(x, base + i64::from(from) * stride, stride, &mut values[i..i + n]);
        i += n;
    }
}

/// Elements of `x` along `axis` by index: the output's axes are those of `x` with `axis` replaced by those of `indices`.
pub struct Gather {
    /// The axis of the data.
    pub axis: usize,
    /// Extent of that axis.
    pub extent: u32,
    /// Axes of the indices.
    pub index_rank: usize,
}

impl Gather {
    /// Computes the outputs in `bounds`.
    pub fn run(&self, x: &Value<'_>, indices: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
        if x.cell.is_float() {
            self.run_lanes::<f32>(x, indices, y, bounds);
        } else {
            self.run_lanes::<i32>(x, indices, y, bounds);
        }
    }

    fn run_lanes<T: Lane>(&self, x: &Value<'_>, indices: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
        // Both operands as the output's axes see them: each moves along its own axes and stands still along the other's.
        let mut data = x.place;
        let mut index = indices.place;
        for axis in 0..MAX_RANK {
            let through = axis.checked_sub(self.axis).filter(|&i| i < self.index_rank);
            index.strides[axis] = through.map_or(0, |i| indices.stride(i));
            data.strides[axis] = match through {
                Some(_) => 0,
                None if axis < self.axis => x.stride(axis),
                None => (axis + 1)
                    .checked_sub(self.index_rank)
                    .filter(|&a| a < MAX_RANK)
                    .map_or(0, |a| x.stride(a)),
            };
        }
        let along = bounds.run_axis(y);
        let (ds, is, ys) = (data.strides[along], index.strides[along], y.stride(along));
        let last = i64::from(self.extent) - 1;
        let position = |i: i32| {
            let i = i64::from(i);
            (if i < 0 { i + last + 1 } else { i }).clamp(0, last.max(0)) * x.stride(self.axis)
        };
        let mut values = [T::default(); RUN];
        let mut picked = [0i32; RUN];
        walk(bounds, Some(along), [data, index, y.place], |_, [xo, io, yo]| {
            pieces(bounds.len(along), RUN, |first, n| {
                let (values, picked) = (&mut values[..n], &mut picked[..n]);
                let from = first as i64;
                i32::load(indices, io + from * is, is, picked);
                if is == 0 {
                    T::load(x, xo + from * ds + position(picked[0]), ds, values);
                } else {
                    for (i, (value, &index)) in values.iter_mut().zip(picked.iter()).enumerate() {
                        *value = T::read(x, xo + (from + i as i64) * ds + position(index));
                    }
                }
                T::store(y, yo + from * ys, ys, values);
            });
        });
    }
}
