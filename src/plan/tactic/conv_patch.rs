//! The tiles of the kernels that convolve patches of pixels which all taps share: the class of [`conv_wgmma`], for windows of
//! 3 by 3 neighbours.

use super::Misfit;
use super::conv_3x3::{CHANNELS, COLUMNS, MAX_BLOCKS, k_blocks};
use super::conv_wgmma;
use super::conv_wide;
use super::forms::{cheapest_first, need};
use super::product::Product;
use crate::plan::format::{Kernel, Tactic};

/// What a block keeps in shared memory for a whole tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The weights of 64 output channels, for all its tiles (`conv_patch.cu`). Its warpgroups take the tiles in turn.
    Weights {
        /// Blocks of [`BLOCK_K`](conv_wgmma::BLOCK_K) that hold the input's channels.
        blocks: u16,
        /// Patches in shared memory at once.
        stages: u16,
        /// Chains of products.
        chains: u16,
    },
    /// The patches of all input channels; weights stream past them (`conv_deep.cu`). Each warpgroup has channels of its own.
    Patches,
    /// As there, but warpgroups take 64 channels of a wide tile in turn, and the next tile's patches are on their way (`conv_wide.cu`).
    Wide,
}

/// How a tile is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A tail that has a path of its own.
    Plain,
    /// Any other tail.
    Any,
    /// Bounds, and then the greatest of every 2 by 2.
    Pooled,
}

impl Store {
    /// How the kernels' names end.
    pub fn name(self) -> &'static str {
        match self {
            Store::Plain => "plain",
            Store::Any => "any",
            Store::Pooled => "pooled",
        }
    }
}

/// Kernels for one tile: one for each way to store; a wide one has but the plain way, and lies as [`conv_wide`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchTile {
    /// Output rows of a tile, an even number; of a wide one, groups of 8 pixels.
    pub rows: u16,
    /// Warpgroups of a block.
    pub warpgroups: u16,
    /// What a block keeps.
    pub kept: Kept,
}

const fn weights(rows: u16, blocks: u16, stages: u16, warpgroups: u16, chains: u16) -> PatchTile {
    PatchTile {
        rows,
        warpgroups,
        kept: Kept::Weights { blocks, stages, chains },
    }
}

const fn patches(rows: u16, warpgroups: u16) -> PatchTile {
    PatchTile {
        rows,
        warpgroups,
        kept: Kept::Patches,
    }
}

