//! Matrix products whose left rows are reached through pointers: convolution without unfolding.

use super::step::Step;
use super::tile::{Finish, HALF, Narrow, Source, Strip, Target, Wide};
use super::vector::{LANES, Simd};

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

/// Runs the rows of a strip: whole tiles, then one of the smallest compiled height that holds the rest.
///
/// # Safety
///
/// As [`igemm`] or [`gemm`], for the strip.
#[inline(always)]
unsafe fn run_rows<S: Simd>(s: S, strip: &Strip<'_>) {
    // Narrow panels fill half as many registers a pixel, so their tiles are twice as high.
    let narrow = S::H_LANES == HALF && strip.n <= HALF;
    let height = if narrow { 2 * S::MR } else { S::MR };
    let whole = strip.m / height * height;
    // SAFETY: a whole number of tiles lies before the rest.
    let (tiles, rest) = unsafe { (Strip { m: whole, ..*strip }, strip.after_row(whole)) };
    macro_rules! wide {
        ($height:literal, $full:literal, $strip:expr) => {
            if const { S::NV == 2 } && strip.n > LANES {
                s.call(Wide::<'_, $height, 2, $full>($strip))
            } else {
                s.call(Wide::<'_, $height, 1, $full>($strip))
            }
        };
    }
    // Constants of their own keep tiles that an instruction set never takes from being compiled for it.
    if const { S::H_LANES == HALF } && narrow {
        if tiles.m > 0 {
            s.call(Narrow::<'_, 12, true>(&tiles));
        }
        match rest.m {
            0 => {}
            1..=4 => s.call(Narrow::<'_, 4, false>(&rest)),
            5..=8 => s.call(Narrow::<'_, 8, false>(&rest)),
            _ => s.call(Narrow::<'_, 12, false>(&rest)),
        }
        return;
    }
    if tiles.m > 0 {
        if const { S::MR == 4 } {
            wide!(4, true, &tiles);
        } else if const { S::MR == 6 } {
            wide!(6, true, &tiles);
        } else {
            wide!(12, true, &tiles);
        }
    }
    match rest.m {
        0 => {}
        1 => wide!(1, false, &rest),
        2 => wide!(2, false, &rest),
        3 => wide!(3, false, &rest),
        4 => wide!(4, false, &rest),
        _ if const { S::MR > 4 } => match rest.m {
            5 | 6 => wide!(6, false, &rest),
            _ if const { S::MR > 6 } => match rest.m {
                7 | 8 => wide!(8, false, &rest),
                9 | 10 => wide!(10, false, &rest),
                _ => wide!(12, false, &rest),
            },
            _ => unreachable!("a tile has at most MR pixels"),
        },
        _ => unreachable!("a tile has at most MR pixels"),
    }
}

/// All panels of a group of pixels. Panels are the outer loop: a panel's weights stay close while
/// the pixels pass.
///
/// # Safety
///
/// As [`igemm`] or [`gemm`], for the pixels.
#[inline(always)]
unsafe fn run_panels<S: Simd>(s: S, n: usize, all: &Strip<'_>) {
    let nr = S::NV * LANES;
    let mut channel = 0;
    while channel < n {
        let width = (n - channel).min(nr);
        let strip = Strip {
            // SAFETY: the panel of channel `c` begins at `c * k` of the packed weights.
            weights: unsafe { all.weights.add(channel * all.taps * all.cin) },
            channel,
            n: width,
            ..*all
        };
        // SAFETY: as the caller vouches.
        unsafe { run_rows(s, &strip) };
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
    let all = Strip {
        source: Source::Indirect(a.rows),
        target: Target::Indirect(a.out),
        m: a.m,
        row: 0,
        taps: a.taps,
        cin: a.cin,
        weights: a.weights,
        bias: a.bias,
        bias_stride: 0,
        channel: 0,
        n: 0,
        finish: Finish::of(a.steps),
        steps: a.steps,
    };
    // SAFETY: the caller's contract.
    unsafe { run_panels(s, a.n, &all) }
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
        let all = Strip {
            source,
            target,
            m,
            row,
            taps: 1,
            cin: a.k,
            weights: a.weights,
            bias,
            bias_stride: a.bias_stride,
            channel: 0,
            n: 0,
            finish: Finish::of(a.steps),
            steps: a.steps,
        };
        // SAFETY: the caller's contract, for these rows.
        unsafe { run_panels(s, a.n, &all) };
        row += m;
    }
}
