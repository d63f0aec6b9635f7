//! Kernels that slide a window over channels-last rows: depthwise convolution and pooling.
//!
//! A tap outside the input counts as a zero under a convolution and is left out of a pooling. Which ones are outside
//! depends on the geometry alone, so how a caller cuts rows and pixels apart never changes a bit.

use super::math;
use super::step::{Block, Fast, Step, apply};
use super::vector::{LANES, Simd, unroll};
use core::ops::Range;

/// The input of a run of output pixels along one output row.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// `kh` pointers to the first pixel, first channel of an input row; null for a row outside.
    pub rows: *const *const f32,
    /// Taps down.
    pub kh: usize,
    /// Taps across.
    pub kw: usize,
    /// Pixels of each input row.
    pub in_w: usize,
    /// Floats from one input pixel to the next.
    pub pixel_stride: usize,
    /// Input pixels from one output pixel to the next.
    pub stride: usize,
    /// Input pixels from one tap across to the next.
    pub dilation: usize,
    /// Absent input pixels before the first.
    pub pad_left: usize,
}

impl Window {
    /// The taps across that lie inside the input for output pixel `ox`.
    #[inline(always)]
    fn taps(&self, ox: usize) -> Range<usize> {
        let at = ox * self.stride;
        let first = self.pad_left.saturating_sub(at).div_ceil(self.dilation);
        let room = (self.in_w + self.pad_left).saturating_sub(at);
        first..room.div_ceil(self.dilation).min(self.kw).max(first)
    }

    /// The part of `pixels` for which every tap across lies inside the input.
    #[inline(always)]
    fn interior(&self, pixels: Range<usize>) -> Range<usize> {
        let reach = (self.kw - 1) * self.dilation;
        let first = self.pad_left.div_ceil(self.stride);
        let end = match (self.in_w + self.pad_left).checked_sub(reach + 1) {
            Some(last) => last / self.stride + 1,
            None => 0,
        };
        let first = first.clamp(pixels.start, pixels.end);
        first..end.clamp(first, pixels.end)
    }
}

/// Depthwise convolution of a run of output pixels.
///
/// Each output is the bias, then for each tap, row by row, one fused multiply-add (of zero for a tap outside the input),
/// then the steps.
#[derive(Clone, Copy, Debug)]
pub struct Depthwise<'a> {
    /// The input.
    pub window: Window,
    /// Packed weights, tap by tap.
    pub weights: *const f32,
    /// Floats from one tap's weights to the next, for packed weights the channels rounded up to
    /// sixteen.
    pub weight_pitch: usize,
    /// `c` floats, or null for zeros.
    pub bias: *const f32,
    /// Channels.
    pub c: usize,
    /// The first output pixel of the run, counted along the output row.
    pub ox: usize,
    /// Output pixels.
    pub n: usize,
    /// Where the first output pixel goes.
    pub out: *mut f32,
    /// Floats from one output pixel to the next.
    pub out_stride: usize,
    /// What follows, at most [`super::MAX_STEPS`]; operand rows are the pixels of this call.
    pub steps: &'a [Step],
}

/// Channels of one vector.
#[derive(Clone, Copy)]
struct Lanes {
    channel: usize,
    n: usize,
}

