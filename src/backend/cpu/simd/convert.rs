//! Changes of element type, and bilinear blending.

use super::vector::{LANES, Simd};
use half::f16;

/// Floats of one block of interleaved pixels: a whole number of vectors and of 1, 2, 3 or 4
/// channels.
const BLOCK: usize = 48;

/// Turns bytes of `c` interleaved channels into `(x - mean[channel]) * inv[channel]`.
///
/// # Safety
///
/// `src` is valid for reading `n` bytes and `dst` for writing `n` floats, where `n` is a multiple of
/// `c`; `1 <= c <= 4`.
#[inline(always)]
pub(super) unsafe fn u8_to_f32<S: Simd>(s: S, src: *const u8, dst: *mut f32, n: usize, mean: &[f32], inv: &[f32], swap: bool) {
    let c = mean.len();
    let swap = swap && c >= 3;
    let mut means = [0.0f32; BLOCK];
    let mut invs = [0.0f32; BLOCK];
    for i in 0..BLOCK {
        means[i] = mean[i % c];
        invs[i] = inv[i % c];
    }
    let mut bytes = [0u8; BLOCK];
    let mut at = 0;
    while at < n {
        let count = (n - at).min(BLOCK);
        // SAFETY: `count` bytes and floats remain at `at`; blocks are read whole only when they
        // are whole, or from the local copy.
        unsafe {
            let mut block = src.add(at);
            if swap || count < BLOCK {
                core::ptr::copy_nonoverlapping(block, bytes.as_mut_ptr(), count);
                if swap && c == 3 {
                    for pixel in bytes.as_chunks_mut::<3>().0 {
                        pixel.swap(0, 2);
                    }
                } else if swap {
                    for pixel in bytes.as_chunks_mut::<4>().0 {
                        pixel.swap(0, 2);
                    }
                }
                block = bytes.as_ptr();
            }
            let mut i = 0;
            while i < count {
                let x = s.load_u8(block.add(i));
                let x = s.sub(x, s.load(means.as_ptr().add(i)));
                let x = s.mul(x, s.load(invs.as_ptr().add(i)));
                s.store_upto(dst.add(at + i), count - i, x);
                i += LANES;
            }
        }
        at += count;
    }
}

/// Widens half precision.
#[inline(always)]
pub(super) fn f16_to_f32<S: Simd>(s: S, src: &[f16], dst: &mut [f32]) {
    assert_eq!(src.len(), dst.len());
    let (src, src_tail) = src.as_chunks::<LANES>();
    let (dst, dst_tail) = dst.as_chunks_mut::<LANES>();
    for (src, dst) in src.iter().zip(dst) {
        // SAFETY: both hold sixteen values, and `f16` is a transparent `u16`.
        unsafe { s.store(dst.as_mut_ptr(), s.load_f16(src.as_ptr().cast())) };
    }
    if !src_tail.is_empty() {
        let mut halves = [f16::ZERO; LANES];
        halves[..src_tail.len()].copy_from_slice(src_tail);
        // SAFETY: the copy holds sixteen values, and the tail fewer, as many as in `dst`.
        unsafe {
            let x = s.load_f16(halves.as_ptr().cast());
            s.store_tail(dst_tail.as_mut_ptr(), dst_tail.len(), x);
        }
    }
}

/// Narrows to half precision, to nearest even.
#[inline(always)]
pub(super) fn f32_to_f16<S: Simd>(s: S, src: &[f32], dst: &mut [f16]) {
    assert_eq!(src.len(), dst.len());
    let (src, src_tail) = src.as_chunks::<LANES>();
    let (dst, dst_tail) = dst.as_chunks_mut::<LANES>();
    for (src, dst) in src.iter().zip(dst) {
        // SAFETY: both hold sixteen values, and `f16` is a transparent `u16`.
        unsafe { s.store_f16(dst.as_mut_ptr().cast(), s.load(src.as_ptr())) };
    }
    if !src_tail.is_empty() {
        let mut halves = [f16::ZERO; LANES];
        // SAFETY: the tail holds fewer than sixteen floats, and the copy sixteen values.
        unsafe {
            let x = s.load_tail(src_tail.as_ptr(), src_tail.len(), s.splat(0.0));
            s.store_f16(halves.as_mut_ptr().cast(), x);
        }
        dst_tail.copy_from_slice(&halves[..src_tail.len()]);
    }
}