const fn wide(rows: u16) -> PatchTile {
    PatchTile {
        rows,
        warpgroups: 2,
        kept: Kept::Wide,
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[PatchTile] = &[
    weights(14, 1, 7, 3, 1),
    weights(8, 1, 10, 3, 1),
    weights(14, 2, 4, 2, 1),
    weights(8, 2, 6, 3, 1),
    weights(14, 2, 4, 2, 2),
    weights(8, 2, 6, 3, 2),
    patches(14, 1),
    patches(14, 2),
    patches(8, 1),
    patches(8, 2),
    wide(28),
];

impl PatchTile {
    /// The kernel's name in its unit.
    pub fn function(&self, store: Store) -> String {
        let PatchTile { rows, warpgroups, kept } = self;
        let store = store.name();
        match kept {
            Kept::Weights { blocks, stages, chains } => {
                format!("conv_patch_r{rows}_k{blocks}_s{stages}_g{warpgroups}_c{chains}_{store}")
            }
            Kept::Patches => format!("conv_deep_r{rows}_g{warpgroups}_{store}"),
            Kept::Wide => format!("conv_wide_{}", self.pixels()),
        }
    }

    /// Output channels of a tile.
    pub fn channels(&self) -> u32 {
        match self.kept {
            Kept::Weights { .. } | Kept::Wide => CHANNELS,
            Kept::Patches => CHANNELS * u32::from(self.warpgroups),
        }
    }

    /// Pixels of a tile.
    pub fn pixels(&self) -> u32 {
        u32::from(self.rows) * COLUMNS
    }

    /// True for a wide tile.
    pub fn is_wide(&self) -> bool {
        matches!(self.kept, Kept::Wide)
    }

    /// The entry for a launch whose tail is not one that a wide tile stores: the same bits.
    pub fn without_wide(product: &Product<'_>, split_k: u16) -> Option<&'static PatchTile> {
        MENU.iter().find(|e| !e.is_wide() && fits(e, product, split_k).is_ok())
    }

    /// Pixels and channels of a tile.
    fn tile(&self) -> (u16, u16) {
        (self.rows * COLUMNS as u16, self.channels() as u16)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static PatchTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvPatch && tactic.tile == entry.tile()).then_some(entry)
    }

    /// Tiles of a product.
    fn tiles(&self, product: &Product<'_>) -> u64 {
        if self.is_wide() {
            let [samples, rows, _, channels] = product.out.extents;
            let pixels = conv_wide::Layout::of(conv_wide::Image::of(product), self.pixels(), samples, rows).map_or(0, |l| l.count());
            return pixels * u64::from(channels / CHANNELS);
        }
        let [samples, rows, columns, channels] = product.out.extents.map(u64::from);
        let pixels = samples * rows.div_ceil(u64::from(self.rows)) * columns.div_ceil(u64::from(COLUMNS));
        pixels * channels.div_ceil(u64::from(self.channels()))
    }
}

/// Checks that an entry of the menu computes a product whose class has `split_k` chains.
pub fn fits(entry: &PatchTile, product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    conv_wgmma::chains(product, split_k)?;
    let held = k_blocks(product);
    match entry.kept {
        Kept::Weights { blocks, chains, .. } => {
            need(split_k == chains, Misfit::Class)?;
            need(held == u32::from(blocks), Misfit::Tile)
        }
        Kept::Patches => {
            // One patch leaves room for the weights; and every warpgroup turns its tile round in a patch.
            let several = held >= 2.max(u32::from(entry.warpgroups)) && held <= MAX_BLOCKS;
            need(several && product.out.extents[3].is_multiple_of(entry.channels()), Misfit::Tile)
        }
        Kept::Wide => {
            need(split_k == 1, Misfit::Class)?;
            need(conv_wide::serves(product, entry.pixels()), Misfit::Tile)
        }
    }
}

/// The menu's tactics for a product, best first by estimate: the products that one of a GPU's `units` computes.
/// Those that keep their weights come first.
pub fn menu(product: &Product<'_>, split_k: u16, units: u32) -> Vec<Tactic> {
    let costs = (0..)
        .zip(MENU)
        .filter(|(_, entry)| fits(entry, product, split_k).is_ok())
        .map(|(variant, entry)| {
            let tactic = Tactic {
                kernel: Kernel::ConvPatch,
                tile: entry.tile(),
                variant,
            };
            let rounds = entry.tiles(product).div_ceil(u64::from(units.max(1)));
            let cost = rounds * u64::from(entry.rows) * u64::from(entry.channels());
            // Of the same products, wide tiles leave shared memory the most time.
            let narrow = !entry.is_wide();
            ((!matches!(entry.kept, Kept::Weights { .. }), cost, narrow), tactic)
        });
    cheapest_first(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_line_of_a_source() {
        let sources = [
            include_str!("../../backend/cuda/kernels/conv_patch.cu"),
            include_str!("../../backend/cuda/kernels/conv_deep.cu"),
            include_str!("../../backend/cuda/kernels/conv_wide.cu"),
        ]
        .concat();
        for entry in MENU {
            let PatchTile { rows, warpgroups, kept } = entry;
            let line = match kept {
                Kept::Weights { blocks, stages, chains } => format!("\nCONV_PATCH({rows}, {blocks}, {stages}, {warpgroups}, {chains})\n"),
                Kept::Patches => format!("\nCONV_DEEP({rows}, {warpgroups})\n"),
                Kept::Wide => format!("\nCONV_WIDE({})\n", entry.pixels()),
            };
            assert_eq!(sources.matches(&line).count(), 1, "{line}");
        }
        let kernels = |l: &&str| ["CONV_PATCH(", "CONV_DEEP(", "CONV_WIDE("].iter().any(|list| l.starts_with(list));
        assert_eq!(sources.lines().filter(kernels).count(), MENU.len());
    }

    #[test]
    fn tactics_name_entries() {
        for (variant, entry) in (0..).zip(MENU) {
            let tactic = Tactic {
                kernel: Kernel::ConvPatch,
                tile: entry.tile(),
                variant,
            };
            assert_eq!(PatchTile::of(tactic), Some(entry));
            let wrong = Tactic {
                kernel: Kernel::ConvWgmma,
                ..tactic
            };
            assert_eq!(PatchTile::of(wrong), None);
        }
    }
}
