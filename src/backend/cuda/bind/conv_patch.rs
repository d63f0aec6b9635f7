//! Convolutions of 3 by 3 neighbours: the launches of `kernels/conv_patch.cu` and `kernels/conv_deep.cu`; those of wide tiles are
//! said in [`conv_wide`].

use super::conv_wgmma::MISFIT;
use super::conv_wide;
use super::patches::{Convolution, Tile};
use super::{Addresses, BindError, Kernel, Launch, Packer, blocks};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_3x3::{BLOCK_BYTES, TAPS, WEIGHT_BYTES, k_blocks, patch_bytes, product};
use crate::plan::tactic::conv_patch::{Kept, PatchTile};
use crate::primitive::Region;

/// Bytes kept for barriers.
const BARRIER_BYTES: u32 = 512;
/// Most stages of streamed weights.
const MAX_WEIGHT_STAGES: u32 = 16;

impl PatchTile {
    /// Threads of a block: the warpgroups that multiply, and one warp that loads; two where weights stream.
    fn threads(&self) -> u32 {
        let loaders = if self.kept == Kept::Patches { 2 } else { 1 };
        u32::from(self.warpgroups) * 128 + loaders * 32
    }

    /// The tile, over inputs of so many blocks of channels.
    fn patches(&self, k_blocks: u32) -> Tile {
        Tile {
            rows: self.rows.into(),
            channels: self.channels(),
            weight_stages: match self.kept {
                Kept::Weights { .. } => 0,
                Kept::Patches | Kept::Wide => self.weight_stages(k_blocks),
            },
        }
    }

    /// Bytes of a patch of 64 channels.
    fn patch_bytes(&self) -> u32 {
        patch_bytes(self.rows.into())
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
    convolution: Convolution,
    entry: PatchTile,
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *PatchTile::of(operator.tactic).ok_or(BindError::Tactic("conv_patch has no such tile"))?;
    let convolution = Convolution::pack(packer, operator)?;
    Ok(Box::new(ConvPatch { convolution, entry }))
}

impl Kernel for ConvPatch {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let Convolution {
            operator,
            pooled,
            constants,
        } = &self.convolution;
        let product = product(at.plan, operator).map_err(|_| MISFIT)?;
        // One block fills a multiprocessor: more of them would only load the weights more often.
        let most = blocks(at.rooms(), width);
        if self.entry.is_wide()
            && let Some(launch) = conv_wide::launch(at, operator, &product, *constants, &self.entry, region, most)?
        {
            return Ok(vec![launch]);
        }
        let entry = match self.entry.is_wide() {
            true => PatchTile::without_wide(&product, operator.class.split_k.max(1)).ok_or(MISFIT)?,
            false => &self.entry,
        };
        let k_blocks = k_blocks(&product);
        let params = self.convolution.params(at, &product, &entry.patches(k_blocks), region)?;
        let count = match entry.kept {
            // Blocks are dealt to the channels in turn.
            Kept::Weights { .. } => {
                let lanes = params.channel_tiles.min(most);
                (most / lanes).min(params.tiles) * lanes
            }
            Kept::Patches | Kept::Wide => most.min(params.tiles.saturating_mul(params.channel_tiles)),
        };
        let store = params.store(pooled.is_some());
        let unit = match entry.kept {
            Kept::Weights { .. } => "conv_patch",
            Kept::Patches | Kept::Wide => "conv_deep",
        };
        let launch = Launch::new(unit, entry.function(store), count, 0, entry.threads(), &params);
        Ok(vec![Launch {
            shared: entry.shared(k_blocks),
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
