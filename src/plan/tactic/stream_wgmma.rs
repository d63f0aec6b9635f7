//! The tiles of the kernels that stream large weights past few pixels: the class of [`conv_wgmma`], its operands exchanged.

use super::Misfit;
use super::conv_wgmma::{self, Chains};
use super::forms::need;
use super::product::Product;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};

/// Output channels of a warpgroup: the rows of its products.
const TEAM_CHANNELS: u16 = 64;
/// Most output pixels of all samples that are worth streaming weights past.
const MAX_PIXELS: u64 = 256;
/// Pixels and weights of which all that counts is how fast weights pass: other kernels are not asked.
const FEW_PIXELS: u64 = 8;
const MANY_WEIGHTS: u64 = 1 << 22;
/// Most tiles whose chains are summed apart: each has a counter.
const MAX_TILES: u64 = 1 << 14;

/// Kernels of `stream_wgmma.cu` for one tile: one for each way to sum the chains of a split K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTile {
    /// Pixels of a block's tile: the columns of a warpgroup product.
    pub pixels: u16,
    /// K blocks in shared memory at once, as many as let two blocks share an SM.
    pub stages: u16,
    /// Warpgroups that multiply, each channels of its own.
    pub teams: u16,
    /// Chains of a split K are summed through memory by the block that ends last, wherever the others are, instead of in a
    /// cluster, whose blocks need places side by side.
    pub apart: bool,
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[StreamTile] = &[
    tile(8, 12, 1, false),
    tile(16, 10, 1, false),
    tile(32, 8, 1, false),
    tile(8, 12, 1, true),
    tile(16, 10, 1, true),
    tile(32, 8, 1, true),
    tile(8, 6, 2, false),
    tile(8, 6, 2, true),
    tile(8, 3, 4, false),
    tile(8, 3, 4, true),
];

const fn tile(pixels: u16, stages: u16, teams: u16, apart: bool) -> StreamTile {
    StreamTile {
        pixels,
        stages,
        teams,
        apart,
    }
}

impl StreamTile {
    /// The kernel's name in `stream_wgmma.cu`, of a launch that sums several chains so; `None` for chains apart.
    pub fn function(&self, chains: Option<Chains>) -> String {
        let chains = match chains {
            Some(Chains::One) => "one",
            Some(Chains::InTurn) => "turns",
            Some(Chains::Cluster) => "cluster",
            None => "apart",
        };
        format!("stream_wgmma_{}_s{}_t{}_{chains}", self.pixels, self.stages, self.teams)
    }

    /// Output channels of a tile.
    pub fn channels(&self) -> u16 {
        self.teams * TEAM_CHANNELS
    }

    /// Threads of a block: warpgroups that multiply, and two warps that load.
    pub fn threads(&self) -> u32 {
        u32::from(self.teams) * 128 + 64
    }

    /// Tiles of a product, or of all its chunks, at the most.
    pub fn tiles(&self, product: &Product<'_>) -> u64 {
        let [samples, rows, columns, channels] = product.out.extents.map(u64::from);
        let pixels = match rows * columns {
            1 => samples.div_ceil(u64::from(self.pixels)),
            // Rows of every sample may be cut.
            image => samples * image.div_ceil(u64::from(self.pixels)),
        };
        pixels * channels.div_ceil(u64::from(self.channels()))
    }

    /// True if the entry serves a product whose K is split so.
    pub fn serves(&self, product: &Product<'_>, split_k: u16) -> bool {
        !self.apart || (split_k > 1 && self.tiles(product) <= MAX_TILES)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static StreamTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::StreamWgmma && tactic.tile == (entry.pixels, entry.channels())).then_some(entry)
    }
}

/// The product that an operator begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = conv_wgmma::product(plan, operator)?;
    need(pixels(&product) <= MAX_PIXELS, Misfit::Primitive)?;
    Ok(product)
}

/// Output pixels of all samples.
fn pixels(product: &Product<'_>) -> u64 {
    product.out.extents[..3].iter().map(|&n| u64::from(n)).product()
}

/// Where the tactics stand among those of the other kernels with `wgmma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// There are no others.
    Alone,
    /// Before them.
    First,
    /// Behind them.
    Last,
}

/// The menu's tactics for a product, best first by estimate, and their rank: the first where one tile holds all pixels, the smallest
/// such tile; alone where many weights pass a few pixels.
pub fn menu(product: &Product<'_>) -> (Vec<Tactic>, Rank) {
    let pixels = pixels(product);
    let mut all: Vec<(u64, Tactic)> = (0..)
        .zip(MENU)
        .map(|(variant, entry)| {
            let tactic = Tactic {
                kernel: Kernel::StreamWgmma,
                tile: (entry.pixels, entry.channels()),
                variant,
            };
            (pixels.div_ceil(u64::from(entry.pixels)), tactic)
        })
        .collect();
    all.sort_by_key(|(tiles, _)| *tiles);
    let widest = MENU.iter().map(|e| u64::from(e.pixels)).max();
    let rank = match widest.is_some_and(|w| pixels <= w) {
        true if pixels <= FEW_PIXELS && product.weights.layout.shape.elements() >= MANY_WEIGHTS => Rank::Alone,
        true => Rank::First,
        false => Rank::Last,
    };
    (all.into_iter().map(|(_, tactic)| tactic).collect(), rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_line_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/stream_wgmma.cu");
        let mut lines = std::collections::BTreeSet::new();
        for entry in MENU {
            let line = format!("\nSTREAM_WGMMA({}, {}, {})\n", entry.pixels, entry.stages, entry.teams);
            assert_eq!(source.matches(&line).count(), 1, "{line}");
            lines.insert(line);
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("STREAM_WGMMA(")).count(), lines.len());
    }
}
