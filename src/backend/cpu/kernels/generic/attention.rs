//! Attention: for every query the mean of the values, weighed by how well their keys answer it.

use super::reduce::folded;
use super::scalar;
use super::value::{Lane, Value};
use super::walk::{Bounds, walk};
use crate::backend::cpu::simd::Kernels;
use crate::primitive::Unary;
use crate::tensor::Shape;

/// Attention of some extents.
pub struct Attention {
    scale: f32,
    rank: usize,
    depth: usize,
    keys: usize,
    width: usize,
}

impl Attention {
    /// Attention over keys of the shape `keys` `[..,D,K]` to an output `[..,M,E]`.
    pub fn new(scale: f32, keys: Shape, output: Shape) -> Attention {
        let rank = output.rank();
        Attention {
            scale,
            rank,
            depth: keys.dim(rank - 2) as usize,
            keys: keys.dim(rank - 1) as usize,
            width: output.dim(rank - 1) as usize,
        }
    }

    /// Floats of working memory: a query, the keys, their weights and a row of the mask, the values and their sums, and a key as it
    /// is stored.
    pub fn work(&self) -> usize {
        2 * self.depth + 2 * self.keys + self.width + self.depth * self.keys + self.keys * self.width
    }

    /// The keys side by side, row by row of `packed`, from whichever of their axes is stored together.
    fn pack_keys(&self, keys: &Value<'_>, at: i64, packed: &mut [f32], key: &mut [f32]) {
        let (along, across) = (keys.stride(self.rank - 2), keys.stride(self.rank - 1));
        if across == 1 || self.keys == 1 {
            for (d, line) in packed.chunks_exact_mut(self.keys).enumerate() {
                f32::load(keys, at + d as i64 * along, across, line);
            }
            return;
        }
        for k in 0..self.keys {
            f32::load(keys, at + k as i64 * across, along, key);
            for (d, &x) in key.iter().enumerate() {
                packed[d * self.keys + k] = x;
            }
        }
    }

    /// Computes the outputs in `bounds`, which hold the last axis whole, from queries, keys, values and, if any, a mask.
    pub fn run(&self, inputs: &[Value<'_>], y: &Value<'_>, bounds: &Bounds, work: &mut [f32]) {
        let [queries, keys, values, ..] = inputs else { return };
        let (row, column) = (self.rank - 2, self.rank - 1);
        let (query, work) = work.split_at_mut(self.depth);
        let (key, work) = work.split_at_mut(self.depth);
        let (weights, work) = work.split_at_mut(self.keys);
        let (line, work) = work.split_at_mut(self.keys);
        let (sums, work) = work.split_at_mut(self.width);
        let (packed_keys, work) = work.split_at_mut(self.depth * self.keys);
        let packed_values = &mut work[..self.keys * self.width];
        let kernels = Kernels::get();
        // Keys and values stand still while the queries go from row to row.
        let still = |value: &Value<'_>| {
            let mut place = value.place;
            (place.strides[row], place.strides[column]) = (0, 0);
            place
        };
        let mask = inputs.get(3);
        // Without a mask its place is that of the queries, and nobody reads there.
        let places = [queries.place, still(keys), still(values), mask.unwrap_or(queries).place, y.place];
        // Where the keys and values lie that are packed.
        let mut packed = None;
        walk(&bounds.with(column, 0..1), None, places, |_, [qo, ko, vo, mo, yo]| {
            if packed != Some((ko, vo)) {
                self.pack_keys(keys, ko, packed_keys, key);
                for (k, line) in packed_values.chunks_exact_mut(self.width.max(1)).enumerate() {
                    f32::load(values, vo + k as i64 * values.stride(row), values.stride(column), line);
                }
                packed = Some((ko, vo));
            }
            f32::load(queries, qo, queries.stride(column), query);
            weights.fill(0.0);
            kernels.add_products(query, packed_keys, self.keys, weights);
            weights.iter_mut().for_each(|x| *x *= self.scale);
            if let Some(mask) = mask {
                f32::load(mask, mo, mask.stride(column), line);
                weights.iter_mut().zip(&*line).for_each(|(x, m)| *x += m);
            }
            let greatest = weights.iter().fold(f32::NEG_INFINITY, |best, &x| if x > best { x } else { best });
            weights.iter_mut().for_each(|x| *x -= greatest);
            scalar::unary(Unary::Exp, weights);
            let total = folded(weights, |sum, x| sum + x);
            sums.fill(0.0);
            kernels.add_products(weights, packed_values, self.width, sums);
            sums.iter_mut().for_each(|x| *x /= total);
            f32::store(y, yo, y.stride(column), sums);
        });
    }
}