impl Depthwise<'_> {
    /// Runs the steps on `P` pixels and writes them.
    ///
    /// # Safety
    ///
    /// The call has pixels `ox..ox + P` and the channels of `lanes`.
    #[inline(always)]
    unsafe fn finish<S: Simd, const P: usize>(&self, s: S, fast: Fast, ox: usize, lanes: Lanes, mut acc: [S::V; P]) {
        let row = ox - self.ox;
        match fast {
            Fast::Plain => {}
            Fast::Relu => unroll!(P, p => { acc[p] = math::relu(s, acc[p]); }),
            Fast::Clip(lo, hi) => {
                let (lo, hi) = (s.splat(lo), s.splat(hi));
                unroll!(P, p => { acc[p] = math::clip(s, acc[p], lo, hi); });
            }
            Fast::General => {
                let mut values = acc;
                // SAFETY: the caller vouches for the operands on the call's pixels and channels.
                unsafe {
                    apply(
                        s,
                        Block {
                            values: &mut values,
                            vectors: 1,
                            row,
                            channel: lanes.channel,
                            n: lanes.n,
                            steps: self.steps,
                        },
                    );
                }
                acc = values;
            }
        }
        unroll!(P, p => {
            // SAFETY: the pixel belongs to the call and has room for its channels.
            unsafe {
                let out = self.out.add((row + p) * self.out_stride + lanes.channel);
                s.store_upto(out, lanes.n, acc[p]);
            }
        });
    }

    /// The bias of some channels.
    ///
    /// # Safety
    ///
    /// The call has the channels of `lanes`.
    #[inline(always)]
    unsafe fn first<S: Simd>(&self, s: S, lanes: Lanes) -> S::V {
        if self.bias.is_null() {
            s.splat(0.0)
        } else {
            // SAFETY: the bias holds the call's channels.
            unsafe { s.load_upto(self.bias.add(lanes.channel), lanes.n) }
        }
    }

    /// `P` pixels whose taps across are all inside, with constant `KW` taps at constant `STRIDE`
    /// and no dilation: each input vector is loaded once per row of taps.
    ///
    /// # Safety
    ///
    /// The pixels are interior pixels of the call, which has the channels of `lanes`.
    #[inline(always)]
    unsafe fn fixed<S: Simd, const P: usize, const KW: usize, const STRIDE: usize>(&self, s: S, fast: Fast, ox: usize, lanes: Lanes) {
        let w = &self.window;
        let at = (ox * STRIDE - w.pad_left) * w.pixel_stride + lanes.channel;
        // SAFETY: the channels are the caller's.
        let mut acc = [unsafe { self.first(s, lanes) }; P];
        for ky in 0..w.kh {
            // SAFETY: there are `kh` row pointers; those not null have every pixel that these taps
            // reach, and the weights have every tap, padded to whole vectors.
            unsafe {
                let row = w.rows.add(ky).read();
                let weights = self.weights.add(ky * KW * self.weight_pitch + lanes.channel);
                if row.is_null() {
                    unroll!(KW, kx => {
                        let weight = s.load(weights.add(kx * self.weight_pitch));
                        unroll!(P, p => { acc[p] = s.fma(s.splat(0.0), weight, acc[p]); });
                    });
                    continue;
                }
                let row = row.add(at);
                let mut x = [s.splat(0.0); 12];
                unroll!((P - 1) * STRIDE + KW, i => {
                    x[i] = s.load_upto(row.add(i * w.pixel_stride), lanes.n);
                });
                unroll!(KW, kx => {
                    let weight = s.load(weights.add(kx * self.weight_pitch));
                    unroll!(P, p => { acc[p] = s.fma(x[p * STRIDE + kx], weight, acc[p]); });
                });
            }
        }
        // SAFETY: as this function's contract.
        unsafe { self.finish(s, fast, ox, lanes, acc) }
    }

    /// `P` pixels with the taps across `taps`, which lie inside for all of them.
    ///
    /// # Safety
    ///
    /// The pixels belong to the call, which has the channels of `lanes`.
    #[inline(always)]
    unsafe fn any<S: Simd, const P: usize>(&self, s: S, fast: Fast, ox: usize, taps: Range<usize>, lanes: Lanes) {
        let w = &self.window;
        // SAFETY: the channels are the caller's.
        let mut acc = [unsafe { self.first(s, lanes) }; P];
        for ky in 0..w.kh {
            // SAFETY: there are `kh` row pointers.
            let row = unsafe { w.rows.add(ky).read() };
            for kx in 0..w.kw {
                // SAFETY: the weights have every tap, padded to whole vectors.
                let weight = unsafe { s.load(self.weights.add((ky * w.kw + kx) * self.weight_pitch + lanes.channel)) };
                if row.is_null() || !taps.contains(&kx) {
                    unroll!(P, p => { acc[p] = s.fma(s.splat(0.0), weight, acc[p]); });
                    continue;
                }
                let ix = ox * w.stride + kx * w.dilation - w.pad_left;
                // SAFETY: the row is not null and the tap is inside for every pixel.
                unsafe {
                    let x = row.add(ix * w.pixel_stride + lanes.channel);
                    unroll!(P, p => {
                        let x = s.load_upto(x.add(p * w.stride * w.pixel_stride), lanes.n);
                        acc[p] = s.fma(x, weight, acc[p]);
                    });
                }
            }
        }
        // SAFETY: as this function's contract.
        unsafe { self.finish(s, fast, ox, lanes, acc) }
    }
}

/// Runs a block for every vector of channels, the last one with its own code.
macro_rules! each_vector {
    ($c:expr, $lanes:ident => $body:expr) => {{
        let c = $c;
        let whole = c / LANES * LANES;
        let mut channel = 0;
        while channel < whole {
            let $lanes = Lanes { channel, n: LANES };
            $body;
            channel += LANES;
        }
        if whole < c {
            let $lanes = Lanes {
                channel: whole,
                n: c - whole,
            };
            $body;
        }
    }};
}

/// Runs [`Depthwise`].
///
/// # Safety
///
/// As [`super::Kernels::depthwise`].
#[inline(always)]
pub(super) unsafe fn depthwise<S: Simd>(s: S, a: &Depthwise<'_>) {
    let w = &a.window;
    let fast = Fast::of(a.steps);
    let interior = w.interior(a.ox..a.ox + a.n);
    let mut ox = a.ox;
    macro_rules! blocks {
        ($p:literal, $ox:ident, $lanes:ident => $body:expr) => {
            while ox + $p <= interior.end {
                let $ox = ox;
                // SAFETY: the block's pixels are interior pixels of the call.
                each_vector!(a.c, $lanes => unsafe { $body });
                ox += $p;
            }
        };
    }
    macro_rules! fixed {
        ($kw:literal, $stride:literal) => {
            if S::DW == 4 {
                blocks!(4, ox, lanes => a.fixed::<S, 4, $kw, $stride>(s, fast, ox, lanes));
            } else {
                blocks!(2, ox, lanes => a.fixed::<S, 2, $kw, $stride>(s, fast, ox, lanes));
            }
        };
    }
    while ox < a.ox + a.n {
        if interior.contains(&ox) {
            match (w.kw, w.stride, w.dilation) {
                (3, 1, 1) => fixed!(3, 1),
                (3, 2, 1) => fixed!(3, 2),
                (5, 1, 1) => fixed!(5, 1),
                (5, 2, 1) => fixed!(5, 2),
                _ => blocks!(4, ox, lanes => a.any::<S, 4>(s, fast, ox, 0..w.kw, lanes)),
            }
        }
        if ox < a.ox + a.n {
            let taps = w.taps(ox);
            // SAFETY: the pixel belongs to the call, and `taps` lie inside for it.
            each_vector!(a.c, lanes => unsafe { a.any::<S, 1>(s, fast, ox, taps.clone(), lanes) });
            ox += 1;
        }
    }
}

