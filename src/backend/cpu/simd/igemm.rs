//! Matrix products whose left rows are reached through pointers: convolution without unfolding.

use super::math;
use super::step::{Block, Fast, Step, apply};
use super::vector::{LANES, Simd, Task, unroll};

/// One call of the indirect product: `m` output pixels by `n` output channels.
///
/// Output pixel `p`, channel `c` is the bias of `c`, then for each tap in order and each input
/// channel in order one fused multiply-add, then the steps.
#[derive(Clone, Copy, Debug)]
pub struct Igemm<'a> {
    /// Input row pointers in tiles of [`super::Kernels::mr`] pixels: pixel `p`, tap `t` is at
    /// [`super::Kernels::row_slot`]. Slots past the last pixel are not read.
    pub rows: *const *const f32,
    /// Pixels.
    pub m: usize,
    /// Taps.
    pub taps: usize,
    /// Contiguous floats behind each row pointer.
    pub cin: usize,
    /// Packed weights from the panel of the first channel on.
    pub weights: *const f32,
    /// `n` floats, or null for zeros.
    pub bias: *const f32,
    /// Channels, across any number of panels.
    pub n: usize,
    /// Per pixel, where its first channel goes.
    pub out: *const *mut f32,
    /// What follows, at most [`super::MAX_STEPS`]; operand rows are the pixels of this call.
    pub steps: &'a [Step],
}

/// A product of row-major `A` (`m` by `k`) with packed `B` (`k` by `n`).
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a> {
    /// Row 0 of `A`.
    pub a: *const f32,
    /// Floats from one row of `A` to the next.
    pub a_stride: usize,
    /// Rows of the output.
    pub m: usize,
    /// Contiguous floats per row of `A`.
    pub k: usize,
    /// Packed `B` from the panel of the first column on.
    pub weights: *const f32,
    /// `n` floats, or null for zeros: what each row's sums start from.
    pub bias: *const f32,
    /// Floats from one row's bias to the next, 0 where all rows have the same.
    pub bias_stride: usize,
    /// Columns, across any number of panels.
    pub n: usize,
    /// Row 0 of the output.
    pub out: *mut f32,
    /// Floats from one output row to the next.
    pub out_stride: usize,
    /// What follows, at most [`super::MAX_STEPS`]; operand rows are the rows of this call.
    pub steps: &'a [Step],
}

/// Where the rows of a tile come from.
#[derive(Clone, Copy)]
enum Source {
    /// `taps` groups of `MR` pointers.
    Indirect(*const *const f32),
    /// Row 0 and the distance of the rows.
    Strided(*const f32, usize),
}

/// Where the rows of a tile go.
#[derive(Clone, Copy)]
enum Target {
    Indirect(*const *mut f32),
    Strided(*mut f32, usize),
}

/// One register tile: `mr` pixels (`1..=MR`) by at most `NV` vectors of channels.
#[derive(Clone, Copy)]
struct Tile<'a, const MR: usize, const NV: usize> {
    source: Source,
    target: Target,
    mr: usize,
    /// The tile's first pixel in the call.
    row: usize,
    taps: usize,
    cin: usize,
    weights: *const f32,
    bias: *const f32,
    bias_stride: usize,
    /// The panel's first channel in the call.
    channel: usize,
    /// Valid channels, above `16 * (NV - 1)`.
    n: usize,
    fast: Fast,
    steps: &'a [Step],
}

