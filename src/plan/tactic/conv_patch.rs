//! The tiles of the kernels that convolve patches of pixels which all taps share: the class of [`conv_wgmma`], for windows of
//! 3 by 3 neighbours over few input channels.

use super::Misfit;
use super::conv_wgmma::{self, BLOCK_K};
use super::forms::need;
use super::product::Product;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};
use crate::primitive::Window;

/// Output channels of a tile: the rows of a warpgroup product.
pub const CHANNELS: u32 = 64;
/// Output columns of a tile.
pub const COLUMNS: u32 = 8;
/// Taps along either axis.
pub const TAPS: u32 = 3;

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

/// Kernels of `conv_patch.cu` for one tile: one for each way to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchTile {
    /// Output rows of a tile, an even number.
    pub rows: u16,
    /// Blocks of [`BLOCK_K`] that hold the input's channels.
    pub blocks: u16,
    /// Patches in shared memory at once, beside the weights of [`CHANNELS`].
    pub stages: u16,
    /// Warpgroups, which take the tiles in turn.
    pub warpgroups: u16,
    /// Chains of products.
    pub chains: u16,
}

const fn entry(rows: u16, blocks: u16, stages: u16, warpgroups: u16, chains: u16) -> PatchTile {
    PatchTile {
        rows,
        blocks,
        stages,
        warpgroups,
        chains,
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[PatchTile] = &[
    entry(14, 1, 7, 3, 1),
    entry(8, 1, 10, 3, 1),
    entry(14, 2, 4, 2, 1),
    entry(8, 2, 6, 3, 1),
    entry(14, 2, 4, 2, 2),
    entry(8, 2, 6, 3, 2),
];

impl PatchTile {
    /// The kernel's name in `conv_patch.cu`.
    pub fn function(&self, store: Store) -> String {
        let PatchTile {
            rows,
            blocks,
            stages,
            warpgroups,
            chains,
        } = self;
        let store = match store {
            Store::Plain => "plain",
            Store::Any => "any",
            Store::Pooled => "pooled",
        };
        format!("conv_patch_r{rows}_k{blocks}_s{stages}_g{warpgroups}_c{chains}_{store}")
    }

    /// Pixels and channels of a tile.
    fn tile(&self) -> (u16, u16) {
        (self.rows * COLUMNS as u16, CHANNELS as u16)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static PatchTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvPatch && tactic.tile == entry.tile()).then_some(entry)
    }

    /// Tiles of a product's pixels; of each, [`CHANNELS`] at a time.
    fn tiles(&self, product: &Product<'_>) -> u64 {
        let [samples, rows, columns, _] = product.out.extents.map(u64::from);
        samples * rows.div_ceil(u64::from(self.rows)) * columns.div_ceil(u64::from(COLUMNS))
    }
}

/// True for windows and channels that the kernels take.
pub fn serves(window: &Window, inputs: u32, outputs: u32) -> bool {
    let most = MENU.iter().map(|e| u32::from(e.blocks)).max().unwrap_or(0) * BLOCK_K;
    let neighbours = (0..2).all(|a| window.kernel[a] == TAPS && window.stride[a] == 1 && window.dilation[a] == 1);
    window.axes == 2 && neighbours && (1..=most).contains(&inputs) && outputs > 0 && outputs.is_multiple_of(CHANNELS)
}

/// The product that an operator begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = conv_wgmma::product(plan, operator)?;
    let served = !product.matrix && serves(&product.window, product.x.extents[3], product.out.extents[3]);
    need(served, Misfit::Primitive)?;
    Ok(product)
}

/// Checks that an entry of the menu computes a product whose class has `split_k` chains.
pub fn fits(entry: &PatchTile, product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    need(
        split_k == conv_wgmma::splits(product) && split_k == entry.chains,
        Misfit::Class,
    )?;
    need(product.x.extents[3].div_ceil(BLOCK_K) == u32::from(entry.blocks), Misfit::Tile)
}

/// The menu's tactics for a product, best first by estimate: the pixels that one multiprocessor of a large GPU computes.
pub fn menu(product: &Product<'_>, split_k: u16) -> Vec<Tactic> {
    /// Multiprocessors of a large GPU.
    const PROCESSORS: u64 = 132;
    let mut all: Vec<(u64, Tactic)> = (0..)
        .zip(MENU)
        .filter(|(_, entry)| fits(entry, product, split_k).is_ok())
        .map(|(variant, entry)| {
            let tiles = entry.tiles(product) * u64::from(product.out.extents[3] / CHANNELS);
            let tactic = Tactic {
                kernel: Kernel::ConvPatch,
                tile: entry.tile(),
                variant,
            };
            (tiles.div_ceil(PROCESSORS) * u64::from(entry.rows), tactic)
        })
        .collect();
    all.sort_by_key(|(cost, _)| *cost);
    all.into_iter().map(|(_, tactic)| tactic).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_line_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_patch.cu");
        for entry in MENU {
            let PatchTile {
                rows,
                blocks,
                stages,
                warpgroups,
                chains,
            } = entry;
            let line = format!("\nCONV_PATCH({rows}, {blocks}, {stages}, {warpgroups}, {chains})\n");
            assert_eq!(source.matches(&line).count(), 1, "{line}");
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("CONV_PATCH(")).count(), MENU.len());
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
