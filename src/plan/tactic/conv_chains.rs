//! The tiles of the kernels that sum the chains of a product side by side over patches of pixels which all taps share: the class of
//! [`conv_wgmma`], for windows of 3 by 3 neighbours over small pictures and many channels.

use super::Misfit;
use super::conv_3x3::{BLOCK_BYTES, CHANNELS, COLUMNS, MAX_BLOCKS, WEIGHT_BYTES, k_blocks, patch_bytes};
use super::conv_wgmma;
use super::forms::{cheapest_first, need};
use super::product::Product;
use crate::plan::format::{Kernel, Tactic};

/// Output rows of a tile.
pub const ROWS: u32 = 8;
/// Threads of a block: two warpgroups that multiply, and a warp for each that loads.
pub const THREADS: u32 = 2 * (128 + 32);
/// Pixels and channels of a tile.
const TILE: (u16, u16) = ((ROWS * COLUMNS) as u16, CHANNELS as u16);

/// Fewest bytes of shared memory of a block with which no second one fits the SM.
const ALONE_BYTES: u32 = 114 << 10;
/// Bytes kept for barriers.
const BARRIER_BYTES: u32 = 512;
/// Fewest stages of weights: with fewer, products wait for them.
const MIN_STAGES: u32 = 5;
/// Bytes of the sums of a tile.
const SUMS_BYTES: u32 = ROWS * COLUMNS * CHANNELS * 4;

/// How much of an SM a block takes, which it has to itself as far as blocks of its own launch go: one kernel of `conv_chains.cu` for each
/// number of chains and way to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainsTile {
    /// Most stages of weights.
    stages: u32,
    /// Most bytes of shared memory.
    bytes: u32,
}

/// The menu: with as many stages as there are barriers for, and with few, so that other launches' blocks have room beside it. A tactic's
/// `variant` is the place in it: only ever append.
pub const MENU: &[ChainsTile] = &[
    ChainsTile {
        stages: 24,
        bytes: BLOCK_BYTES,
    },
    ChainsTile {
        stages: 8,
        bytes: 120 << 10,
    },
];

impl ChainsTile {
    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static ChainsTile> {
        (tactic.kernel == Kernel::ConvChains && tactic.tile == TILE).then(|| MENU.get(usize::from(tactic.variant)))?
    }

    /// Stages of weights beside the patches of `k_blocks` times [`BLOCK_K`](conv_wgmma::BLOCK_K) channels: as many as there is room for.
    pub fn stages(&self, k_blocks: u32) -> u32 {
        let room = self.bytes.saturating_sub(BARRIER_BYTES + k_blocks * patch_bytes(ROWS));
        (room / WEIGHT_BYTES).min(self.stages)
    }

    /// Bytes of shared memory of a block: patches, weights, barriers.
    pub fn shared(&self, k_blocks: u32) -> u32 {
        (k_blocks * patch_bytes(ROWS) + self.stages(k_blocks) * WEIGHT_BYTES + BARRIER_BYTES).max(ALONE_BYTES)
    }

    /// The tactic of this entry.
    fn tactic(variant: u16) -> Tactic {
        Tactic {
            kernel: Kernel::ConvChains,
            tile: TILE,
            variant,
        }
    }
}

/// Checks that an entry of the menu computes a product of 3 by 3 neighbours whose class has `split_k` chains.
pub fn fits(entry: &ChainsTile, product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    conv_wgmma::chains(product, split_k)?;
    need(matches!(split_k, 2 | 4), Misfit::Class)?;
    let blocks = k_blocks(product);
    // Half of the tile's sums pass through the patches' memory, one way of half of the chains, the other way of one.
    let given = SUMS_BYTES / 2 * (u32::from(split_k) / 2 + 1);
    need(blocks <= MAX_BLOCKS && blocks * patch_bytes(ROWS) >= given, Misfit::Tile)?;
    need(entry.stages(blocks) >= MIN_STAGES, Misfit::Tile)
}

/// Tiles of a product.
fn tiles(product: &Product<'_>) -> u64 {
    let [samples, rows, columns, channels] = product.out.extents.map(u64::from);
    samples * rows.div_ceil(u64::from(ROWS)) * columns.div_ceil(u64::from(COLUMNS)) * channels.div_ceil(u64::from(CHANNELS))
}

/// The menu's tactics for a product on a GPU of so many `units`, best first, and whether they are better than those of other
/// kernels: where there is a tile for nearly every unit, and no second round of them. Few stages are better where there are all of them.
pub fn menu(product: &Product<'_>, split_k: u16, units: u32) -> (Vec<Tactic>, bool) {
    let k_blocks = k_blocks(product);
    let fitting = (0..).zip(MENU).filter(|(_, entry)| fits(entry, product, split_k).is_ok());
    let costs = fitting.map(|(variant, entry)| {
        let whole = entry.stages(k_blocks) == entry.stages;
        ((!whole, entry.stages(k_blocks)), ChainsTile::tactic(variant))
    });
    let (tiles, units) = (tiles(product), u64::from(units.max(1)));
    (cheapest_first(costs), (units * 3 / 4..=units).contains(&tiles))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tactics_name_entries() {
        for (variant, entry) in (0..).zip(MENU) {
            assert_eq!(ChainsTile::of(ChainsTile::tactic(variant)), Some(entry));
            let wrong = Tactic {
                kernel: Kernel::ConvPatch,
                ..ChainsTile::tactic(variant)
            };
            assert_eq!(ChainsTile::of(wrong), None);
        }
        assert_eq!(ChainsTile::of(ChainsTile::tactic(MENU.len() as u16)), None);
    }

    #[test]
    fn one_block_fits_an_sm_and_no_second() {
        const SM: u32 = 228 << 10;
        const RESERVED: u32 = 1 << 10;
        for entry in MENU {
            for k_blocks in (1..=MAX_BLOCKS).filter(|&k| entry.stages(k) >= MIN_STAGES) {
                let block = entry.shared(k_blocks) + RESERVED;
                assert!(block <= SM && 2 * block > SM, "{entry:?} {k_blocks}: {block}");
                // Two barriers a stage, one a patch, one for all patches.
                assert!(entry.stages(k_blocks) * 16 + (MAX_BLOCKS + 2) * 8 <= BARRIER_BYTES);
            }
        }
        // Beside one of few stages there is room for as much again, nearly.
        assert!(SM - MENU[1].shared(4) >= 108 << 10);
    }

    #[test]
    fn every_number_of_chains_is_a_line_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_chains.cu");
        for chains in [2, 4] {
            assert_eq!(source.matches(&format!("\nCONV_CHAINS({chains})\n")).count(), 1);
        }
    }
}
