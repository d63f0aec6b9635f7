//! Weights for chains of pieces by `wgmma`: of the 32 channels of a piece, a product has the lower or the upper half of each 8, as those of
//! [`conv_warps`](super::conv_warps) have. Within a product any order of channels gives the same bits, so it is the one that pixels come in.

use super::epilogue::Constants;
use super::swizzle::{Halves, swizzled_blocks};
use super::{BindError, PackId, Packer};
use crate::plan::tactic::conv_warps::PIECE_CHANNELS;
use crate::plan::tactic::conv_wgmma::BLOCK_K;
use crate::plan::tactic::product::Product;

/// Channels of a piece, of a product and of a group.
const PIECE: usize = PIECE_CHANNELS as usize;
const PRODUCT: usize = 16;
const GROUP: usize = 8;

/// Where a product has its pixels from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelsFrom {
    /// From registers: a lane has channels of one group of 8, at places 2 q, 2 q + 1, 2 q + 8 and 2 q + 9 of a product.
    Registers,
    /// From shared memory: the halves of the groups follow each other.
    Memory,
}

impl PixelsFrom {
    /// The input channel at place `k` of a row of weights.
    fn channel_at(self, k: usize) -> usize {
        let (half, place) = (k % PIECE / PRODUCT, k % PRODUCT);
        let (group, within) = match self {
            PixelsFrom::Registers => (place % 8 / 2, place / 8 * 2 + place % 2),
            PixelsFrom::Memory => (place / 4, place % 4),
        };
        k / PIECE * PIECE + group * GROUP + half * 4 + within
    }
}

/// Packs weights as [`conv_wgmma::pack_weights`](super::conv_wgmma::pack_weights) does, the channels of each tap in the order of the pixels.
pub fn pack_weights(packer: &Packer<'_>, product: &Product<'_>, pixels: PixelsFrom) -> Result<PackId, BindError> {
    let view = product.weights;
    let section = packer.section(view).ok_or(BindError::Reference)?;
    let weights = Constants::new(packer.contents(section)?, view)?;
    let [outputs, inputs] = [product.out.extents[3], product.x.extents[3]].map(|n| n as usize);
    let [rows, columns] = [0, 1].map(|axis| product.window.kernel[axis] as usize);
    let step = |axis| view.layout.stride(axis);
    let name = format!("pieces {pixels:?} {} {:?}", view.origin, view.layout);
    packer.pack(section, name, |_| {
        let (taps, depth) = (rows * columns, inputs.next_multiple_of(BLOCK_K as usize));
        let mut bytes = Vec::with_capacity(outputs * taps * depth * 2);
        for line in 0..outputs * taps {
            let (output, tap) = (line / taps, line % taps);
            let first = output as i64 * step(0) + (tap / columns) as i64 * step(2) + (tap % columns) as i64 * step(3);
            let channels = (0..depth).map(|k| pixels.channel_at(k));
            bytes.extend(channels.flat_map(|channel| match channel < inputs {
                true => weights.half(first + channel as i64 * step(1)).to_le_bytes(),
                false => [0; 2],
            }));
        }
        let source = Halves {
            bytes: &bytes,
            strides: [taps * depth, columns * depth, depth, 1],
        };
        swizzled_blocks([outputs, rows, columns, depth], &source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn products_of_a_piece_have_the_channels_of_the_other_kernels() {
        for pixels in [PixelsFrom::Registers, PixelsFrom::Memory] {
            for piece in 0..4 {
                for half in 0..2 {
                    let first = piece * 32 + half * 16;
                    let own: BTreeSet<usize> = (first..first + 16).map(|k| pixels.channel_at(k)).collect();
                    let theirs = (0..4).flat_map(|q| (0..4).map(move |i| piece * 32 + q * 8 + half * 4 + i));
                    assert_eq!(own, theirs.collect(), "of each 8 channels 4 that follow each other");
                }
            }
        }
    }

    #[test]
    fn channels_have_the_order_in_which_pixels_come() {
        // A lane of a product holds one group's channels in order.
        let lane = |places: [usize; 4]| places.map(|k| PixelsFrom::Registers.channel_at(k));
        assert_eq!(lane([2, 3, 10, 11]), [8, 9, 10, 11]);
        assert_eq!(lane([16, 17, 24, 25]), [4, 5, 6, 7]);
        // As `conv_slender.cu` lays out a pixel's words: the lower halves of two groups in 16 bytes, then those of the next two.
        let words: Vec<usize> = (0..32).step_by(4).map(|k| PixelsFrom::Memory.channel_at(k)).collect();
        assert_eq!(words, [0, 8, 16, 24, 4, 12, 20, 28]);
    }
}