impl<const MR: usize, const NV: usize> Task for Tile<'_, MR, NV> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut first = [s.splat(0.0); NV];
        if !self.bias.is_null() {
            unroll!(NV, j => {
                // SAFETY: the bias holds the call's channels, of which `n - 16 j` remain here.
                first[j] = unsafe {
                    s.load_upto(self.bias.add(self.channel + LANES * j), self.n - LANES * j)
                };
            });
        }
        let mut acc = [first; MR];
        let mut w = self.weights;
        let last = self.mr - 1;
        if self.bias_stride != 0 {
            unroll!(MR, m => {
                unroll!(NV, j => {
                    // SAFETY: row `min(m, last)` has a bias, of which as much remains as above.
                    acc[m][j] = unsafe {
                        let row = self.bias.add(m.min(last) * self.bias_stride);
                        s.load_upto(row.add(self.channel + LANES * j), self.n - LANES * j)
                    };
                });
            });
        }
        for tap in 0..self.taps {
            // Absent pixels repeat the last one, and are never stored.
            let mut a = [core::ptr::null::<f32>(); MR];
            match self.source {
                Source::Indirect(rows) => {
                    unroll!(MR, m => {
                        // SAFETY: the tile has `taps` groups of `S::MR` slots, and those of
                        // valid pixels are filled.
                        a[m] = unsafe { rows.add(tap * S::MR + m.min(last)).read() };
                    });
                }
                Source::Strided(base, stride) => {
                    unroll!(MR, m => {
                        // SAFETY: row `min(m, last)` exists.
                        a[m] = unsafe { base.add(m.min(last) * stride) };
                    });
                }
            }
            for i in 0..self.cin {
                // SAFETY: rows are valid for `cin` floats, and the panel holds `taps * cin` groups
                // of `16 * NV` floats, one of which each step passes.
                unsafe {
                    let mut b = [s.splat(0.0); NV];
                    unroll!(NV, j => { b[j] = s.load(w.add(LANES * j)); });
                    unroll!(MR, m => {
                        let x = s.splat(a[m].add(i).read());
                        unroll!(NV, j => { acc[m][j] = s.fma(x, b[j], acc[m][j]); });
                    });
                    w = w.add(LANES * NV);
                }
            }
        }
        match self.fast {
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
            Fast::General => {
                // A copy, so that the accumulators themselves never need an address.
                let mut values = acc;
                // SAFETY: the caller vouches for the operands on valid pixels and channels, and
                // the block holds only valid pixels.
                unsafe {
                    apply(
                        s,
                        Block {
                            values: &mut values.as_flattened_mut()[..self.mr * NV],
                            vectors: NV,
                            row: self.row,
                            channel: self.channel,
                            n: self.n,
                            steps: self.steps,
                        },
                    );
                }
                acc = values;
            }
        }
        unroll!(MR, m => {
            if m < self.mr {
                // SAFETY: pixel `m` is valid, and so has a row with room for the call's channels.
                let out = unsafe {
                    match self.target {
                        Target::Indirect(out) => out.add(m).read(),
                        Target::Strided(out, stride) => out.add(m * stride),
                    }
                };
                unroll!(NV, j => {
                    // SAFETY: of those channels `n - 16 j` remain here.
                    unsafe {
                        s.store_upto(
                            out.add(self.channel + LANES * j),
                            self.n - LANES * j,
                            acc[m][j],
                        );
                    }
                });
            }
        });
    }
}

/// Runs a tile with the smallest compiled height that holds its pixels.
#[inline(always)]
fn run_tile<S: Simd, const NV: usize>(s: S, tile: Tile<'_, 0, NV>) {
    macro_rules! call {
        ($mr:literal) => {
            s.call(Tile::<'_, $mr, NV> {
                source: tile.source,
                target: tile.target,
                mr: tile.mr,
                row: tile.row,
                taps: tile.taps,
                cin: tile.cin,
                weights: tile.weights,
                bias: tile.bias,
                bias_stride: tile.bias_stride,
                channel: tile.channel,
                n: tile.n,
                fast: tile.fast,
                steps: tile.steps,
            })
        };
    }
    match tile.mr {
        1 => call!(1),
        2 => call!(2),
        3 => call!(3),
        4 => call!(4),
        _ if S::MR > 4 => match tile.mr {
            5 | 6 => call!(6),
            _ if S::MR > 6 => match tile.mr {
                7 | 8 => call!(8),
                9 | 10 => call!(10),
                _ => call!(12),
            },
            _ => unreachable!("a tile has at most MR pixels"),
        },
        _ => unreachable!("a tile has at most MR pixels"),
    }
}

