//! Register tiles of the matrix products: some pixels by the channels of one panel.
//!
//! A strip is all tiles of one panel in a call. What does not change from tile to tile (bias, steps, strides) is set up
//! once per strip, because with few input channels that costs as much as the products.

use super::math;
use super::part::{All, Lower, Part};
use super::step::{Binary, Block, Fast, Operand, Step, apply, binary};
use super::vector::{LANES, Simd, Task, unroll};

/// Channels of a panel whose tiles keep only the lower halves of vectors.
pub(super) const HALF: usize = LANES / 2;

/// Where the rows of a strip come from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// For each [`Simd::MR`] pixels `taps` groups of as many pointers.
    Indirect(*const *const f32),
    /// Row 0 and the distance of the rows.
    Strided(*const f32, usize),
}

/// Where the rows of a strip go.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// A pointer per pixel.
    Indirect(*const *mut f32),
    /// Row 0 and the distance of the rows.
    Strided(*mut f32, usize),
}

/// What follows the products: the steps, as far as they run while values are still in registers.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    /// A sum with rows that lie a stride apart, before the rest.
    add: Option<(*const f32, usize)>,
    rest: Fast,
}

impl Finish {
    /// The form that `steps` take.
    #[inline(always)]
    pub(super) fn of(steps: &[Step]) -> Finish {
        if let [
            Step::Binary {
                op: Binary::Add,
                operand: Operand::Strided { base, stride },
                ..
            },
            rest @ ..,
        ] = steps
        {
            let rest = Fast::of(rest);
            if !matches!(rest, Fast::General) {
                return Finish {
                    add: Some((*base, *stride)),
                    rest,
                };
            }
        }
        Finish {
            add: None,
            rest: Fast::of(steps),
        }
    }
}

/// Some pixels by the channels of one panel.
#[derive(Clone, Copy)]
pub(super) struct Strip<'a> {
    pub source: Source,
    pub target: Target,
    /// Pixels.
    pub m: usize,
    /// The strip's first pixel in the call.
    pub row: usize,
    pub taps: usize,
    pub cin: usize,
    pub weights: *const f32,
    pub bias: *const f32,
    /// Floats from one row's bias to the next, 0 where all rows have the same.
    pub bias_stride: usize,
    /// The panel's first channel in the call.
    pub channel: usize,
    /// Valid channels of the panel.
    pub n: usize,
    pub finish: Finish,
    pub steps: &'a [Step],
}

impl<'a> Strip<'a> {
    /// The pixels from `row` on.
    ///
    /// # Safety
    ///
    /// `row` is at most `m` and a whole number of tiles of [`Simd::MR`].
    #[inline(always)]
    pub(super) unsafe fn after_row(&self, row: usize) -> Strip<'a> {
        // SAFETY: pixels up to `row` exist; where the bias is null, its stride is 0.
        let (bias, source, target) = unsafe {
            (
                self.bias.add(row * self.bias_stride),
                match self.source {
                    Source::Indirect(rows) => Source::Indirect(rows.add(row * self.taps)),
                    Source::Strided(a, stride) => Source::Strided(a.add(row * stride), stride),
                },
                match self.target {
                    Target::Indirect(out) => Target::Indirect(out.add(row)),
                    Target::Strided(out, stride) => Target::Strided(out.add(row * stride), stride),
                },
            )
        };
        Strip {
            source,
            target,
            m: self.m - row,
            row: self.row + row,
            bias,
            ..*self
        }
    }
}

/// A strip in tiles of `MR` pixels by `NV` vectors: whole ones where `FULL`, else a single one of at most `MR` pixels.
pub(super) struct Wide<'s, const MR: usize, const NV: usize, const FULL: bool>(pub &'s Strip<'s>);

impl<const MR: usize, const NV: usize, const FULL: bool> Task for Wide<'_, MR, NV, FULL> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: made for strips whose maker vouches for what they point to.
        unsafe { tiles::<S, All, MR, NV, FULL>(s, self.0) }
    }
}

/// As [`Wide`], for panels of at most [`HALF`] channels.
pub(super) struct Narrow<'s, const MR: usize, const FULL: bool>(pub &'s Strip<'s>);

impl<const MR: usize, const FULL: bool> Task for Narrow<'_, MR, FULL> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: made for strips whose maker vouches for what they point to.
        unsafe { tiles::<S, Lower, MR, 1, FULL>(s, self.0) }
    }
}

