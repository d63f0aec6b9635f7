//! Convolutions of 3 by 3 neighbours whose taps share patches of pixels: what the launches of [`conv_patch`](super::conv_patch),
//! [`conv_wide`](super::conv_wide), [`conv_chains`](super::conv_chains) and [`conv_slender`](super::conv_slender) have in common.
//!
//! Weights and what follows the sums are those of [`conv_wgmma`](super::conv_wgmma): all kernels share packed weights, and
//! compute the same bits.

use super::conv_wgmma::{MISFIT, is_plain, pack_weights};
use super::epilogue::{ChannelsLast, Epilogue, GROUP, flags, pack_bias};
use super::{Addresses, BindError, PackId, Packer, Swizzle, TensorMap, TiledMap};
use crate::plan::format::{Operator, View};
use crate::plan::tactic::conv_3x3::{COLUMNS, k_blocks, patch, product};
use crate::plan::tactic::conv_patch::Store;
use crate::plan::tactic::conv_wgmma::BLOCK_K;
use crate::plan::tactic::pooled;
use crate::plan::tactic::product::{Pixels, Product};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// The constants of a convolution.
#[derive(Clone, Copy)]
pub struct Constants {
    /// Of every tap and block of input channels, those of all outputs.
    pub weights: PackId,
    /// One number an output channel.
    pub bias: Option<PackId>,
}

/// Bytes from a pixel, a row and a sample to the next, as a map has them: an axis of one position is never stepped along, but the map
/// wants a step.
pub fn steps(pixels: &Pixels) -> [u64; 3] {
    let channels = pixels.extents[3];
    [2, 1, 0].map(|axis| match pixels.strides[axis] {
        0 => u64::from(channels.next_multiple_of(GROUP as u32)) * 2,
        step => step as u64 * 2,
    })
}

/// A map of a tensor of samples, rows, columns and channels, in boxes of 64 channels.
pub fn map(address: u64, extents: [u32; 4], strides: [i64; 3], tile: [u32; 3]) -> TiledMap {
    let [samples, rows, columns, channels] = extents;
    let [box_samples, box_rows, box_columns] = tile;
    let [batch, row, pixel] = strides;
    let pixels = Pixels {
        extents,
        strides: [batch, row, pixel, 1],
    };
    TiledMap {
        address,
        extents: [channels, columns, rows, samples].map(u64::from).to_vec(),
        strides: steps(&pixels).to_vec(),
        tile: vec![BLOCK_K, box_columns, box_rows, box_samples],
        steps: vec![1; 4],
        swizzle: Swizzle::B128,
    }
}

/// `ConvPatchParams` of `kernels/conv_patch.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Params {
    image: TensorMap,
    weights: u64,
    channels: u32,
    /// Of the channels of a tile.
    pub channel_tiles: u32,
    pad: [u32; 2],
    columns: u32,
    first_batch: u32,
    first_row: u32,
    end_row: u32,
    across: u32,
    down: u32,
    /// Tiles of pixels.
    pub tiles: u32,
    k_blocks: u32,
    chains: u32,
    weight_stages: u32,
    epilogue: Epilogue,
    end: [u32; 12],
}

/// Tiles of a launch.
pub struct Grid {
    /// Of the channels.
    pub channel_tiles: u32,
    /// Of a row.
    pub across: u32,
    /// Of the chunk's rows in a sample.
    pub down: u32,
}

impl Params {
    /// Of a product whose weights stay in shared memory, over a chunk that is not empty.
    pub fn new(image: TensorMap, weights: u64, product: &Product<'_>, region: &Region, grid: Grid, epilogue: Epilogue) -> Params {
        let Grid {
            channel_tiles,
            across,
            down,
        } = grid;
        let [_, _, columns, channels] = product.out.extents;
        Params {
            image,
            weights,
            channels,
            channel_tiles,
            pad: [product.window.pad_begin[0], product.window.pad_begin[1]],
            columns,
            first_batch: region.batch.start,
            first_row: region.rows.start,
            end_row: region.rows.end,
            across,
            down,
            // No more than the pixels, which are below 2^31.
            tiles: across * down * region.batch.len() as u32,
            k_blocks: k_blocks(product),
            chains: 1,
            weight_stages: 0,
            epilogue,
            end: [0; 12],
        }
    }