/// All tiles of one panel.
///
/// # Safety
///
/// As [`igemm`] or [`gemm`], for the panel.
#[inline(always)]
unsafe fn run_panel<S: Simd>(s: S, m: usize, width: usize, panel: Tile<'_, 0, 0>) {
    let mut row = 0;
    while row < m {
        let mr = (m - row).min(S::MR);
        // SAFETY: `row` is a whole number of tiles, all of whose pixels are valid; where the bias is null, its stride is 0.
        let (bias, source, target) = unsafe {
            (
                panel.bias.add(row * panel.bias_stride),
                match panel.source {
                    Source::Indirect(rows) => Source::Indirect(rows.add(row * panel.taps)),
                    Source::Strided(a, stride) => Source::Strided(a.add(row * stride), stride),
                },
                match panel.target {
                    Target::Indirect(out) => Target::Indirect(out.add(row)),
                    Target::Strided(out, stride) => Target::Strided(out.add(row * stride), stride),
                },
            )
        };
        macro_rules! tile {
            ($nv:literal) => {
                run_tile(
                    s,
                    Tile::<'_, 0, $nv> {
                        source,
                        target,
                        mr,
                        row: panel.row + row,
                        taps: panel.taps,
                        cin: panel.cin,
                        weights: panel.weights,
                        bias,
                        bias_stride: panel.bias_stride,
                        channel: panel.channel,
                        n: panel.n,
                        fast: panel.fast,
                        steps: panel.steps,
                    },
                )
            };
        }
        if S::NV == 2 && width > LANES {
            tile!(2);
        } else {
            tile!(1);
        }
        row += mr;
    }
}

/// All panels of a group of pixels. Panels are the outer loop: a panel's weights stay close while
/// the pixels pass.
///
/// # Safety
///
/// As [`igemm`] or [`gemm`], for the pixels.
#[inline(always)]
unsafe fn run_panels<S: Simd>(s: S, m: usize, n: usize, all: Tile<'_, 0, 0>) {
    let nr = S::NV * LANES;
    let mut channel = 0;
    while channel < n {
        let width = (n - channel).min(nr);
        let panel = Tile {
            // SAFETY: the panel of channel `c` begins at `c * k` of the packed weights.
            weights: unsafe { all.weights.add(channel * all.taps * all.cin) },
            channel,
            n: width,
            ..all
        };
        // SAFETY: as the caller vouches.
        unsafe { run_panel(s, m, width, panel) };
        channel += width;
    }
}

/// Runs [`Igemm`].
///
/// # Safety
///
/// As [`super::Kernels::igemm`].
#[inline(always)]
pub(super) unsafe fn igemm<S: Simd>(s: S, a: &Igemm<'_>) {
    let all = Tile {
        source: Source::Indirect(a.rows),
        target: Target::Indirect(a.out),
        mr: 0,
        row: 0,
        taps: a.taps,
        cin: a.cin,
        weights: a.weights,
        bias: a.bias,
        bias_stride: 0,
        channel: 0,
        n: 0,
        fast: Fast::of(a.steps),
        steps: a.steps,
    };
    // SAFETY: the caller's contract.
    unsafe { run_panels(s, a.m, a.n, all) }
}

/// Runs [`Gemm`].
///
/// # Safety
///
/// As [`super::Kernels::gemm`].
#[inline(always)]
pub(super) unsafe fn gemm<S: Simd>(s: S, a: &Gemm<'_>) {
    // Rows in groups whose part of `A` stays in the second-level cache while the panels pass.
    const GROUP_FLOATS: usize = 48 * 1024;
    let group = (GROUP_FLOATS / a.k.max(1) / S::MR).max(1) * S::MR;
    let mut row = 0;
    while row < a.m {
        let m = (a.m - row).min(group);
        // SAFETY: `row` is below `m`, the number of rows; where the bias is null, its stride is 0.
        let (bias, source, target) = unsafe {
            (
                a.bias.add(row * a.bias_stride),
                Source::Strided(a.a.add(row * a.a_stride), a.a_stride),
                Target::Strided(a.out.add(row * a.out_stride), a.out_stride),
            )
        };
        let all = Tile {
            source,
            target,
            mr: 0,
            row,
            taps: 1,
            cin: a.k,
            weights: a.weights,
            bias,
            bias_stride: a.bias_stride,
            channel: 0,
            n: 0,
            fast: Fast::of(a.steps),
            steps: a.steps,
        };
        // SAFETY: the caller's contract, for these rows.
        unsafe { run_panels(s, m, a.n, all) };
        row += m;
    }
}
