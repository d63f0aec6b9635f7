//! Kernels that slide a window over channels-last rows: depthwise convolution and pooling.
//!
//! A tap outside the input counts as a zero under a convolution and is left out of a pooling. Which ones are outside
//! depends on the geometry alone, so how a caller cuts rows and pixels apart never changes a bit.

use super::Isa;
use super::math;
use super::part::{All, Lower, Part};
use super::step::{Binary, Block, Fast, Step, apply, binary};
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

/// Channels of one vector or more.
#[derive(Clone, Copy)]
struct Lanes {
    channel: usize,
    n: usize,
}

impl Lanes {
    /// Vector `j` of several.
    #[inline(always)]
    fn vector(self, j: usize) -> Lanes {
        Lanes {
            channel: self.channel + LANES * j,
            n: self.n - LANES * j,
        }
    }
}

/// Vectors of channels of a pixel that is computed alone: enough sums under way at a time.
const EDGE_VECTORS: usize = 4;

impl Depthwise<'_> {
    /// Runs the steps on `P` pixels, `NV` vectors of channels, and writes them.
    ///
    /// # Safety
    ///
    /// The call has pixels `ox..ox + P` and the channels of `lanes`, which fill more than `NV - 1` vectors.
    #[inline(always)]
    unsafe fn finish<S: Simd, const P: usize, const NV: usize>(&self, s: S, fast: Fast, ox: usize, lanes: Lanes, mut acc: [[S::V; NV]; P]) {
        let row = ox - self.ox;
        match fast {
            Fast::Plain => {}
            Fast::Relu => unroll!(P, p => { unroll!(NV, j => { acc[p][j] = math::relu(s, acc[p][j]); }); }),
            Fast::Clip(lo, hi) => {
                let (lo, hi) = (s.splat(lo), s.splat(hi));
                unroll!(P, p => { unroll!(NV, j => { acc[p][j] = math::clip(s, acc[p][j], lo, hi); }); });
            }
            Fast::PRelu(slopes) => unroll!(NV, j => {
                // SAFETY: the caller vouches for the call's channels, of which `n - 16 j` remain here.
                let slope = unsafe { s.load_upto(slopes.add(lanes.channel + LANES * j), lanes.n - LANES * j) };
                unroll!(P, p => { acc[p][j] = binary(s, Binary::PRelu, acc[p][j], slope); });
            }),
            Fast::General => {
                let mut values = acc;
                // SAFETY: the caller vouches for the operands on the call's pixels and channels.
                unsafe {
                    apply(
                        s,
                        Block {
                            values: values.as_flattened_mut(),
                            vectors: NV,
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
            unroll!(NV, j => {
                // SAFETY: the pixel belongs to the call and has room for its channels, of which `n - 16 j` remain here.
                unsafe {
                    let out = self.out.add((row + p) * self.out_stride + lanes.channel + LANES * j);
                    s.store_upto(out, lanes.n - LANES * j, acc[p][j]);
                }
            });
        });
    }

    /// The bias of one vector of channels.
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

    /// `P` pixels whose taps across are all inside, with constant `KW` taps at constant `STRIDE` and no dilation: each input
    /// pixel is loaded once per row of taps, and `P` sums are under way at a time.
    ///
    /// # Safety
    ///
    /// The pixels are interior pixels of the call, which has the channels of `lanes`; with `Lower`, they fill all lanes.
    #[inline(always)]
    unsafe fn fixed<S: Simd, H: Part<S>, const P: usize, const KW: usize, const STRIDE: usize>(
        &self,
        s: S,
        fast: Fast,
        ox: usize,
        lanes: Lanes,
    ) {
        let w = &self.window;
        let at = (ox * STRIDE - w.pad_left) * w.pixel_stride + lanes.channel;
        // SAFETY: the channels are the caller's.
        let mut acc = [H::of(s, unsafe { self.first(s, lanes) }); P];
        for ky in 0..w.kh {
            let mut weight = [H::splat(s, 0.0); KW];
            // SAFETY: there are `kh` row pointers, and the weights have every tap, padded to whole vectors.
            let row = unsafe {
                let weights = self.weights.add(ky * KW * self.weight_pitch + lanes.channel);
                unroll!(KW, kx => { weight[kx] = H::load(s, weights.add(kx * self.weight_pitch), LANES); });
                w.rows.add(ky).read()
            };
            if row.is_null() {
                let zero = H::splat(s, 0.0);
                unroll!(KW, kx => { unroll!(P, p => { acc[p] = H::fma(s, zero, weight[kx], acc[p]); }); });
                continue;
            }
            // Input pixel `q * STRIDE + r` lies under tap `kx` of output pixel `q - kx / STRIDE` where `kx` leaves the
            // remainder `r`; for each output pixel the taps come in order.
            unroll!(P + (KW - 1) / STRIDE, q => {
                unroll!(STRIDE, r => {
                    let i = q * STRIDE + r;
                    if i < (P - 1) * STRIDE + KW {
                        // SAFETY: a row that is not null has every pixel that these taps reach.
                        let x = unsafe { H::load(s, row.add(at + i * w.pixel_stride), lanes.n) };
                        unroll!(KW, kx => {
                            let back = kx / STRIDE;
                            if kx % STRIDE == r && back <= q && q - back < P {
                                acc[q - back] = H::fma(s, x, weight[kx], acc[q - back]);
                            }
                        });
                    }
                });
            });
        }
        let mut values = [[s.splat(0.0)]; P];
        unroll!(P, p => { values[p][0] = H::whole(s, acc[p]); });
        // SAFETY: as this function's contract.
        unsafe { self.finish(s, fast, ox, lanes, values) }
    }

    /// `P` pixels, `NV` vectors of channels, with the taps across `taps`, which lie inside for all of them.
    ///
    /// # Safety
    ///
    /// The pixels belong to the call, which has the channels of `lanes`, which fill more than `NV - 1` vectors.
    #[inline(always)]
    unsafe fn any<S: Simd, const P: usize, const NV: usize>(&self, s: S, fast: Fast, ox: usize, taps: Range<usize>, lanes: Lanes) {
        let w = &self.window;
        let mut acc = [[s.splat(0.0); NV]; P];
        unroll!(NV, j => {
            // SAFETY: the channels are the caller's.
            let first = unsafe { self.first(s, lanes.vector(j)) };
            unroll!(P, p => { acc[p][j] = first; });
        });
        for ky in 0..w.kh {
            // SAFETY: there are `kh` row pointers.
            let row = unsafe { w.rows.add(ky).read() };
            for kx in 0..w.kw {
                let mut weight = [s.splat(0.0); NV];
                unroll!(NV, j => {
                    let at = (ky * w.kw + kx) * self.weight_pitch + lanes.channel + LANES * j;
                    // SAFETY: the weights have every tap, padded to whole vectors.
                    weight[j] = unsafe { s.load(self.weights.add(at)) };
                });
                if row.is_null() || !taps.contains(&kx) {
                    unroll!(P, p => { unroll!(NV, j => { acc[p][j] = s.fma(s.splat(0.0), weight[j], acc[p][j]); }); });
                    continue;
                }
                let ix = ox * w.stride + kx * w.dilation - w.pad_left;
                // SAFETY: the row is not null and the tap is inside for every pixel.
                unsafe {
                    let x = row.add(ix * w.pixel_stride + lanes.channel);
                    unroll!(P, p => {
                        unroll!(NV, j => {
                            let x = s.load_upto(x.add(p * w.stride * w.pixel_stride + LANES * j), lanes.n - LANES * j);
                            acc[p][j] = s.fma(x, weight[j], acc[p][j]);
                        });
                    });
                }
            }
        }
        // SAFETY: as this function's contract.
        unsafe { self.finish(s, fast, ox, lanes, acc) }
    }
}

/// Runs a block for each `$width` channels of `$channels`, and what remains with its own code.
macro_rules! each_vector {
    ($channels:expr, $width:expr, $lanes:ident => $body:expr, $rest:expr) => {{
        let (mut channel, end) = ($channels.start, $channels.end);
        while channel + $width <= end {
            let $lanes = Lanes { channel, n: $width };
            $body;
            channel += $width;
        }
        if channel < end {
            let $lanes = Lanes { channel, n: end - channel };
            $rest;
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
        ($p:literal, $lanes:ident => $body:expr) => {
            while ox + $p <= interior.end {
                // SAFETY: the block's pixels are interior pixels of the call.
                each_vector!(0..a.c, LANES, $lanes => unsafe { $body }, unsafe { $body });
                ox += $p;
            }
        };
    }
    macro_rules! fixed {
        ($kw:literal, $stride:literal) => {{
            // Steps that leave the registers cost as much for half a vector as for a whole one.
            while !matches!(fast, Fast::General) && ox + 8 <= interior.end {
                // SAFETY: as in `blocks`; all lanes are filled but at the rest.
                each_vector!(0..a.c, S::H_LANES, lanes => unsafe { a.fixed::<S, Lower, 8, $kw, $stride>(s, fast, ox, lanes) }, unsafe {
                    a.fixed::<S, All, 4, $kw, $stride>(s, fast, ox, lanes);
                    a.fixed::<S, All, 4, $kw, $stride>(s, fast, ox + 4, lanes);
                });
                ox += 8;
            }
            blocks!(4, lanes => a.fixed::<S, All, 4, $kw, $stride>(s, fast, ox, lanes));
        }};
    }
    while ox < a.ox + a.n {
        if interior.contains(&ox) {
            match (w.kw, w.stride, w.dilation) {
                // Arrays do not stay in registers: unrolled, they would only be long to compile.
                _ if const { matches!(S::ISA, Isa::Portable) } => blocks!(4, lanes => a.any::<S, 4, 1>(s, fast, ox, 0..w.kw, lanes)),
                (3, 1, 1) => fixed!(3, 1),
                (3, 2, 1) => fixed!(3, 2),
                (5, 1, 1) => fixed!(5, 1),
                (5, 2, 1) => fixed!(5, 2),
                _ => blocks!(4, lanes => a.any::<S, 4, 1>(s, fast, ox, 0..w.kw, lanes)),
            }
        }
        if ox < a.ox + a.n {
            let taps = w.taps(ox);
            // SAFETY: the pixel belongs to the call, and `taps` lie inside for it.
            each_vector!(0..a.c, EDGE_VECTORS * LANES, lanes => unsafe { a.any::<S, 1, EDGE_VECTORS>(s, fast, ox, taps.clone(), lanes) }, {
                each_vector!(lanes.channel..a.c, LANES,
                    // SAFETY: as above.
                    lanes => unsafe { a.any::<S, 1, 1>(s, fast, ox, taps.clone(), lanes) },
                    // SAFETY: as above.
                    unsafe { a.any::<S, 1, 1>(s, fast, ox, taps.clone(), lanes) })
            });
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
