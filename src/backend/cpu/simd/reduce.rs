//! Sums, maxima, softmax and the position of the greatest value.
//!
//! A run of floats is reduced to sixteen partial results by index modulo sixteen, which are then
//! folded by a fixed tree.

use super::math;
use super::vector::{LANES, Simd, unroll};

/// The sum of `n` floats.
///
/// # Safety
///
/// `p` is valid for reading `n` floats.
#[inline(always)]
pub(super) unsafe fn sum<S: Simd>(s: S, p: *const f32, n: usize) -> f32 {
    let mut acc = s.splat(0.0);
    let mut i = 0;
    while i < n {
        // SAFETY: `n - i` floats remain.
        acc = s.add(acc, unsafe { s.load_upto(p.add(i), n - i) });
        i += LANES;
    }
    s.fold_add(acc)
}

/// The greatest of `n` floats; NaN never wins, and nothing gives negative infinity.
///
/// # Safety
///
/// `p` is valid for reading `n` floats.
#[inline(always)]
pub(super) unsafe fn max<S: Simd>(s: S, p: *const f32, n: usize) -> f32 {
    let least = s.splat(f32::NEG_INFINITY);
    let mut acc = least;
    let whole = n / LANES * LANES;
    let mut i = 0;
    while i < whole {
        // SAFETY: sixteen floats remain.
        acc = s.max(unsafe { s.load(p.add(i)) }, acc);
        i += LANES;
    }
    if whole < n {
        // SAFETY: `n - whole` floats remain, fewer than sixteen.
        acc = s.max(unsafe { s.load_tail(p.add(whole), n - whole, least) }, acc);
    }
    s.fold_max(acc)
}

/// Adds `rows` rows of `c` floats to `dst`, in order.
///
/// # Safety
///
/// Row `r` at `src + r * stride` is valid for reading `c` floats, `dst` for reading and writing as
/// many, and they do not overlap.
#[inline(always)]
pub(super) unsafe fn add_rows<S: Simd>(s: S, src: *const f32, stride: usize, rows: usize, c: usize, dst: *mut f32) {
    const NV: usize = 4;
    let mut channel = 0;
    while channel < c {
        let n = (c - channel).min(NV * LANES);
        let used = n.div_ceil(LANES);
        let mut acc = [s.splat(0.0); NV];
        unroll!(NV, j => {
            if j < used {
                // SAFETY: of the channels `n - 16 j` remain here.
                acc[j] = unsafe { s.load_upto(dst.add(channel + LANES * j), n - LANES * j) };
            }
        });
        for r in 0..rows {
            // SAFETY: the caller vouches for row `r`.
            let row = unsafe { src.add(r * stride + channel) };
            unroll!(NV, j => {
                if j < used {
                    // SAFETY: of the channels `n - 16 j` remain here.
                    let x = unsafe { s.load_upto(row.add(LANES * j), n - LANES * j) };
                    acc[j] = s.add(acc[j], x);
                }
            });
        }
        unroll!(NV, j => {
            if j < used {
                // SAFETY: of the channels `n - 16 j` remain here.
                unsafe { s.store_upto(dst.add(channel + LANES * j), n - LANES * j, acc[j]) };
            }
        });
        channel += n;
    }
}

/// Adds rows of `c` floats, each times its weight, to `dst`: one fused multiply-add for each row, in order.
///
/// # Safety
///
/// Row `r` at `src + r * stride` is valid for reading `c` floats, for each of the weights, `dst` for
/// reading and writing as many, and they do not overlap.
#[inline(always)]
pub(super) unsafe fn add_products<S: Simd>(s: S, weights: &[f32], src: *const f32, stride: usize, c: usize, dst: *mut f32) {
    const NV: usize = 4;
    let mut channel = 0;
    while channel < c {
        let n = (c - channel).min(NV * LANES);
        let used = n.div_ceil(LANES);
        let mut acc = [s.splat(0.0); NV];
        unroll!(NV, j => {
            if j < used {
                // SAFETY: of the channels `n - 16 j` remain here.
                acc[j] = unsafe { s.load_upto(dst.add(channel + LANES * j), n - LANES * j) };
            }
        });
        for (r, &weight) in weights.iter().enumerate() {
            // SAFETY: the caller vouches for row `r`.
            let row = unsafe { src.add(r * stride + channel) };
            let weight = s.splat(weight);
            unroll!(NV, j => {
                if j < used {
                    // SAFETY: of the channels `n - 16 j` remain here.
                    let x = unsafe { s.load_upto(row.add(LANES * j), n - LANES * j) };
                    acc[j] = s.fma(weight, x, acc[j]);
                }
            });
        }
        unroll!(NV, j => {
            if j < used {
                // SAFETY: of the channels `n - 16 j` remain here.
                unsafe { s.store_upto(dst.add(channel + LANES * j), n - LANES * j, acc[j]) };
            }
        });
        channel += n;
    }
}

