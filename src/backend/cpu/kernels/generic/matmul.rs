//! Matrix product over the last two axes.
//!
//! Every output starts at the third input (or 0) and takes one fused multiply-add for each k, ascending.

use super::value::{Lane, Place, RUN, Value};
use super::walk::{Bounds, pieces, walk};
use crate::backend::cpu::simd::Kernels;

/// `y = a b (+ c)` for matrices of inner extent `depth` in the last two of `rank` axes.
pub fn matmul(a: &Value<'_>, b: &Value<'_>, c: Option<&Value<'_>>, y: &Value<'_>, rank: usize, depth: usize, bounds: &Bounds) {
    let (row, column) = (rank - 2, rank - 1);
    // Along an output's column `a` stands still, along its row `b` does.
    let still = |value: &Value<'_>, axis: usize| {
        let mut place: Place = value.place;
        place.strides[axis] = 0;
        place
    };
    let c_place = c.map_or(y.place, |c| c.place);
    let places = [still(a, column), still(b, row), c_place, y.place];
    let kernels = Kernels::get();
    let mut factors = [0.0f32; RUN];
    let mut run = [0.0f32; RUN];
    let mut sums = [0.0f32; RUN];
    walk(bounds, Some(column), places, |_, [ao, bo, co, yo]| {
        pieces(bounds.len(column), RUN, |first, n| {
            let (run, sums, first) = (&mut run[..n], &mut sums[..n], first as i64);
            match c {
                Some(c) => f32::load(c, co + first * c.stride(column), c.stride(column), sums),
                None => sums.fill(0.0),
            }
            pieces(depth, RUN, |k, count| {
                let factors = &mut factors[..count];
                f32::load(a, ao + k as i64 * a.stride(column), a.stride(column), factors);
                for (i, &factor) in factors.iter().enumerate() {
                    let at = bo + first * b.stride(column) + (k + i) as i64 * b.stride(row);
                    f32::load(b, at, b.stride(column), run);
                    kernels.add_products(&[factor], run, 0, sums);
                }
            });
            f32::store(y, yo + first * y.stride(column), y.stride(column), sums);
        });
    });
}
