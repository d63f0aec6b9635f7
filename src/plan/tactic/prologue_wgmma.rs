//! The tiles of the kernels for convolutions of one tap behind a prologue by `wgmma`: the classes of [`conv_mma`](super::conv_mma) and
//! [`conv_warps`](super::conv_warps), whose bits warpgroup products have, too.

use super::conv_affine::Order;
use super::conv_wgmma::BLOCK_K;
use super::prologue::Prologue;
use crate::plan::format::{Kernel, Tactic};

/// Pixels of a warpgroup's tile.
pub const PIXELS: u16 = 64;
/// Bytes kept for barriers.
const BARRIER_BYTES: u32 = 512;

/// A kernel of `prologue_wgmma.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrologueTile {
    /// Output channels of a block.
    pub channels: u16,
    /// Most K blocks of its weights.
    pub k_blocks: u32,
    /// Warpgroups that multiply, each with a warp that loads for it.
    pub warpgroups: u32,
    /// Stages of a warpgroup.
    pub stages: u32,
    /// What comes before products.
    pub before: Before,
}

/// A prologue, and the order of K behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Scale, shift and relu.
    Affine(Order),
    /// Factors of samples and channels; chains of pieces.
    Gate,
}

impl Before {
    /// The order of K.
    pub fn order(self) -> Order {
        match self {
            Before::Affine(order) => order,
            Before::Gate => Order::Pieces,
        }
    }

    /// True for what stands before an operator's product.
    pub fn is(self, prologue: &Prologue) -> bool {
        matches!(
            (self, prologue),
            (Before::Affine(_), Prologue::Affine(_)) | (Before::Gate, Prologue::Gate(_))
        )
    }

    /// What the names of kernels call it.
    fn name(self) -> String {
        match self {
            Before::Affine(order) => format!("affine_{}", order.name()),
            Before::Gate => "gate_pieces".to_owned(),
        }
    }
}

const fn tile(channels: u16, k_blocks: u32, warpgroups: u32, stages: u32, before: Before) -> PrologueTile {
    PrologueTile {
        channels,
        k_blocks,
        warpgroups,
        stages,
        before,
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
const MENU: &[PrologueTile] = &[
    tile(128, 4, 3, 4, Before::Affine(Order::Ascending)),
    tile(128, 8, 2, 4, Before::Affine(Order::Ascending)),
    tile(64, 8, 4, 3, Before::Affine(Order::Ascending)),
    tile(64, 16, 3, 2, Before::Affine(Order::Ascending)),
    tile(128, 8, 2, 4, Before::Affine(Order::Pieces)),
    tile(64, 8, 3, 4, Before::Affine(Order::Pieces)),
    tile(64, 16, 3, 2, Before::Affine(Order::Pieces)),
    tile(128, 8, 2, 4, Before::Gate),
    tile(64, 8, 3, 4, Before::Gate),
    tile(64, 16, 3, 3, Before::Gate),
];

impl PrologueTile {
    /// The kernel's name in its source.
    pub fn function(&self) -> String {
        let PrologueTile {
            channels,
            k_blocks,
            warpgroups,
            stages,
            before,
        } = self;
        format!("prologue_wgmma_{channels}_k{k_blocks}_g{warpgroups}_s{stages}_{}", before.name())
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static PrologueTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::PrologueWgmma && tactic.tile == (PIXELS, entry.channels)).then_some(entry)
    }

    /// The tactics of the whole menu.
    pub fn tactics() -> impl Iterator<Item = Tactic> {
        (0..).zip(MENU).map(|(variant, entry)| Tactic {
            kernel: Kernel::PrologueWgmma,
            tile: (PIXELS, entry.channels),
            variant,
        })
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.warpgroups * (128 + 32)
    }

    /// Bytes of shared memory of a block: weights, stages, tiles that are stored, scales and shifts, and barriers.
    pub fn shared(&self) -> u32 {
        let [pixels, channels] = [PIXELS, self.channels].map(u32::from);
        let weights = self.k_blocks * channels * BLOCK_K * 2;
        let tiles = self.warpgroups * (self.stages * pixels * BLOCK_K * 2 + pixels * channels * 2);
        let table = match self.before {
            Before::Affine(_) => self.k_blocks * BLOCK_K * 4,
            Before::Gate => 0,
        };
        weights + tiles + table + BARRIER_BYTES
    }

    /// True if a block keeps the weights of so many input channels.
    pub fn keeps(&self, channels: u64) -> bool {
        channels.div_ceil(u64::from(BLOCK_K)) <= u64::from(self.k_blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tactic::conv_affine::BLOCK_BYTES;

    #[test]
    fn every_entry_is_a_line_of_the_source_and_fits_a_block() {
        let source = include_str!("../../backend/cuda/kernels/prologue_wgmma.cu");
        for entry in MENU {
            let line = format!(
                "\nPROLOGUE_WGMMA({}, {}, {}, {}, {}, {})\n",
                entry.function(),
                entry.channels,
                entry.k_blocks,
                entry.warpgroups,
                entry.stages,
                entry.before.name().to_uppercase()
            );
            assert_eq!(source.matches(&line).count(), 1, "{line}");
            assert!(entry.shared() <= BLOCK_BYTES, "{entry:?}: {}", entry.shared());
            // Two barriers of 8 bytes a stage and a tile that is stored, one a K block, and one for the table.
            assert!(entry.warpgroups * (entry.stages + 1) * 16 + entry.k_blocks * 8 + 8 <= BARRIER_BYTES);
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("PROLOGUE_WGMMA(")).count(), MENU.len());
    }

    #[test]
    fn tactics_name_entries() {
        for (tactic, entry) in PrologueTile::tactics().zip(MENU) {
            assert_eq!(PrologueTile::of(tactic), Some(entry));
            assert_eq!(PrologueTile::of(Tactic { tile: (32, 64), ..tactic }), None);
        }
        assert!(MENU[0].keeps(256) && !MENU[0].keeps(257) && MENU[3].keeps(1024));
    }
}