/// Softmax of a run: `e^(x - max)`, divided by the sum of these.
///
/// # Safety
///
/// `src` is valid for reading `n` floats and `dst` for writing as many; they are equal or apart.
#[inline(always)]
pub(super) unsafe fn softmax<S: Simd>(s: S, src: *const f32, dst: *mut f32, n: usize) {
    // SAFETY: the caller vouches for the run.
    let greatest = s.splat(unsafe { max(s, src, n) });
    let mut acc = s.splat(0.0);
    let whole = n / LANES * LANES;
    let mut i = 0;
    while i < whole {
        // SAFETY: sixteen floats remain in both.
        unsafe {
            let y = math::exp(s, s.sub(s.load(src.add(i)), greatest));
            s.store(dst.add(i), y);
            acc = s.add(acc, y);
        }
        i += LANES;
    }
    if whole < n {
        // SAFETY: `n - whole` floats remain in both, fewer than sixteen.
        unsafe {
            let rest = n - whole;
            let x = s.load_tail(src.add(whole), rest, s.splat(0.0));
            let y = math::exp(s, s.sub(x, greatest));
            s.store_tail(dst.add(whole), rest, y);
            // Read back, so that absent lanes add nothing.
            let y = s.load_tail(dst.add(whole), rest, s.splat(0.0));
            acc = s.add(acc, y);
        }
    }
    let sum = s.splat(s.fold_add(acc));
    let mut i = 0;
    while i < n {
        // SAFETY: `n - i` floats remain.
        unsafe {
            let y = s.load_upto(dst.add(i), n - i);
            s.store_upto(dst.add(i), n - i, s.div(y, sum));
        }
        i += LANES;
    }
}

/// Floats of a row up to which sixteen rows are worked on at once, a lane each.
pub(super) const SHORT: usize = 8;

/// Softmax of each of sixteen rows of `n` floats, at most [`SHORT`], `stride` apart: the bits of [`softmax`].
///
/// # Safety
///
/// The rows are valid for reading in `src` and for writing in `dst`, and the two are equal or apart.
#[inline(always)]
pub(super) unsafe fn softmax_short<S: Simd>(s: S, src: *const f32, dst: *mut f32, n: usize, stride: usize) {
    let n = n.min(SHORT);
    let mut lanes = [[0.0f32; LANES]; SHORT];
    for row in 0..LANES {
        for (i, column) in lanes.iter_mut().enumerate().take(n) {
            // SAFETY: the caller vouches for the row's `n` floats.
            column[row] = unsafe { *src.add(row * stride + i) };
        }
    }
    let mut greatest = s.splat(f32::NEG_INFINITY);
    let mut y = [s.splat(0.0); SHORT];
    for (y, column) in y.iter_mut().zip(&lanes).take(n) {
        // SAFETY: a column has sixteen floats.
        *y = unsafe { s.load(column.as_ptr()) };
        greatest = s.max(*y, greatest);
    }
    for y in y.iter_mut().take(n) {
        *y = math::exp(s, s.sub(*y, greatest));
    }
    // The tree of `fold_add`, whose upper half has nothing to add here.
    let mut sums = y;
    let mut half = SHORT / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] = s.add(sums[i], sums[i + half]);
        }
        half /= 2;
    }
    for (y, column) in y.iter().zip(&mut lanes).take(n) {
        // SAFETY: a column has sixteen floats.
        unsafe { s.store(column.as_mut_ptr(), s.div(*y, sums[0])) };
    }
    for row in 0..LANES {
        for (i, column) in lanes.iter().enumerate().take(n) {
            // SAFETY: as where it was read.
            unsafe { *dst.add(row * stride + i) = column[row] };
        }
    }
}

/// Softmax down each of `c` columns of `k` rows; sums run in row order.
///
/// # Safety
///
/// Rows `0..k` at multiples of `stride` floats are valid for `c` floats, in `src` for reading and
/// in `dst` for reading and writing; `src` and `dst` are equal or apart.
#[inline(always)]
pub(super) unsafe fn softmax_columns<S: Simd>(s: S, src: *const f32, dst: *mut f32, k: usize, stride: usize, c: usize) {
    let mut channel = 0;
    while channel < c {
        let n = (c - channel).min(LANES);
        let mut greatest = s.splat(f32::NEG_INFINITY);
        let mut sum = s.splat(0.0);
        // SAFETY: in all three loops, row `r` exists in both and `n` of its channels remain.
        unsafe {
            for r in 0..k {
                let x = s.load_upto(src.add(r * stride + channel), n);
                greatest = s.max(x, greatest);
            }
            for r in 0..k {
                let x = s.load_upto(src.add(r * stride + channel), n);
                let y = math::exp(s, s.sub(x, greatest));
                s.store_upto(dst.add(r * stride + channel), n, y);
                sum = s.add(sum, y);
            }
            for r in 0..k {
                let p = dst.add(r * stride + channel);
                s.store_upto(p, n, s.div(s.load_upto(p, n), sum));
            }
        }
        channel += n;
    }
}

/// The first position of the greatest of `n` floats; NaN never wins, and 0 where nothing does.
///
/// # Safety
///
/// `p` is valid for reading `n` floats.
#[inline(always)]
pub(super) unsafe fn argmax<S: Simd>(s: S, p: *const f32, n: usize) -> usize {
    // SAFETY: the caller vouches for the run.
    let greatest = s.splat(unsafe { max(s, p, n) });
    let nan = s.splat(f32::NAN);
    let mut i = 0;
    while i < n {
        // SAFETY: `n - i` floats remain; a tail is filled with NaN, which equals nothing.
        let x = unsafe {
            if n - i >= LANES {
                s.load(p.add(i))
            } else {
                s.load_tail(p.add(i), n - i, nan)
            }
        };
        let hits = s.eq_bits(x, greatest);
        if hits != 0 {
            return i + hits.trailing_zeros() as usize;
        }
        i += LANES;
    }
    0
}
