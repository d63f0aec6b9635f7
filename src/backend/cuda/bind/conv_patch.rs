//! Convolutions of 3 by 3 neighbours: the launches of `kernels/conv_patch.cu` and `kernels/conv_deep.cu`; those of wide tiles are
//! said in [`conv_wide`].
//!
//! Weights and what follows the sums are those of [`conv_wgmma`](super::conv_wgmma): all kernels share packed weights, and
//! compute the same bits.

use super::conv_wgmma::{MISFIT, is_plain, pack_weights};
use super::conv_wide::{self, Constants};
use super::epilogue::{ChannelsLast, Epilogue, flags, pack_bias};
use super::{Addresses, BindError, Kernel, Launch, Packer, TensorMap, TiledMap, blocks};
use crate::plan::format::{Operator, View};
use crate::plan::tactic::conv_3x3::{CHANNELS, COLUMNS, TAPS, product};
use crate::plan::tactic::conv_patch::{Kept, PatchTile, Store};
use crate::plan::tactic::conv_wgmma::BLOCK_K;
use crate::plan::tactic::pooled;
use crate::plan::tactic::product::{Pixels, Product};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Bytes of a row of a K block.
const K_BYTES: u32 = BLOCK_K * 2;
/// Bytes after which the swizzle's pattern begins anew.
const SWIZZLE_BYTES: u32 = 1024;
/// Bytes kept for barriers.
const BARRIER_BYTES: u32 = 512;
/// Bytes of shared memory that a block may have.
const BLOCK_BYTES: u32 = 227 << 10;
/// Bytes of the weights of one tap for [`CHANNELS`] outputs and a block of inputs.
const WEIGHT_BYTES: u32 = CHANNELS * K_BYTES;
/// Most stages of streamed weights.
const MAX_WEIGHT_STAGES: u32 = 16;

/// `ConvPatchParams` of `kernels/conv_patch.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
struct Params {
    image: TensorMap,
    weights: u64,
    channels: u32,
    channel_tiles: u32,
    pad: [u32; 2],
    columns: u32,
    first_batch: u32,
    first_row: u32,
    end_row: u32,
    across: u32,
    down: u32,
    tiles: u32,
    k_blocks: u32,
    chains: u32,
    weight_stages: u32,
    epilogue: Epilogue,
    end: [u32; 12],
}

impl PatchTile {
    /// Threads of a block: the warpgroups that multiply, and one warp that loads; two where weights stream.
    fn threads(&self) -> u32 {
        let loaders = if self.kept == Kept::Patches { 2 } else { 1 };
        u32::from(self.warpgroups) * 128 + loaders * 32
    }

    /// Rows and columns of a patch.
    fn patch(&self) -> [u32; 2] {
        [u32::from(self.rows) + TAPS - 1, COLUMNS + TAPS - 1]
    }

    /// Bytes of a patch of 64 channels.
    fn patch_bytes(&self) -> u32 {
        (self.patch().iter().product::<u32>() * K_BYTES).next_multiple_of(SWIZZLE_BYTES)
    }

    /// Stages of streamed weights beside the patches of `k_blocks` times 64 channels: as many as there is room for.
    fn weight_stages(&self, k_blocks: u32) -> u32 {
        let room = BLOCK_BYTES - BARRIER_BYTES - k_blocks * self.patch_bytes();
        (room / (WEIGHT_BYTES * u32::from(self.warpgroups))).min(MAX_WEIGHT_STAGES)
    }

    /// Bytes of shared memory of a block: weights, patches, barriers.
    fn shared(&self, k_blocks: u32) -> u32 {
        let (weights, patches) = match self.kept {
            Kept::Weights { blocks, stages, .. } => (TAPS * TAPS * u32::from(blocks), u32::from(stages)),
            Kept::Patches | Kept::Wide => (self.weight_stages(k_blocks) * u32::from(self.warpgroups), k_blocks),
        };
        weights * WEIGHT_BYTES + patches * self.patch_bytes() + BARRIER_BYTES
    }
}

