//! The tiles of the kernels that convolve 3 by 3 neighbours and keep the greatest of every 2 by 2 results, where multiprocessors have
//! several tiles: the class of [`conv_wgmma`] with one chain.
//!
//! Results are counted as places: through the columns that are pooled, pairs of rows, and samples. A place is a result of each row of a
//! pair.

use super::Misfit;
use super::conv_wgmma::{self, BLOCK_K};
use super::forms::need;
use super::product::{Pixels, Product};
use crate::plan::format::{Kernel, Operator, Tactic, View};

/// Places of a tile.
pub const PLACES: u32 = 64;
/// Output channels of a tile.
pub const CHANNELS: u32 = 128;
/// Rows of a pair, and columns of which one maximum is kept.
pub const SIDE: u32 = 2;
/// Warpgroups that take tiles in turn, and K blocks in shared memory at once.
const WARPGROUPS: u32 = 2;
const STAGES: u32 = 6;
/// Threads of a block: the warpgroups that multiply, and one that loads.
pub const THREADS: u32 = (WARPGROUPS + 1) * 128;
/// Bytes of shared memory of a block: stages, maxima, barriers.
pub const SHARED: u32 = STAGES * (PLACES * SIDE + CHANNELS) * BLOCK_K * 2 + WARPGROUPS * (PLACES / SIDE) * CHANNELS * 2 + BARRIER_BYTES;
const BARRIER_BYTES: u32 = 256;
/// Halves in 16 bytes, at multiples of which maxima are stored.
const ALIGNED: u64 = 8;

/// The one tactic: results and channels of a tile.
pub const TACTIC: Tactic = Tactic {
    kernel: Kernel::ConvPooled,
    tile: ((PLACES * SIDE) as u16, CHANNELS as u16),
    variant: 0,
};

/// The rows of a product's input that a map has: every second, from the first (0) or second (1) on, as the input of a product whose results
/// are places.
pub fn places<'a>(product: &Product<'a>, parity: u32) -> Product<'a> {
    let [samples, rows, columns, channels] = product.out.extents;
    let [batch, row, pixel, channel] = product.x.strides;
    let mut x = product.x;
    x.extents[1] = (x.extents[1] + 1 - parity) / SIDE;
    x.strides = [batch, row * i64::from(SIDE), pixel, channel];
    let mut window = product.window;
    window.pad_begin[0] = window.pad_begin[0].div_ceil(SIDE);
    Product {
        x,
        out: Pixels {
            extents: [samples, rows / SIDE, columns / SIDE * SIDE, channels],
            ..product.out
        },
        window,
        ..*product
    }
}

/// Checks that the kernels compute an operator that ends with maxima, of which `product` is the convolution, in a class of `split_k` chains.
pub fn fits(tactic: Tactic, operator: &Operator, product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    need(tactic == TACTIC, Misfit::Tile)?;
    conv_wgmma::chains(product, split_k)?;
    need(split_k == 1, Misfit::Class)?;
    need(product.x.extents[1] >= SIDE, Misfit::Tile)?;
    need(operator.outputs.first().is_some_and(is_stored), Misfit::Layout)
}

/// True if the copy engine stores the maxima of pixels that follow each other.
fn is_stored(output: &View) -> bool {
    let flat = Pixels::of(output)
        .filter(|p| p.channels_last() && p.wide())
        .and_then(|p| p.flat_step());
    output.origin.is_multiple_of(ALIGNED) && flat.is_some()
}

#[cfg(test)]
mod tests {
    use super::super::conv_3x3::BLOCK_BYTES;
    use super::*;

    #[test]
    fn the_numbers_are_the_sources() {
        let source = include_str!("../../backend/cuda/kernels/conv_pooled.cu");
        for line in [
            format!("BARRIER_BYTES = {BARRIER_BYTES};"),
            format!("TILE_N = {CHANNELS}, STAGES = {STAGES}, WARPGROUPS = {WARPGROUPS};"),
        ] {
            assert!(source.contains(&line), "{line}");
        }
        const { assert!(SHARED <= BLOCK_BYTES) };
    }
}
