//! The tiles of the kernels that multiply 256 and more pixels by 128 channels at a time: the class of [`conv_wgmma`], for products of
//! about as many such tiles as a GPU has multiprocessors.

use super::Misfit;
use super::conv_wgmma::{self, BLOCK_K, WgmmaTile, k_blocks};
use super::forms::{cheapest_first, need};
use super::product::Product;
use crate::plan::format::{Kernel, Tactic};

/// Channels of a tile.
const CHANNELS: u16 = 128;
/// Pixels of a warpgroup.
const PIXELS: u16 = 64;
/// Bytes kept for barriers.
const BARRIER_BYTES: u32 = 256;
/// The tile of [`conv_wgmma`] for launches that these kernels do not serve.
const SMALL: (u16, u16) = (128, 128);

/// One kernel of `conv_large.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeTile {
    /// Warpgroups, each of 64 pixels.
    pub warpgroups: u16,
    /// K blocks in shared memory at once.
    pub stages: u16,
}

/// The menu. A tactic's `variant` is the place in it: only ever append.
pub const MENU: &[LargeTile] = &[LargeTile { warpgroups: 4, stages: 4 }, LargeTile { warpgroups: 5, stages: 4 }];

impl LargeTile {
    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static LargeTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvLarge && tactic.tile == entry.tile()).then_some(entry)
    }

    /// Pixels and channels of a block's tile.
    pub fn tile(&self) -> (u16, u16) {
        (self.warpgroups * PIXELS, CHANNELS)
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        u32::from(self.warpgroups) * 128
    }

    /// Bytes of shared memory of a block: stages, in whose place results are turned round, and barriers.
    pub fn shared(&self) -> u32 {
        let (pixels, channels) = self.tile();
        u32::from(self.stages) * u32::from(pixels + channels) * BLOCK_K * 2 + BARRIER_BYTES
    }

    /// The kernel's name in its source.
    pub fn function(&self) -> String {
        format!("conv_large_g{}_s{}", self.warpgroups, self.stages)
    }

    /// Blocks of a product.
    fn tiles(&self, product: &Product<'_>) -> u64 {
        let (pixels, channels) = self.tile();
        let [samples, rows, columns, outputs] = product.out.extents.map(u64::from);
        (samples * rows * columns).div_ceil(u64::from(pixels)) * outputs.div_ceil(u64::from(channels))
    }

    fn tactic(&self, variant: u16) -> Tactic {
        Tactic {
            kernel: Kernel::ConvLarge,
            tile: self.tile(),
            variant,
        }
    }
}

/// The entry of [`conv_wgmma`] with the same bits, for launches whose pixels or tails these kernels do not serve.
pub fn small() -> Option<&'static WgmmaTile> {
    WgmmaTile::all().find(|e| e.sharing == conv_wgmma::Sharing::Together && e.chains == conv_wgmma::Chains::One && e.tile == SMALL)
}

/// Checks that the kernels compute a product whose class has `split_k` chains: one.
pub fn fits(product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    conv_wgmma::chains(product, split_k)?;
    need(split_k == 1, Misfit::Class)
}

/// The menu's tactics for a product, best first: of a GPU of so many `units` they occupy at least half.
pub fn menu(product: &Product<'_>, split_k: u16, units: u32) -> Vec<Tactic> {
    if fits(product, split_k).is_err() {
        return Vec::new();
    }
    let units = u64::from(units.max(1));
    let occupying = (0..).zip(MENU).filter(|(_, entry)| entry.tiles(product) * 2 >= units);
    let costs = occupying.map(|(variant, entry)| {
        let rounds = entry.tiles(product).div_ceil(units);
        (rounds * u64::from(entry.warpgroups) * k_blocks(product), entry.tactic(variant))
    });
    cheapest_first(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tactics_name_entries_that_are_kernels_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_large.cu");
        for (variant, entry) in (0..).zip(MENU) {
            assert_eq!(LargeTile::of(entry.tactic(variant)), Some(entry));
            let line = format!("\nCONV_LARGE({}, {})\n", entry.warpgroups, entry.stages);
            assert_eq!(source.matches(&line).count(), 1, "{line}");
        }
        assert_eq!(source.matches("\nCONV_LARGE(").count(), MENU.len());
        let small = small().map(|e| e.tile);
        assert_eq!(small, Some(SMALL));
    }

    #[test]
    fn a_block_fits_an_sm_and_its_results_fit_the_stages() {
        const BLOCK: u32 = 227 << 10;
        for entry in MENU {
            let (pixels, channels) = entry.tile();
            assert!(entry.shared() <= BLOCK, "{entry:?}: {}", entry.shared());
            assert!(u32::from(pixels) * u32::from(channels) * 2 <= entry.shared() - BARRIER_BYTES);
            assert!(u32::from(entry.stages) * 16 + u32::from(entry.warpgroups) * 8 <= BARRIER_BYTES);
        }
    }
}
