//! The convolutions of 3 by 3 neighbours that kernels compute from patches of pixels which all taps share: which they are, and what
//! tiles of them are measured in. [`conv_patch`](super::conv_patch) has the menu, [`conv_wide`](super::conv_wide) the wide tiles.

use super::Misfit;
use super::conv_wgmma::{self, BLOCK_K};
use super::forms::need;
use super::product::Product;
use crate::plan::format::{Operator, Plan};
use crate::primitive::Window;

/// Output channels of a warpgroup: the rows of its products.
pub const CHANNELS: u32 = 64;
/// Output columns of a tile, and pixels of a group of a wide one.
pub const COLUMNS: u32 = 8;
/// Taps along either axis.
pub const TAPS: u32 = 3;
/// Most blocks of [`BLOCK_K`] input channels whose patches a block of threads keeps.
pub const MAX_BLOCKS: u32 = 8;

/// Bytes of the channels of a pixel, or of an output channel's weights, that are multiplied at a time.
pub const PIXEL_BYTES: u32 = BLOCK_K * 2;
/// Bytes of a stage of weights: one tap of [`CHANNELS`] outputs for [`BLOCK_K`] inputs.
pub const WEIGHT_BYTES: u32 = CHANNELS * PIXEL_BYTES;
/// Bytes after which the swizzle's pattern begins anew.
pub const SWIZZLE_BYTES: u32 = 1024;
/// Bytes of shared memory that a block may have.
pub const BLOCK_BYTES: u32 = 227 << 10;

/// Rows and columns of the patch under so many rows of [`COLUMNS`] outputs.
pub const fn patch(rows: u32) -> [u32; 2] {
    [rows + TAPS - 1, COLUMNS + TAPS - 1]
}

/// Bytes of [`BLOCK_K`] channels of that patch, up to where the next one may begin.
pub const fn patch_bytes(rows: u32) -> u32 {
    let [rows, columns] = patch(rows);
    (rows * columns * PIXEL_BYTES).next_multiple_of(SWIZZLE_BYTES)
}

/// Blocks of [`BLOCK_K`] input channels of a product.
pub fn k_blocks(product: &Product<'_>) -> u32 {
    product.x.extents[3].div_ceil(BLOCK_K)
}

/// True for windows and channels that the kernels take.
pub fn serves(window: &Window, inputs: u32, outputs: u32) -> bool {
    let neighbours = (0..2).all(|a| window.kernel[a] == TAPS && window.stride[a] == 1 && window.dilation[a] == 1);
    let few = (1..=MAX_BLOCKS * BLOCK_K).contains(&inputs);
    window.axes == 2 && neighbours && few && outputs > 0 && outputs.is_multiple_of(CHANNELS)
}

/// The product that an operator begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = conv_wgmma::product(plan, operator)?;
    let served = !product.matrix && serves(&product.window, product.x.extents[3], product.out.extents[3]);
    need(served, Misfit::Primitive)?;
    Ok(product)
}
