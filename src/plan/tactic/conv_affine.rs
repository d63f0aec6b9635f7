//! The tiles of the kernels for convolutions of one tap behind scale, shift and relu whose weights stay in shared memory: the
//! classes of [`conv_mma`](super::conv_mma) and [`conv_warps`](super::conv_warps), for more tiles than a GPU has places.

use super::product::Product;
use crate::plan::format::{Kernel, Tactic};

/// Pixels of a warp's tile.
pub const PIXELS: u16 = 32;
/// Warps of a block.
pub const WARPS: u32 = 8;
/// Fewest output channels of a block.
const NARROWEST: u16 = 64;
/// Bytes of shared memory that a block of Hopper may have.
pub const BLOCK_BYTES: u32 = 227 << 10;
/// Channels of a stage of a warp's ring, and its bytes.
const BLOCK_K: u32 = 64;
const STAGE_BYTES: u32 = PIXELS as u32 * BLOCK_K * 2;
/// Bytes in which a warp turns round what it stores, and of the biases.
const STRIP_BYTES: u32 = 2 << 10;
const BIAS_BYTES: u32 = 512;

/// The order of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One ascending chain: the class of `conv_mma`.
    Ascending,
    /// Chains of pieces, added in order: the class of `conv_warps`.
    Pieces,
}

impl Order {
    /// What the names of kernels call it.
    pub fn name(self) -> &'static str {
        match self {
            Order::Ascending => "ascending",
            Order::Pieces => "pieces",
        }
    }
}

/// Kernels of `conv_affine.cu` for one tile: one for each depth of the warps' rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffineTile {
    /// Output channels of a block.
    pub channels: u16,
    /// The order of K.
    pub order: Order,
    /// Stages of a warp's ring, deepest first.
    pub depths: [u32; 2],
}

const fn tile(channels: u16, order: Order, depths: [u32; 2]) -> AffineTile {
    AffineTile { channels, order, depths }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[AffineTile] = &[
    tile(128, Order::Ascending, [3, 2]),
    tile(64, Order::Ascending, [4, 2]),
    tile(64, Order::Pieces, [3, 2]),
];

impl AffineTile {
    /// The kernel's name in its source.
    pub fn function(&self, depth: u32) -> String {
        format!("conv_affine_{}_s{depth}_{}", self.channels, self.order.name())
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static AffineTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvAffine && tactic.tile == (PIXELS, entry.channels)).then_some(entry)
    }

    /// The tactics of the whole menu.
    pub fn tactics() -> impl Iterator<Item = Tactic> {
        (0..).zip(MENU).map(|(variant, entry)| Tactic {
            kernel: Kernel::ConvAffine,
            tile: (PIXELS, entry.channels),
            variant,
        })
    }

    /// Bytes of shared memory of a block: weights of `k_padded` input channels, rings, what is stored, biases, scales and shifts.
    pub fn shared(&self, k_padded: u32, depth: u32) -> u32 {
        let weights = u32::from(self.channels) * k_padded * 2;
        weights + WARPS * (depth * STAGE_BYTES + STRIP_BYTES) + BIAS_BYTES + 4 * k_padded
    }

    /// The deepest ring for which there is room beside the weights of `k` input channels; `None` where there is none.
    pub fn depth(&self, k: u64) -> Option<u32> {
        let k_padded = u32::try_from(k.next_multiple_of(u64::from(BLOCK_K)))
            .ok()
            .filter(|&k| k < 1 << 14)?;
        let fits = |&depth: &u32| self.shared(k_padded, depth) <= BLOCK_BYTES;
        self.depths.into_iter().find(fits)
    }
}

/// True for products with work for every warp of half a GPU of so many units: there the kernels come before the others of their class.
pub fn leads(product: &Product<'_>, units: u32) -> bool {
    let [samples, rows, columns, channels] = product.out.extents.map(u64::from);
    let tiles = (samples * rows * columns).div_ceil(u64::from(PIXELS)) * channels.div_ceil(u64::from(NARROWEST));
    tiles * 2 >= u64::from(units) * u64::from(WARPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_line_of_the_source_for_each_depth() {
        let source = include_str!("../../backend/cuda/kernels/conv_affine.cu");
        let mut kernels = 0;
        for entry in MENU {
            for depth in entry.depths {
                let order = format!("{:?}", entry.order).to_uppercase();
                let line = format!("\nCONV_AFFINE({}, {}, {depth}, {order})\n", entry.function(depth), entry.channels);
                assert_eq!(source.matches(&line).count(), 1, "{line}");
                kernels += 1;
            }
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("CONV_AFFINE(")).count(), kernels);
    }

    #[test]
    fn rings_are_as_deep_as_there_is_room() {
        let depths = |k| MENU.iter().map(|e| e.depth(k)).collect::<Vec<_>>();
        assert_eq!(depths(64), [Some(3), Some(4), Some(3)]);
        assert_eq!(depths(456), [Some(2), Some(4), Some(3)]);
        assert_eq!(depths(576), [Some(2), Some(4), Some(3)]);
        assert_eq!(depths(577), [None, Some(4), Some(3)]);
        assert_eq!(depths(1024), [None, Some(2), Some(2)]);
        assert_eq!(depths(4096), [None; 3]);
    }

    #[test]
    fn tactics_name_entries() {
        for (tactic, entry) in AffineTile::tactics().zip(MENU) {
            assert_eq!(AffineTile::of(tactic), Some(entry));
            let wrong = Tactic { tile: (64, 64), ..tactic };
            assert_eq!(AffineTile::of(wrong), None);
        }
    }
}