/// An operator bound to an entry of the menu.
struct ConvPatch {
    /// The operator without the maxima at its end.
    operator: Operator,
    /// Where the maxima are stored.
    pooled: Option<View>,
    entry: PatchTile,
    constants: Constants,
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &mut Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *PatchTile::of(operator.tactic).ok_or(BindError::Tactic("conv_patch has no such tile"))?;
    let body = pooled::cut(operator);
    let pooled = body.as_ref().and_then(|_| operator.outputs.first()).copied();
    let operator = body.unwrap_or_else(|| operator.clone());
    let product = product(packer.plan, &operator).map_err(|_| MISFIT)?;
    let constants = Constants {
        weights: pack_weights(packer, &product)?,
        bias: pack_bias(packer, &product)?,
    };
    Ok(Box::new(ConvPatch {
        operator,
        pooled,
        entry,
        constants,
    }))
}

/// The map of the whole input, in patches of the entry.
fn map(entry: &PatchTile, product: &Product<'_>, address: u64) -> TiledMap {
    let [patch_rows, patch_columns] = entry.patch();
    let [batch, row, pixel, ..] = product.x.strides;
    conv_wide::map(address, product.x.extents, [batch, row, pixel], [1, patch_rows, patch_columns])
}

impl ConvPatch {
    fn params(&self, at: &Addresses<'_>, product: &Product<'_>, entry: &PatchTile, region: &Region) -> Result<Params, BindError> {
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
        let k_blocks = product.x.extents[3].div_ceil(BLOCK_K);
        let across = columns.div_ceil(COLUMNS / pool);
        let down = (region.rows.len() as u32).div_ceil(u32::from(entry.rows) / pool);
        Ok(Params {
            image: at.maps.tiled(&map(entry, product, at.view(product.input)?))?,
            weights: at.pack(self.constants.weights)?.address,
            channels,
            channel_tiles: channels / entry.channels(),
            pad: [product.window.pad_begin[0], product.window.pad_begin[1]],
            columns,
            first_batch: region.batch.start,
            first_row: region.rows.start,
            end_row: region.rows.end,
            across,
            down,
            // No more than the pixels, which are below 2^31.
            tiles: across * down * region.batch.len() as u32,
            k_blocks,
            chains: u32::from(self.operator.class.split_k.max(1)),
            weight_stages: match entry.kept {
                Kept::Weights { .. } => 0,
                Kept::Patches | Kept::Wide => entry.weight_stages(k_blocks),
            },
            epilogue,
            end: [0; 12],
        })
    }
}

impl Kernel for ConvPatch {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = product(at.plan, &self.operator).map_err(|_| MISFIT)?;
        // One block fills a multiprocessor: more of them would only load the weights more often.
        let room = if at.multiprocessors == 0 { u32::MAX } else { at.multiprocessors };
        let most = blocks(room, width);
        if self.entry.is_wide()
            && let Some(launch) = conv_wide::launch(at, &self.operator, &product, self.constants, &self.entry, region, most)?
        {
            return Ok(vec![launch]);
        }
        let entry = match self.entry.is_wide() {
            true => PatchTile::without_wide(&product, self.operator.class.split_k.max(1)).ok_or(MISFIT)?,
            false => &self.entry,
        };
        let params = self.params(at, &product, entry, region)?;
        let count = match entry.kept {
            // Blocks are dealt to the channels in turn.
            Kept::Weights { .. } => {
                let lanes = params.channel_tiles.min(most);
                (most / lanes).min(params.tiles) * lanes
            }
            Kept::Patches | Kept::Wide => most.min(params.tiles.saturating_mul(params.channel_tiles)),
        };
        let store = match is_plain(&params.epilogue, params.channels) {
            _ if self.pooled.is_some() => Store::Pooled,
            true => Store::Plain,
            false => Store::Any,
        };
        let unit = match entry.kept {
            Kept::Weights { .. } => "conv_patch",
            Kept::Patches | Kept::Wide => "conv_deep",
        };
        let launch = Launch::new(unit, entry.function(store), count, 0, entry.threads(), &params);
        Ok(vec![Launch {
            shared: entry.shared(params.k_blocks),
            ..launch
        }])
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

    #[test]
    fn blocks_of_every_entry_fit_an_sm() {
        for entry in crate::plan::tactic::conv_patch::MENU.iter().filter(|e| !e.is_wide()) {
            for k_blocks in 1..=8 {
                assert!(entry.shared(k_blocks) <= BLOCK_BYTES, "{entry:?}: {}", entry.shared(k_blocks));
                // A product is in flight while the next one's weights are on their way.
                assert!(entry.kept != Kept::Patches || entry.weight_stages(k_blocks) >= 3, "{entry:?}");
            }
        }
    }
}
