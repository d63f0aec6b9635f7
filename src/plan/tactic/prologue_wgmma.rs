//! The tiles of the kernels for convolutions of one tap behind a prologue by `wgmma`: the classes of [`conv_mma`](super::conv_mma) and
//! [`conv_warps`](super::conv_warps), whose bits warpgroup products have, too. Blocks keep the weights of their output channels, or stream
//! them beside the pixels.

use super::conv_affine::Order;
use super::conv_wgmma::BLOCK_K;
use super::prologue::Prologue;
use crate::plan::format::{Kernel, Tactic};

/// Pixels of a warpgroup's tile.
pub const PIXELS: u16 = 64;
/// Most K blocks whose scales and shifts a block has room for that streams its weights.
const STREAMED_TABLE: u32 = 32;
/// Bytes kept for barriers.
const BARRIER_BYTES: u32 = 512;

/// A kernel of `prologue_wgmma.cu` or `prologue_streamed.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrologueTile {
    /// Output channels of a block.
    pub channels: u16,
    /// Where its weights are.
    pub weights: Weights,
    /// Warpgroups that multiply.
    pub warpgroups: u32,
    /// Stages: of each warpgroup where weights are kept, of all where they are streamed.
    pub stages: u32,
    /// What comes before products.
    pub before: Before,
}

/// Where a block has its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// In shared memory from the first tile to the last: at most so many K blocks. Each warpgroup has a warp that loads its pixels.
    Kept(u32),
    /// In the stages, a K block beside that of all warpgroups' pixels; one warp loads.
    Streamed,
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

const fn tile(channels: u16, weights: Weights, [warpgroups, stages]: [u32; 2], before: Before) -> PrologueTile {
    PrologueTile {
        channels,
        weights,
        warpgroups,
        stages,
        before,
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
const MENU: &[PrologueTile] = &[
    tile(128, Weights::Kept(4), [3, 4], Before::Affine(Order::Ascending)),
    tile(128, Weights::Kept(8), [2, 4], Before::Affine(Order::Ascending)),
    tile(64, Weights::Kept(8), [4, 3], Before::Affine(Order::Ascending)),
    tile(64, Weights::Kept(16), [3, 2], Before::Affine(Order::Ascending)),
    tile(128, Weights::Kept(8), [2, 4], Before::Affine(Order::Pieces)),
    tile(64, Weights::Kept(8), [3, 4], Before::Affine(Order::Pieces)),
    tile(64, Weights::Kept(16), [3, 2], Before::Affine(Order::Pieces)),
    tile(128, Weights::Kept(8), [2, 4], Before::Gate),
    tile(64, Weights::Kept(8), [3, 4], Before::Gate),
    tile(64, Weights::Kept(16), [3, 3], Before::Gate),
    tile(128, Weights::Streamed, [2, 5], Before::Affine(Order::Ascending)),
    tile(128, Weights::Streamed, [3, 4], Before::Affine(Order::Ascending)),
    tile(128, Weights::Streamed, [2, 5], Before::Affine(Order::Pieces)),
    tile(64, Weights::Streamed, [3, 5], Before::Affine(Order::Pieces)),
    tile(128, Weights::Streamed, [2, 5], Before::Gate),
    tile(64, Weights::Streamed, [3, 5], Before::Gate),
];

impl PrologueTile {
    /// The unit that its kernel is in.
    pub fn unit(&self) -> &'static str {
        match self.weights {
            Weights::Kept(_) => "prologue_wgmma",
            Weights::Streamed => "prologue_streamed",
        }
    }

    /// The kernel's name in its source.
    pub fn function(&self) -> String {
        let kept = match self.weights {
            Weights::Kept(k_blocks) => format!("_k{k_blocks}"),
            Weights::Streamed => String::new(),
        };
        let (unit, before) = (self.unit(), self.before.name());
        format!("{unit}_{}{kept}_g{}_s{}_{before}", self.channels, self.warpgroups, self.stages)
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
        let loading = match self.weights {
            Weights::Kept(_) => self.warpgroups,
            Weights::Streamed => 1,
        };
        self.warpgroups * 128 + loading * 32
    }

    /// Most K blocks that a block has room for.
    fn k_blocks(&self) -> u32 {
        match (self.weights, self.before) {
            (Weights::Kept(most), _) => most,
            (Weights::Streamed, Before::Affine(_)) => STREAMED_TABLE,
            (Weights::Streamed, Before::Gate) => u32::MAX,
        }
    }

    /// Bytes of shared memory of a block: weights, stages, tiles that are stored, scales and shifts, and barriers.
    pub fn shared(&self) -> u32 {
        let [pixels, channels] = [PIXELS, self.channels].map(u32::from);
        let weights = channels * BLOCK_K * 2;
        let weights = match self.weights {
            Weights::Kept(k_blocks) => k_blocks * weights,
            Weights::Streamed => self.stages * weights,
        };
        let tiles = self.warpgroups * (self.stages * pixels * BLOCK_K * 2 + pixels * channels * 2);
        let table = match self.before {
            Before::Affine(_) => self.k_blocks() * BLOCK_K * 4,
            Before::Gate => 0,
        };
        weights + tiles + table + BARRIER_BYTES
    }

    /// True if a block has room for what it keeps of so many input channels.
    pub fn keeps(&self, channels: u64) -> bool {
        channels.div_ceil(u64::from(BLOCK_K)) <= u64::from(self.k_blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tactic::conv_affine::BLOCK_BYTES;

    #[test]
    fn every_entry_is_a_line_of_the_source_and_fits_a_block() {
        let sources = [
            include_str!("../../backend/cuda/kernels/prologue_wgmma.cu"),
            include_str!("../../backend/cuda/kernels/prologue_streamed.cu"),
        ];
        for entry in MENU {
            let (source, most) = match entry.weights {
                Weights::Kept(k_blocks) => (sources[0], format!("{k_blocks}, ")),
                Weights::Streamed => (sources[1], String::new()),
            };
            let line = format!(
                "\n{}({}, {}, {most}{}, {}, {})\n",
                entry.unit().to_uppercase(),
                entry.function(),
                entry.channels,
                entry.warpgroups,
                entry.stages,
                entry.before.name().to_uppercase()
            );
            assert_eq!(source.matches(&line).count(), 1, "{line}");
            assert!(entry.shared() <= BLOCK_BYTES, "{entry:?}: {}", entry.shared());
            // Two barriers of 8 bytes a stage and a tile that is stored, one a K block that is kept, and one for the table.
            let barriers = match entry.weights {
                Weights::Kept(k_blocks) => entry.warpgroups * (entry.stages + 1) * 16 + k_blocks * 8,
                Weights::Streamed => (entry.stages + entry.warpgroups) * 16,
            };
            assert!(barriers + 8 <= BARRIER_BYTES);
        }
        let lines = sources.iter().flat_map(|s| s.lines()).filter(|l| l.starts_with("PROLOGUE_"));
        assert_eq!(lines.count(), MENU.len());
        assert!(sources[1].contains(&format!("TABLE_BLOCKS = {STREAMED_TABLE};")));
    }

    #[test]
    fn tactics_name_entries() {
        for (tactic, entry) in PrologueTile::tactics().zip(MENU) {
            assert_eq!(PrologueTile::of(tactic), Some(entry));
            assert_eq!(PrologueTile::of(Tactic { tile: (32, 64), ..tactic }), None);
        }
        assert!(MENU[0].keeps(256) && !MENU[0].keeps(257) && MENU[3].keeps(1024));
        assert!(MENU[10].keeps(2048) && !MENU[10].keeps(2049) && MENU[14].keeps(1 << 20));
    }
}