/// The tiles of a strip.
///
/// # Safety
///
/// As [`super::Kernels::igemm`] or [`super::Kernels::gemm`], for the strip. Its `m` is a multiple of `MR` where `FULL`, else
/// from 1 to `MR`; it has more than `16 * (NV - 1)` channels, and with `Lower` at most [`HALF`].
#[inline(always)]
unsafe fn tiles<S: Simd, P: Part<S>, const MR: usize, const NV: usize, const FULL: bool>(s: S, a: &Strip<'_>) {
    let mut first = [P::splat(s, 0.0); NV];
    if !a.bias.is_null() {
        unroll!(NV, j => {
            // SAFETY: the bias holds the call's channels, of which `n - 16 j` remain here.
            first[j] = P::of(s, unsafe { s.load_upto(a.bias.add(a.channel + LANES * j), a.n - LANES * j) });
        });
    }
    // Absent pixels repeat the last one, and are never stored.
    let last = if FULL { MR - 1 } else { a.m - 1 };
    let mut row = 0;
    while row < a.m {
        let mut acc = [first; MR];
        if a.bias_stride != 0 {
            unroll!(MR, m => {
                unroll!(NV, j => {
                    // SAFETY: the row has a bias, of which as much remains as above.
                    acc[m][j] = P::of(s, unsafe {
                        let bias = a.bias.add((row + m.min(last)) * a.bias_stride + a.channel);
                        s.load_upto(bias.add(LANES * j), a.n - LANES * j)
                    });
                });
            });
        }
        let mut w = a.weights;
        for tap in 0..a.taps {
            let mut x = [core::ptr::null::<f32>(); MR];
            match a.source {
                Source::Indirect(rows) => {
                    unroll!(MR, m => {
                        let m_inside = m.min(last);
                        let slot = (m_inside / S::MR * a.taps + tap) * S::MR + m_inside % S::MR;
                        // SAFETY: each `S::MR` pixels have `taps` groups of as many slots, filled for valid pixels, and
                        // a tile starts at such a group.
                        x[m] = unsafe { rows.add(row * a.taps + slot).read() };
                    });
                }
                Source::Strided(base, stride) => {
                    // SAFETY: the tile's rows up to the last one exist.
                    unroll!(MR, m => { x[m] = unsafe { base.add((row + m.min(last)) * stride) }; });
                }
            }
            for i in 0..a.cin {
                // SAFETY: rows are valid for `cin` floats, and the panel holds `taps * cin` groups
                // of `16 * NV` floats, one of which each step passes.
                unsafe {
                    let mut b = [P::splat(s, 0.0); NV];
                    unroll!(NV, j => { b[j] = P::load(s, w.add(LANES * j), LANES); });
                    unroll!(MR, m => {
                        let x = P::splat(s, x[m].add(i).read());
                        unroll!(NV, j => { acc[m][j] = P::fma(s, x, b[j], acc[m][j]); });
                    });
                    w = w.add(LANES * NV);
                }
            }
        }
        let mut values = [[s.splat(0.0); NV]; MR];
        unroll!(MR, m => { unroll!(NV, j => { values[m][j] = P::whole(s, acc[m][j]); }); });
        // The widths that most panels have are worth code of their own, without a test at each vector.
        // SAFETY: the caller's contract, for the tile's pixels.
        unsafe {
            match a.n {
                n if n == NV * LANES => store_tile::<S, MR, NV>(s, a, row, last, NV * LANES, values),
                HALF if NV == 1 => store_tile::<S, MR, NV>(s, a, row, last, HALF, values),
                n => store_tile::<S, MR, NV>(s, a, row, last, n, values),
            }
        }
        row += MR;
    }
}

/// Runs the steps on the pixels `row..=row + last` of a strip and writes them; `n` is the strip's.
///
/// # Safety
///
/// As [`tiles`]; the pixels belong to the strip.
#[inline(always)]
unsafe fn store_tile<S: Simd, const MR: usize, const NV: usize>(
    s: S,
    a: &Strip<'_>,
    row: usize,
    last: usize,
    n: usize,
    mut acc: [[S::V; NV]; MR],
) {
    if let Some((base, stride)) = a.finish.add {
        unroll!(MR, m => {
            unroll!(NV, j => {
                // SAFETY: the caller vouches for the operand on valid pixels and channels.
                let y = unsafe {
                    let y = base.add((a.row + row + m.min(last)) * stride + a.channel);
                    s.load_upto(y.add(LANES * j), n - LANES * j)
                };
                acc[m][j] = s.add(acc[m][j], y);
            });
        });
    }
    match a.finish.rest {
        Fast::Plain => {}
        Fast::Relu => {
            unroll!(MR, m => {
                unroll!(NV, j => { acc[m][j] = math::relu(s, acc[m][j]); });
            });
        }
        Fast::Clip(lo, hi) => {
            let (lo, hi) = (s.splat(lo), s.splat(hi));
            unroll!(MR, m => {
                unroll!(NV, j => { acc[m][j] = math::clip(s, acc[m][j], lo, hi); });
            });
        }
        Fast::PRelu(slopes) => {
            unroll!(NV, j => {
                // SAFETY: the caller vouches for the call's channels, of which `n - 16 j` remain here.
                let slope = unsafe { s.load_upto(slopes.add(a.channel + LANES * j), n - LANES * j) };
                unroll!(MR, m => { acc[m][j] = binary(s, Binary::PRelu, acc[m][j], slope); });
            });
        }
        Fast::General => {
            // A copy, so that the accumulators themselves never need an address.
            let mut values = acc;
            // SAFETY: the caller vouches for the operands on valid pixels and channels, and
            // the block holds only valid pixels.
            unsafe {
                apply(
                    s,
                    Block {
                        values: &mut values.as_flattened_mut()[..(last + 1) * NV],
                        vectors: NV,
                        row: a.row + row,
                        channel: a.channel,
                        n: a.n,
                        steps: a.steps,
                    },
                );
            }
            acc = values;
        }
    }
    unroll!(MR, m => {
        if m <= last {
            // SAFETY: the pixel is valid, and so has a row with room for the call's channels.
            let out = unsafe {
                match a.target {
                    Target::Indirect(out) => out.add(row + m).read(),
                    Target::Strided(out, stride) => out.add((row + m) * stride),
                }
            };
            unroll!(NV, j => {
                // SAFETY: of those channels `n - 16 j` remain here.
                unsafe { s.store_upto(out.add(a.channel + LANES * j), n - LANES * j, acc[m][j]) };
            });
        }
    });
}
