//! Matrix product over the last two axes.
//!
//! Every output starts at the third input (or 0) and takes one fused multiply-add for each k, ascending.

use super::value::{Lane, Place, RUN, Value};
use super::walk::{Bounds, pieces, walk};
use crate::backend::cpu::simd::Kernels;

/// Floats up to which the second factor is copied, side by side, for the rows that share it.
const MAX_PACKED: usize = 1 << 18;

/// Floats of working memory of a product of inner extent `depth` with `columns` columns.
pub fn work(depth: usize, columns: usize) -> usize {
    depth.checked_mul(columns).filter(|&n| n <= MAX_PACKED).unwrap_or(0)
}

/// Extents of a product: of `rank` axes, and along the inner one.
#[derive(Clone, Copy)]
pub struct Extents {
    pub rank: usize,
    pub depth: usize,
}

/// `y = a b (+ c)` for matrices in the last two axes.
pub fn matmul(extents: Extents, [a, b]: [&Value<'_>; 2], c: Option<&Value<'_>>, y: &Value<'_>, bounds: &Bounds, work: &mut [f32]) {
    let Extents { rank, depth } = extents;
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
    let columns = bounds.len(column);
    let room = bounds.len(row) > 1 && columns.checked_mul(depth).is_some_and(|n| n <= work.len());
    // Where the second factor lies that is packed.
    let mut packed = None;
    let mut factors = [0.0f32; RUN];
    let mut run = [0.0f32; RUN];
    let mut sums = [0.0f32; RUN];
    walk(bounds, Some(column), places, |_, [ao, bo, co, yo]| {
        if room && packed != Some(bo) {
            pack(b, bo, [row, column], columns, &mut work[..columns * depth]);
            packed = Some(bo);
        }
        pieces(bounds.len(column), RUN, |first, n| {
            let (run, sums, start) = (&mut run[..n], &mut sums[..n], first as i64);
            match c {
                Some(c) => f32::load(c, co + start * c.stride(column), c.stride(column), sums),
                None => sums.fill(0.0),
            }
            pieces(depth, RUN, |k, count| {
                let factors = &mut factors[..count];
                f32::load(a, ao + k as i64 * a.stride(column), a.stride(column), factors);
                if room {
                    kernels.add_products(factors, &work[k * columns + first..], columns, sums);
                    return;
                }
                for (i, &factor) in factors.iter().enumerate() {
                    let at = bo + start * b.stride(column) + (k + i) as i64 * b.stride(row);
                    f32::load(b, at, b.stride(column), run);
                    kernels.add_products(&[factor], run, 0, sums);
                }
            });
            f32::store(y, yo + start * y.stride(column), y.stride(column), sums);
        });
    });
}

/// Copies the matrix at `at`, whose rows and columns lie along `axes`, to rows of `columns` floats, along the axis that is
/// stored together.
fn pack(b: &Value<'_>, at: i64, [row, column]: [usize; 2], columns: usize, packed: &mut [f32]) {
    let (down, across) = (b.stride(row), b.stride(column));
    if across == 1 || columns <= 1 {
        for (k, line) in packed.chunks_exact_mut(columns.max(1)).enumerate() {
            f32::load(b, at + k as i64 * down, across, line);
        }
        return;
    }
    let depth = packed.len() / columns;
    let mut line = [0.0f32; RUN];
    for n in 0..columns {
        pieces(depth, RUN, |k, count| {
            let line = &mut line[..count];
            f32::load(b, at + n as i64 * across + k as i64 * down, down, line);
            for (i, &x) in line.iter().enumerate() {
                packed[(k + i) * columns + n] = x;
            }
        });
    }
}
