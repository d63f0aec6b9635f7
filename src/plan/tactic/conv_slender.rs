//! The tiles of the kernels that convolve 3 by 3 neighbours from 65 to 128 channels to few, from patches of pixels which all taps share:
//! the classes of [`conv_wgmma`] and, for few pixels, of [`conv_warps`](super::conv_warps), whose bits warpgroup products have, too.

use super::Misfit;
use super::conv_3x3::{COLUMNS, PIXEL_BYTES, TAPS, patch_bytes};
use super::conv_wgmma::{self, BLOCK_K};
use super::forms::{cheapest_first, need};
use super::product::Product;
use crate::plan::format::{ArithmeticClass, Family, Kernel, Operator, Plan, Tactic};
use crate::primitive::Window;

/// Output rows of a tile.
pub const ROWS: u32 = 8;
/// Most output channels, which a product has all.
pub const OUTPUTS: u32 = 32;
/// Blocks of [`BLOCK_K`] input channels.
pub const BOXES: u32 = 2;
/// Pixels and output channels of a tile.
const TILE: (u16, u16) = ((ROWS * COLUMNS) as u16, OUTPUTS as u16);
/// Bytes of the weights of all taps.
const WEIGHT_BYTES: u32 = TAPS * TAPS * BOXES * OUTPUTS * PIXEL_BYTES;
/// Bytes kept for barriers, and of the strips in which the warps of a warpgroup turn their sums.
const BARRIER_BYTES: u32 = 256;
const STRIP_BYTES: u32 = 4 * 2048;

/// A line of `conv_slender.cu`: one kernel for each number of chains and way to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlenderTile {
    /// Warpgroups of a block that multiply, each a tile of its own.
    pub warpgroups: u32,
    /// Patches in its shared memory. A patch is always the same warpgroup's.
    pub stages: u32,
    /// Blocks that share a multiprocessor.
    pub together: u32,
}

const fn tile(warpgroups: u32, stages: u32, together: u32) -> SlenderTile {
    SlenderTile {
        warpgroups,
        stages,
        together,
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append.
const MENU: [SlenderTile; 3] = [tile(1, 1, 2), tile(2, 2, 1), tile(4, 4, 1)];

impl SlenderTile {
    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<SlenderTile> {
        let entry = *MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvSlender && tactic.tile == TILE).then_some(entry)
    }

    /// The tactics of the whole menu.
    fn tactics() -> impl Iterator<Item = (SlenderTile, Tactic)> {
        (0..).zip(MENU).map(|(variant, entry)| {
            let tactic = Tactic {
                kernel: Kernel::ConvSlender,
                tile: TILE,
                variant,
            };
            (entry, tactic)
        })
    }

    /// The name in its unit of the kernel for so many chains.
    pub fn function(self, chains: u16, plain: bool) -> String {
        let store = if plain { "plain" } else { "any" };
        let SlenderTile {
            warpgroups,
            stages,
            together,
        } = self;
        format!("conv_slender_g{warpgroups}_s{stages}_b{together}_c{chains}_{store}")
    }

    /// Threads of a block: the warpgroups that multiply, and a warp that loads.
    pub fn threads(self) -> u32 {
        self.warpgroups * 128 + 32
    }

    /// Bytes of shared memory of a block: weights, patches, strips, barriers.
    pub fn shared(self) -> u32 {
        WEIGHT_BYTES + self.stages * BOXES * patch_bytes(ROWS) + self.warpgroups * STRIP_BYTES + BARRIER_BYTES
    }

    /// Relative time of a product on a GPU of so many units, in cycles.
    fn estimate(self, product: &Product<'_>, units: u64) -> u64 {
        /// What a launch costs, and one whose block leaves the weights of the next no room.
        const START: u64 = 2000;
        const ALONE: u64 = 300;
        /// What a tile costs a unit, whose warpgroups all read its shared memory, and a warpgroup besides.
        const PRODUCTS: u64 = 1900;
        const PATCH: u64 = 700;
        // Blocks that share a multiprocessor do so even where others are free.
        let each = tiles(product).div_ceil((units / u64::from(self.together)).max(1));
        let alone = if self.together == 1 { ALONE } else { 0 };
        START + alone + each * PRODUCTS + each.div_ceil(u64::from(self.warpgroups * self.together)) * PATCH
    }
}

/// Tiles of a product.
fn tiles(product: &Product<'_>) -> u64 {
    let [samples, rows, columns, _] = product.out.extents.map(u64::from);
    samples * rows.div_ceil(u64::from(ROWS)) * columns.div_ceil(u64::from(COLUMNS))
}

/// True for windows and channels that the kernels take.
fn serves(window: &Window, inputs: u32, outputs: u32) -> bool {
    let neighbours = (0..2).all(|a| window.kernel[a] == TAPS && window.stride[a] == 1 && window.dilation[a] == 1);
    window.axes == 2 && neighbours && inputs.div_ceil(BLOCK_K) == BOXES && (1..=OUTPUTS).contains(&outputs)
}

/// The product that an operator begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = conv_wgmma::product(plan, operator)?;
    let served = !product.matrix && serves(&product.window, product.x.extents[3], product.out.extents[3]);
    need(served, Misfit::Primitive)?;
    Ok(product)
}

