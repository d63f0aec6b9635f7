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

    /// Floats of working memory: a query, a row of keys and their weights, a row of values and their sums.
    pub fn work(&self) -> usize {
        self.depth + self.keys + self.keys.max(self.width) + self.width
    }

    /// Computes the outputs in `bounds`, which hold the last axis whole, from queries, keys, values and, if any, a mask.
    pub fn run(&self, inputs: &[Value<'_>], y: &Value<'_>, bounds: &Bounds, work: &mut [f32]) {
        let [queries, keys, values, ..] = inputs else { return };
        let (row, column) = (self.rank - 2, self.rank - 1);
        let (query, work) = work.split_at_mut(self.depth);
        let (weights, work) = work.split_at_mut(self.keys);
        let (line, work) = work.split_at_mut(self.keys.max(self.width));
        let sums = &mut work[..self.width];
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
        walk(&bounds.with(column, 0..1), None, places, |_, [qo, ko, vo, mo, yo]| {
            f32::load(queries, qo, queries.stride(column), query);
            weights.fill(0.0);
            for (d, &factor) in query.iter().enumerate() {
                let line = &mut line[..self.keys];
                f32::load(keys, ko + d as i64 * keys.stride(row), keys.stride(column), line);
                kernels.add_products(&[factor], line, 0, weights);
            }
            weights.iter_mut().for_each(|x| *x *= self.scale);
            if let Some(mask) = mask {
                let line = &mut line[..self.keys];
                f32::load(mask, mo, mask.stride(column), line);
                weights.iter_mut().zip(line).for_each(|(x, &mut m)| *x += m);
            }
            let greatest = weights.iter().fold(f32::NEG_INFINITY, |best, &x| if x > best { x } else { best });
            weights.iter_mut().for_each(|x| *x -= greatest);
            scalar::unary(Unary::Exp, weights);
            let total = folded(weights, |sum, x| sum + x);
            sums.fill(0.0);
            for (k, &weight) in weights.iter().enumerate() {
                let line = &mut line[..self.width];
                f32::load(values, vo + k as i64 * values.stride(row), values.stride(column), line);
                kernels.add_products(&[weight], line, 0, sums);
            }
            sums.iter_mut().for_each(|x| *x /= total);
            f32::store(y, yo, y.stride(column), sums);
        });
    }
}