/// What a pooling kernel computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PoolKind {
    /// The greatest value, NaN if there is one; a window without values gives negative infinity.
    Max,
    /// The sum in tap order, divided by the number of taps inside the input.
    AverageInside,
    /// The sum in tap order, divided by this.
    AverageOver(f32),
}

/// Pooling of a run of output pixels.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    /// The input.
    pub window: Window,
    /// What to compute.
    pub kind: PoolKind,
    /// Channels.
    pub c: usize,
    /// The first output pixel of the run, counted along the output row.
    pub ox: usize,
    /// Output pixels.
    pub n: usize,
    /// Where the first output pixel goes.
    pub out: *mut f32,
    /// Floats from one output pixel to the next.
    pub out_stride: usize,
    /// What follows, at most [`super::MAX_STEPS`]; operand rows are the pixels of this call.
    pub steps: &'a [Step],
}

/// Vectors of channels pooled together.
const POOL_VECTORS: usize = 4;

/// Runs [`Pool`].
///
/// # Safety
///
/// As [`super::Kernels::pool`].
#[inline(always)]
pub(super) unsafe fn pool<S: Simd>(s: S, a: &Pool<'_>) {
    for p in 0..a.n {
        let mut channel = 0;
        while channel < a.c {
            let n = (a.c - channel).min(POOL_VECTORS * LANES);
            // SAFETY: pixel `p` belongs to the call, which has these channels.
            unsafe {
                if n == POOL_VECTORS * LANES {
                    pool_block::<S, POOL_VECTORS>(s, a, p, Lanes { channel, n });
                    channel += n;
                } else {
                    let n = n.min(LANES);
                    pool_block::<S, 1>(s, a, p, Lanes { channel, n });
                    channel += n;
                }
            }
        }
    }
}

/// Pools one pixel, some channels.
///
/// # Safety
///
/// The call has pixel `p` and the channels of `lanes`, which fill more than `NV - 1` vectors.
#[inline(always)]
unsafe fn pool_block<S: Simd, const NV: usize>(s: S, a: &Pool<'_>, p: usize, lanes: Lanes) {
    let w = &a.window;
    let ox = a.ox + p;
    let taps = w.taps(ox);
    let max = a.kind == PoolKind::Max;
    let mut acc = [s.splat(if max { f32::NEG_INFINITY } else { 0.0 }); NV];
    let mut rows = 0;
    for ky in 0..w.kh {
        // SAFETY: there are `kh` row pointers.
        let row = unsafe { w.rows.add(ky).read() };
        if row.is_null() {
            continue;
        }
        rows += 1;
        for kx in taps.clone() {
            let ix = ox * w.stride + kx * w.dilation - w.pad_left;
            unroll!(NV, j => {
                // SAFETY: the row is not null, the tap is inside, and of the channels
                // `n - 16 j` remain here.
                let x = unsafe {
                    let x = row.add(ix * w.pixel_stride + lanes.channel + LANES * j);
                    s.load_upto(x, lanes.n - LANES * j)
                };
                acc[j] = if max { s.select_nan(x, x, s.max(x, acc[j])) } else { s.add(acc[j], x) };
            });
        }
    }
    let divisor = match a.kind {
        PoolKind::Max => None,
        PoolKind::AverageInside => Some((rows * taps.len()) as f32),
        PoolKind::AverageOver(divisor) => Some(divisor),
    };
    if let Some(divisor) = divisor {
        let divisor = s.splat(divisor);
        unroll!(NV, j => { acc[j] = s.div(acc[j], divisor); });
    }
    if !a.steps.is_empty() {
        let mut values = acc;
        // SAFETY: the caller vouches for the operands on the call's pixels and channels.
        unsafe {
            apply(
                s,
                Block {
                    values: &mut values,
                    vectors: NV,
                    row: p,
                    channel: lanes.channel,
                    n: lanes.n,
                    steps: a.steps,
                },
            );
        }
        acc = values;
    }
    unroll!(NV, j => {
        // SAFETY: the pixel has room for the call's channels, of which `n - 16 j` remain here.
        unsafe {
            let out = a.out.add(p * a.out_stride + lanes.channel + LANES * j);
            s.store_upto(out, lanes.n - LANES * j, acc[j]);
        }
    });
}