/// Checks that there are kernels for the chains of a product in a class: that of [`conv_warps`](super::conv_warps), if the product has
/// it, and else that of [`conv_wgmma`].
pub fn fits(product: &Product<'_>, warps: Option<ArithmeticClass>, class: ArithmeticClass) -> Result<(), Misfit> {
    match warps {
        Some(warps) => need(class == warps, Misfit::Class)?,
        None => {
            need(class.family == Family::Wgmma, Misfit::Class)?;
            conv_wgmma::chains(product, class.split_k)?;
        }
    }
    need(chains(class).is_some(), Misfit::Class)
}

/// The chains of products of a class: one, two or one for each tap.
pub fn chains(class: ArithmeticClass) -> Option<u16> {
    let most = match class.family {
        Family::Wgmma => 1..=2,
        _ => (TAPS * TAPS) as u16..=(TAPS * TAPS) as u16,
    };
    most.contains(&class.split_k).then_some(class.split_k)
}

/// True for chains of a tap each: weights and pixels are then in the order of [`conv_warps`](super::conv_warps).
pub fn is_pieces(chains: u16) -> bool {
    u32::from(chains) == TAPS * TAPS
}

/// True for products of few pixels for which the kernels are faster than those of [`conv_warps`](super::conv_warps), which occupy more
/// units: as measured on 132 and on 16 of them.
pub fn leads(product: &Product<'_>, units: u32) -> bool {
    2 * tiles(product) >= u64::from(units)
}

/// The menu's tactics for a product, best first by estimate.
pub fn menu(product: &Product<'_>, units: u32) -> Vec<Tactic> {
    cheapest_first(SlenderTile::tactics().map(|(entry, tactic)| (entry.estimate(product, u64::from(units.max(1))), tactic)))
}

#[cfg(test)]
mod tests {
    use super::super::conv_3x3::BLOCK_BYTES;
    use super::*;

    #[test]
    fn every_entry_is_a_line_of_the_source_and_has_room() {
        let source = include_str!("../../backend/cuda/kernels/conv_slender.cu");
        for entry in MENU {
            let SlenderTile {
                warpgroups,
                stages,
                together,
            } = entry;
            let line = format!("\nCONV_SLENDER({warpgroups}, {stages}, {together})\n");
            assert_eq!(source.matches(&line).count(), 1, "{line}");
            assert!(stages.is_multiple_of(warpgroups), "{line}");
            // Of each block's, 1 KiB is the system's.
            assert!((entry.shared() + 1024) * together <= BLOCK_BYTES + 1024, "{line}");
        }
        let lines = source.lines().filter(|l| l.starts_with("CONV_SLENDER("));
        assert_eq!(lines.count(), MENU.len());
        for chains in [1, 2, 9] {
            let line = format!("CONV_SLENDER_CHAINS(GROUPS, STAGES, BLOCKS, {chains})");
            assert_eq!(source.matches(&line).count(), 1, "{line}");
        }
    }

    #[test]
    fn windows_of_neighbours_over_two_blocks_of_channels_are_served() {
        let served = |inputs, outputs| serves(&Window::new(&[3, 3]), inputs, outputs);
        assert!(served(65, 1) && served(128, 32));
        assert!(!served(64, 32) && !served(129, 32) && !served(128, 33) && !served(128, 0));
        for change in [
            |w: &mut Window| w.stride[1] = 2,
            |w: &mut Window| w.dilation[0] = 2,
            |w: &mut Window| w.kernel[0] = 5,
        ] {
            let mut window = Window::new(&[3, 3]);
            change(&mut window);
            assert!(!serves(&window, 128, 32));
        }
    }

    #[test]
    fn classes_have_one_chain_or_two_or_one_a_tap() {
        let of = |family, split_k| chains(ArithmeticClass { family, split_k });
        assert_eq!([1, 2, 4, 9].map(|n| of(Family::Wgmma, n)), [Some(1), Some(2), None, None]);
        assert_eq!([1, 2, 8, 9].map(|n| of(Family::TensorCore, n)), [None, None, None, Some(9)]);
    }

    #[test]
    fn tactics_name_their_entries() {
        for (entry, tactic) in SlenderTile::tactics() {
            assert_eq!(SlenderTile::of(tactic), Some(entry));
            assert_eq!(SlenderTile::of(Tactic { tile: (8, 8), ..tactic }), None);
            let other = Tactic {
                kernel: Kernel::ConvShallow,
                ..tactic
            };
            assert_eq!(SlenderTile::of(other), None);
        }
    }
}
