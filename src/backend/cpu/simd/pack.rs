//! The packed layout of weights.
//!
//! Channels are cut into panels of `nr` (two vectors on AVX-512, one elsewhere). A last panel of at
//! most sixteen channels is sixteen wide, so the buffer holds `k * round_up(n, 16)` floats and the
//! panel of channel `c`, a multiple of `nr`, begins at `c * k`. Inside a panel the `k` steps (tap by
//! tap, input channel by input channel) follow each other, each with one float per channel; absent
//! channels are zero.

use super::vector::LANES;
use core::ops::Range;

/// Floats in a packed buffer of `n` channels by `k` steps.
#[must_use]
pub const fn packed_len(k: usize, n: usize) -> usize {
    k * n.next_multiple_of(LANES)
}

/// Packs channels `channels` of a matrix whose element for step `k` and channel `n` is
/// `src[k * k_stride + n * n_stride]`; `dst` is the whole packed buffer of `n` channels.
///
/// # Panics
///
/// Panics where `channels` does not start on a panel, does not end on one or at `n`, or where a
/// slice is too short.
pub(super) fn pack(
    nr: usize,
    src: &[f32],
    (k_stride, n_stride): (usize, usize),
    (k, n): (usize, usize),
    channels: Range<usize>,
    dst: &mut [f32],
) {
    assert!(channels.start.is_multiple_of(nr) && channels.end <= n);
    assert!(channels.end == n || channels.end.is_multiple_of(nr));
    assert!(dst.len() >= packed_len(k, n));
    if k == 0 {
        return;
    }
    let mut first = channels.start;
    while first < channels.end {
        let valid = (n - first).min(nr);
        let width = valid.next_multiple_of(LANES);
        let panel = &mut dst[first * k..(first + width) * k];
        if n_stride == 1 {
            for (step, out) in panel.chunks_exact_mut(width).enumerate() {
                let at = step * k_stride + first;
                out[..valid].copy_from_slice(&src[at..at + valid]);
                out[valid..].fill(0.0);
            }
        } else {
            panel.fill(0.0);
            for j in 0..valid {
                let base = (first + j) * n_stride;
                for (step, out) in panel.chunks_exact_mut(width).enumerate() {
                    out[j] = src[base + step * k_stride];
                }
            }
        }
        first += nr;
    }
}

/// Floats in packed depthwise weights of `taps` by `c` channels.
#[must_use]
pub const fn depthwise_packed_len(taps: usize, c: usize) -> usize {
    taps * c.next_multiple_of(LANES)
}

/// Packs depthwise weights from `[channel][tap]` to `[tap][channels padded to sixteen]`.
///
/// # Panics
///
/// Panics where a slice is too short.
pub fn pack_depthwise(src: &[f32], taps: usize, c: usize, dst: &mut [f32]) {
    let pitch = c.next_multiple_of(LANES);
    let dst = &mut dst[..taps * pitch];
    dst.fill(0.0);
    for channel in 0..c {
        for tap in 0..taps {
            dst[tap * pitch + channel] = src[channel * taps + tap];
        }
    }
}