/// One output row of a bilinear resize.
///
/// Output `p` blends input pixels `left[p]` and `right[p]` of the rows `top` and `bottom`. With `[gy, fy] = down` and
/// `[gx, fx] = across[p]`, the sum runs in the order top left `gy * gx`, top right `gy * fx`, bottom left `fy * gx`,
/// bottom right `fy * fx`, the first a product and the others fused.
#[derive(Clone, Copy, Debug)]
pub struct BilinearRow<'a> {
    /// The upper input row.
    pub top: *const f32,
    /// The lower input row.
    pub bottom: *const f32,
    /// Weights of the upper and the lower row.
    pub down: [f32; 2],
    /// Per output pixel, the input pixel to the left.
    pub left: &'a [u32],
    /// Per output pixel, the input pixel to the right.
    pub right: &'a [u32],
    /// Per output pixel, the weights of the left and the right input pixel.
    pub across: &'a [[f32; 2]],
    /// Floats from one input pixel to the next.
    pub pixel_stride: usize,
    /// Channels.
    pub c: usize,
    /// Where the first output pixel goes.
    pub out: *mut f32,
    /// Floats from one output pixel to the next.
    pub out_stride: usize,
}

/// Runs [`BilinearRow`].
///
/// # Safety
///
/// As [`super::Kernels::bilinear_row`].
#[inline(always)]
pub(super) unsafe fn bilinear_row<S: Simd>(s: S, a: &BilinearRow<'_>) {
    // SAFETY: the caller's contract.
    let done = if a.c == 4 { unsafe { bilinear_quads(s, a) } } else { 0 };
    let points = a.left.iter().zip(a.right).zip(a.across);
    let [gy, fy] = a.down;
    for (p, ((&left, &right), &[gx, fx])) in points.enumerate().skip(done) {
        let w00 = s.splat(gy * gx);
        let w01 = s.splat(gy * fx);
        let w10 = s.splat(fy * gx);
        let w11 = s.splat(fy * fx);
        let (left, right) = (left as usize * a.pixel_stride, right as usize * a.pixel_stride);
        let mut i = 0;
        while i < a.c {
            let n = a.c - i;
            // SAFETY: the caller vouches for both input pixels in both rows and for the output
            // pixel, of each of which `n` channels remain.
            unsafe {
                let y = s.mul(w00, s.load_upto(a.top.add(left + i), n));
                let y = s.fma(w01, s.load_upto(a.top.add(right + i), n), y);
                let y = s.fma(w10, s.load_upto(a.bottom.add(left + i), n), y);
                let y = s.fma(w11, s.load_upto(a.bottom.add(right + i), n), y);
                s.store_upto(a.out.add(p * a.out_stride + i), n, y);
            }
            i += LANES;
        }
    }
}

/// The pixels of [`BilinearRow`] with four channels, four at a time; says how many are done.
///
/// # Safety
///
/// As [`super::Kernels::bilinear_row`], with four channels.
#[inline(always)]
unsafe fn bilinear_quads<S: Simd>(s: S, a: &BilinearRow<'_>) -> usize {
    let [gy, fy] = a.down.map(|w| s.splat(w));
    let points = a.left.as_chunks::<4>().0.iter().zip(a.right.as_chunks::<4>().0);
    let mut done = 0;
    for ((left, right), across) in points.zip(a.across.as_chunks::<4>().0) {
        let (gx, fx) = (s.splat_quads(across.map(|w| w[0])), s.splat_quads(across.map(|w| w[1])));
        let at = |row: *const f32, p: &[u32; 4]| p.map(|p| row.wrapping_add(p as usize * a.pixel_stride));
        // SAFETY: the caller vouches for all input pixels in both rows and for the output pixels.
        unsafe {
            let y = s.mul(s.mul(gy, gx), s.load_quads(at(a.top, left)));
            let y = s.fma(s.mul(gy, fx), s.load_quads(at(a.top, right)), y);
            let y = s.fma(s.mul(fy, gx), s.load_quads(at(a.bottom, left)), y);
            let y = s.fma(s.mul(fy, fx), s.load_quads(at(a.bottom, right)), y);
            if a.out_stride == 4 {
                s.store(a.out.add(done * 4), y);
            } else {
                let mut lanes = [0.0f32; LANES];
                s.store(lanes.as_mut_ptr(), y);
                for (p, pixel) in lanes.as_chunks::<4>().0.iter().enumerate() {
                    a.out.add((done + p) * a.out_stride).cast::<[f32; 4]>().write_unaligned(*pixel);
                }
            }
        }
        done += 4;
    }
    done
}