    /// How the kernel stores, of a convolution with maxima at its end or without.
    pub fn store(&self, pooled: bool) -> Store {
        match is_plain(&self.epilogue, self.channels) {
            _ if pooled => Store::Pooled,
            true => Store::Plain,
            false => Store::Any,
        }
    }
}

/// A tile of a kernel: rows of [`COLUMNS`] outputs, channels, and stages of streamed weights.
pub struct Tile {
    /// Output rows.
    pub rows: u32,
    /// Output channels.
    pub channels: u32,
    /// 0 where weights stay.
    pub weight_stages: u32,
}

/// A convolution, and perhaps maxima behind it.
pub struct Convolution {
    /// The operator without the maxima.
    pub operator: Operator,
    /// Where the maxima are stored.
    pub pooled: Option<View>,
    /// Its constants.
    pub constants: Constants,
}

impl Convolution {
    /// Packs the constants of an operator that such kernels take.
    pub fn pack(packer: &Packer<'_>, operator: &Operator) -> Result<Convolution, BindError> {
        let body = pooled::cut(operator);
        let pooled = body.as_ref().and_then(|_| operator.outputs.first()).copied();
        let operator = body.unwrap_or_else(|| operator.clone());
        let product = product(packer.plan, &operator).map_err(|_| MISFIT)?;
        let constants = Constants {
            weights: pack_weights(packer, &product)?,
            bias: pack_bias(packer, &product)?,
        };
        Ok(Convolution {
            operator,
            pooled,
            constants,
        })
    }

    /// What a launch over a chunk is given.
    pub fn params(&self, at: &Addresses<'_>, product: &Product<'_>, tile: &Tile, region: &Region) -> Result<Params, BindError> {
        let channels = product.out.extents[3];
        let mut epilogue = Epilogue::new(at, &self.operator, product, self.constants.bias, region)?;
        let mut stored = product.out;
        let mut pool = 1;
        if let Some(view) = &self.pooled {
            (stored, pool) = (Pixels::of(view).ok_or(MISFIT)?, 2);
            let address = at.view(view)?;
            epilogue.output = ChannelsLast::new(address, &stored, None);
            let wide = address.is_multiple_of(16) && stored.wide();
            epilogue.flags = (epilogue.flags & !flags::WIDE_STORE) | if wide { flags::WIDE_STORE } else { 0 };
        }
        let [samples, rows, columns, _] = stored.extents;
        if region.batch.end > samples || region.rows.end > rows || region.is_empty() {
            return Err(BindError::Reference);
        }
        let across = columns.div_ceil(COLUMNS / pool);
        let down = (region.rows.len() as u32).div_ceil(tile.rows / pool);
        let [patch_rows, patch_columns] = patch(tile.rows);
        let [batch, row, pixel, ..] = product.x.strides;
        let image = map(
            at.view(product.input)?,
            product.x.extents,
            [batch, row, pixel],
            [1, patch_rows, patch_columns],
        );
        let grid = Grid {
            channel_tiles: channels.div_ceil(tile.channels),
            across,
            down,
        };
        let weights = at.pack(self.constants.weights)?.address;
        Ok(Params {
            columns,
            chains: u32::from(self.operator.class.split_k.max(1)),
            weight_stages: tile.weight_stages,
            ..Params::new(at.maps.tiled(&image)?, weights, product, region, grid, epilogue)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn params_have_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 192 + size_of::<Epilogue>() + 48);
        assert_eq!((offset_of!(Params, weights), offset_of!(Params, pad)), (128, 144));
        assert_eq!((offset_of!(Params, tiles), offset_of!(Params, epilogue)), (176, 192));
    }
}
