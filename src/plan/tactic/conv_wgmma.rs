//! The tiles of the kernels that convolve with `wgmma`, what the copy engine demands of an operator, and how K is split.

use super::forms::{cheapest_first, computes_halves, need};
use super::product::Product;
use super::{LARGE, Misfit};
use crate::plan::format::{Kernel, Operator, Plan, Tactic};
use crate::primitive::{Primitive, Unary};
use crate::tensor::DType;

/// Input channels of a K block: every tap's channels are filled up with zeros to a multiple of it.
pub const BLOCK_K: u32 = 64;

/// Farthest tap from a window's first, in positions of an axis, that an im2col copy can express.
const MAX_REACH: u32 = 255;
/// Corners of the box of base pixels that an im2col copy can express.
const CORNERS: std::ops::RangeInclusive<i64> = -128..=127;
/// Largest stride of an im2col copy.
const MAX_STRIDE: u32 = 8;
/// Halves in 16 bytes, of which the copy engine's addresses are multiples.
const ALIGNED: u32 = 8;

/// Who sums the chains of a split K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chains {
    /// K is not split.
    One,
    /// One block sums all chains of a tile, one after another.
    InTurn,
    /// The blocks of a cluster sum a chain each.
    Cluster,
}

/// Weights that stay in a block's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Most K blocks of the weights.
    pub k_blocks: u16,
    /// Tiles of a warpgroup that are stored or joined at once.
    pub buffers: u16,
}

/// How the warpgroups of a block that multiply share out its tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All work on the same tile.
    Together,
    /// Each has tiles of its own, and they take turns at the tensor cores.
    PingPong {
        /// Warpgroups that multiply.
        warpgroups: u16,
        /// How weights are kept, if they are.
        kept: Option<Kept>,
        /// Two blocks whose tiles lie side by side along the channels load pixels for each other.
        pair: bool,
    },
}

/// One kernel of `conv_wgmma.cu`, `conv_wgmma_pingpong.cu` or `conv_wgmma_kept.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WgmmaTile {
    /// Pixels (64 for each warpgroup) and output channels of a block's tile, or of a warpgroup's where each has its own.
    pub tile: (u16, u16),
    /// K blocks in shared memory at once; of the pixels alone where weights are kept.
    pub stages: u16,
    /// Blocks that share an SM.
    pub blocks: u16,
    /// Who sums the chains of a split K.
    pub chains: Chains,
    /// How warpgroups share out tiles.
    pub sharing: Sharing,
}

const fn entry(tile: (u16, u16), stages: u16, blocks: u16, chains: Chains) -> Option<WgmmaTile> {
    Some(WgmmaTile {
        tile,
        stages,
        blocks,
        chains,
        sharing: Sharing::Together,
    })
}

/// Warpgroups with tiles of their own.
const fn alternating(tile: (u16, u16), stages: u16, chains: Chains, sharing: Sharing) -> Option<WgmmaTile> {
    Some(WgmmaTile {
        tile,
        stages,
        blocks: 1,
        chains,
        sharing,
    })
}

/// Those that load their weights with their pixels.
const fn pingpong(tile: (u16, u16), warpgroups: u16, stages: u16, chains: Chains) -> Option<WgmmaTile> {
    let sharing = Sharing::PingPong {
        warpgroups,
        kept: None,
        pair: false,
    };
    alternating(tile, stages, chains, sharing)
}

/// The same in pairs of blocks.
const fn pair(tile: (u16, u16), warpgroups: u16, stages: u16, chains: Chains) -> Option<WgmmaTile> {
    let sharing = Sharing::PingPong {
        warpgroups,
        kept: None,
        pair: true,
    };
    alternating(tile, stages, chains, sharing)
}

/// Those that keep weights of so many channels and K blocks.
const fn kept(channels: u16, k_blocks: u16, warpgroups: u16, stages: u16, buffers: u16) -> Option<WgmmaTile> {
    let sharing = Sharing::PingPong {
        warpgroups,
        kept: Some(Kept { k_blocks, buffers }),
        pair: false,
    };
    alternating((64, channels), stages, Chains::One, sharing)
}

const fn one(tile: (u16, u16), stages: u16, blocks: u16) -> Option<WgmmaTile> {
    entry(tile, stages, blocks, Chains::One)
}

const fn turns(tile: (u16, u16), stages: u16, blocks: u16) -> Option<WgmmaTile> {
    entry(tile, stages, blocks, Chains::InTurn)
}

const fn cluster(tile: (u16, u16), stages: u16, blocks: u16) -> Option<WgmmaTile> {
    entry(tile, stages, blocks, Chains::Cluster)
}

/// The place of a kernel that was never worth its bytes. Plans with a tactic that names it are refused; tables are not asked.
const RETIRED: Option<WgmmaTile> = None;

/// The menu. A tactic's `variant` is the place in it: only ever append, or retire what no table found to be the fastest.
const MENU: &[Option<WgmmaTile>] = &[
    RETIRED,
    RETIRED,
    one((128, 128), 3, 2),
    one((128, 64), 6, 1),
    one((128, 64), 4, 2),
    one((128, 64), 2, 3),
    one((64, 128), 4, 2),
    RETIRED,
    one((64, 64), 4, 3),
    one((64, 64), 2, 4),
    one((64, 32), 8, 1),
    turns((128, 128), 5, 1),
    turns((128, 64), 6, 1),
    turns((64, 128), 6, 1),
    turns((64, 128), 4, 2),
    turns((64, 64), 4, 3),
    RETIRED,
    cluster((128, 128), 4, 1),
    cluster((128, 64), 6, 1),
    cluster((64, 128), 6, 1),
    cluster((64, 64), 8, 1),
    RETIRED,
    one((192, 128), 4, 1),
    RETIRED,
    RETIRED,
    RETIRED,
    cluster((64, 64), 6, 2),
    cluster((64, 32), 8, 2),
    one((128, 32), 2, 3),
    one((64, 32), 2, 6),
    one((64, 32), 4, 3),
    turns((128, 32), 4, 2),
    turns((64, 32), 4, 3),
    one((128, 96), 6, 1),
    one((128, 160), 5, 1),
    RETIRED,
    turns((128, 96), 6, 1),
    kept(128, 2, 4, 8, 2),
    kept(128, 2, 3, 12, 2),
    kept(128, 4, 4, 12, 1),
    kept(128, 8, 3, 6, 1),
    pingpong((128, 128), 2, 5, Chains::One),
    pingpong((128, 64), 3, 6, Chains::One),
    pingpong((64, 128), 3, 7, Chains::One),
    pingpong((128, 64), 2, 7, Chains::InTurn),
    pingpong((64, 128), 2, 7, Chains::InTurn),
    pair((128, 128), 2, 5, Chains::One),
    pair((128, 64), 2, 7, Chains::InTurn),
    pair((64, 128), 2, 7, Chains::InTurn),
    cluster((64, 128), 3, 2),
];

impl WgmmaTile {
    /// The kernel's name in its source; `plain` for tails that are stored the plain way, the only ones of warpgroups with tiles of
    /// their own.
    pub fn function(&self, plain: bool) -> String {
        let WgmmaTile { tile, stages, blocks, .. } = self;
        let chains = match self.chains {
            Chains::One => "one",
            Chains::InTurn => "turns",
            Chains::Cluster => "cluster",
        };
        if let Sharing::PingPong { warpgroups, kept, pair } = self.sharing {
            let pair = if pair { "_pair" } else { "" };
            return match kept {
                Some(Kept { k_blocks, .. }) => format!("conv_wgmma_kept_{}_k{k_blocks}_g{warpgroups}_s{stages}_{chains}", tile.1),
                None => format!("conv_wgmma_pingpong_{}x{}_g{warpgroups}_s{stages}_{chains}{pair}", tile.0, tile.1),
            };
        }
        let any = if plain { "" } else { "_any" };
        format!("conv_wgmma_{}x{}_s{stages}_b{blocks}_{chains}{any}", tile.0, tile.1)
    }

    /// Threads of a block: the warpgroups that multiply, and a warp that loads, two where the block has an SM to itself. Where weights
    /// are kept, the second brings what is joined; of other warpgroups with tiles of their own, a whole one loads, as registers pass
    /// between warpgroups.
    pub fn threads(&self) -> u32 {
        match self.sharing {
            Sharing::PingPong { warpgroups, kept, .. } => u32::from(warpgroups) * 128 + if kept.is_some() { 64 } else { 128 },
            Sharing::Together => u32::from(self.tile.0) / 64 * 128 + if self.blocks == 1 { 64 } else { 32 },
        }
    }

    /// The weights that are kept.
    pub fn kept(&self) -> Option<Kept> {
        match self.sharing {
            Sharing::PingPong { kept, .. } => kept,
            Sharing::Together => None,
        }
    }

    /// Blocks that load pixels for each other: 2 or 1.
    pub fn mates(&self) -> u32 {
        match self.sharing {
            Sharing::PingPong { pair: true, .. } => 2,
            _ => 1,
        }
    }

    /// The entry for a launch that warpgroups with tiles of their own do not serve, as its pixels or its tail are not theirs: the
    /// same bits.
    pub fn together(&self) -> Option<&'static WgmmaTile> {
        WgmmaTile::all().find(|e| e.sharing == Sharing::Together && e.chains == self.chains && e.tile.1 == self.tile.1)
    }

    /// True if the kernel has a way of its own for an operator's tail: what is joined to a tile lies where the tile is stored from, so
    /// warpgroups with tiles of their own join nothing behind a function that bounds do not express, and where weights are kept they
    /// have no such functions.
    pub fn finishes(&self, operator: &Operator) -> bool {
        let Sharing::PingPong { kept, .. } = self.sharing else {
            return true;
        };
        let tail = || operator.calls.iter().skip(1).map(|c| &c.primitive);
        let curved = |p: &Primitive| matches!(p, Primitive::Unary(f) if !matches!(f, Unary::Relu | Unary::Clip(..)));
        let joins = tail().any(|p| matches!(p, Primitive::Binary(_)));
        !tail().any(curved) || !(joins || kept.is_some())
    }

    /// The entry for a launch that is too narrow for a cluster: the same tile and bits, the chains in turn.
    pub fn without_cluster(&self) -> Option<&'static WgmmaTile> {
        WgmmaTile::all().find(|e| e.sharing == Sharing::Together && e.tile == self.tile && e.chains == Chains::InTurn)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static WgmmaTile> {
        let entry = MENU.get(usize::from(tactic.variant))?.as_ref()?;
        (tactic.kernel == Kernel::ConvWgmma && tactic.tile == entry.tile).then_some(entry)
    }

    /// The entries of the menu.
    pub fn all() -> impl Iterator<Item = &'static WgmmaTile> {
        MENU.iter().flatten()
    }

    /// The tactics of the whole menu.
    pub fn tactics() -> impl Iterator<Item = Tactic> {
        let places = (0..).zip(MENU);
        places.filter_map(|(variant, place)| {
            Some(Tactic {
                kernel: Kernel::ConvWgmma,
                tile: place.as_ref()?.tile,
                variant,
            })
        })
    }
}

/// First and last base pixel of a product along rows (0) or columns (1), the last counted from the input's last position.
pub fn corners(product: &Product<'_>, axis: usize) -> [i64; 2] {
    let [pad, stride] = [product.window.pad_begin[axis], product.window.stride[axis]].map(i64::from);
    let [extent, outputs] = [product.x.extents[axis + 1], product.out.extents[axis + 1]].map(i64::from);
    [-pad, (outputs - 1) * stride - pad - (extent - 1)]
}

/// K blocks of a product.
pub fn k_blocks(product: &Product<'_>) -> u64 {
    product.window.taps() * u64::from(product.x.extents[3].div_ceil(BLOCK_K))
}

/// The product that an operator begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = Product::of(plan, operator)?;
    let halves = [product.input.dtype, product.weights.dtype] == [DType::F16; 2];
    need(halves && computes_halves(operator), Misfit::Type)?;
    let (x, window) = (&product.x, &product.window);
    let aligned = product.input.origin.is_multiple_of(u64::from(ALIGNED)) && x.wide();
    let carried = (0..3).all(|a| x.extents[a] <= 1 || x.strides[a] > 0);
    need(x.extents[3] > 0 && aligned && carried, Misfit::Layout)?;
    need(x.channels_last() && product.out.channels_last(), Misfit::Layout)?;
    let expressible = |a: usize| {
        let reach = window.reach(a).is_some_and(|r| r - 1 <= MAX_REACH);
        reach && window.stride[a] <= MAX_STRIDE && corners(&product, a).iter().all(|c| CORNERS.contains(c))
    };
    need((0..2).all(expressible), Misfit::Primitive)?;
    let pixels = product.out.extents[..3].iter().try_fold(1u32, |all, &n| all.checked_mul(n));
    let small = pixels.is_some_and(|n| (1..=i32::MAX as u32).contains(&n)) && k_blocks(&product) <= u64::from(u16::MAX);
    need(small, Misfit::Primitive)?;
    Ok(product)
}

/// Most chains. Clusters of 8 blocks find few places, and chains that are summed in turn cost time where tiles abound.
const MAX_SPLITS: u16 = 4;
/// The same of single pixels, past which weights stream: a warpgroup waits for its own sums at each K block, however few tiles there
/// are. Clusters of so many are those of `stream_wgmma` alone.
const MAX_STREAMED: u16 = 8;
/// Tiles of 64 by 64 of one sample, counted once for each chain, beyond which nothing is split further; the same of a GPU's unit.
const SPLIT_TILES: (u64, u64) = (208, 3);
/// The same where K is so long that what it saves to occupy all of a GPU is far more than what another chain costs.
const LONG_SPLIT_TILES: (u64, u64) = (264, 4);
/// K blocks from which on K is so long.
const LONG_BLOCKS: u64 = 64;
/// Fewest K blocks of a chain.
const SPLIT_BLOCKS: u64 = 6;

/// Chains of products that are summed on their own and then in order: more where a sample has too few tiles to occupy a
/// GPU of so many `units`. A power of two, as the blocks of a cluster share out the rows of a tile. Matrices are taken as one sample of
/// few rows, whatever their batch.
pub fn splits(product: &Product<'_>, units: u32) -> u16 {
    let [_, rows, columns, channels] = product.out.extents.map(u64::from);
    let (down, across) = ((rows * columns).div_ceil(64), channels.div_ceil(64));
    let tiles = down * across;
    // Over one tile of pixels the time is that of the weights' way from memory.
    let long = down > 1 && k_blocks(product) >= LONG_BLOCKS;
    let (most, of_unit) = if long { LONG_SPLIT_TILES } else { SPLIT_TILES };
    let most = most.min(of_unit * u64::from(units));
    let chains = if rows * columns == 1 { MAX_STREAMED } else { MAX_SPLITS };
    let mut splits = 1;
    while splits < chains && tiles * u64::from(splits) * 2 <= most && k_blocks(product) >= u64::from(splits) * 2 * SPLIT_BLOCKS {
        splits *= 2;
    }
    splits
}

/// Checks that `split_k` is a number of chains that a product has on some GPU.
pub fn chains(product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    need(split_k.is_power_of_two() && split_k <= splits(product, LARGE), Misfit::Class)
}

/// Checks that an entry of the menu computes a product whose class has `split_k` chains.
pub fn fits(entry: &WgmmaTile, product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    chains(product, split_k)?;
    let held = entry.kept().is_none_or(|kept| k_blocks(product) <= u64::from(kept.k_blocks));
    let tiles_across = product.out.extents[3].div_ceil(u32::from(entry.tile.1));
    need(tiles_across.is_multiple_of(entry.mates()), Misfit::Tile)?;
    need(entry.chains != Chains::Cluster || split_k <= MAX_SPLITS, Misfit::Tile)?;
    need(held && (split_k == 1) == (entry.chains == Chains::One), Misfit::Tile)
}

/// The menu's tactics for a product, best first by estimate: the time is that of the rounds in which a GPU of so many
/// `units` takes the tiles, each a fixed cost and its share of products.
pub fn menu(product: &Product<'_>, split_k: u16, units: u32) -> Vec<Tactic> {
    let costs = WgmmaTile::tactics().filter_map(|tactic| {
        let entry = WgmmaTile::of(tactic)?;
        fits(entry, product, split_k).ok()?;
        Some((entry.estimate(product, split_k, u64::from(units.max(1))), tactic))
    });
    cheapest_first(costs)
}

impl WgmmaTile {
    /// Relative time of a product, in cycles of a tensor core that multiplies 64 by 64 by 16 in 32; its constants are fitted
    /// to times of an H200.
    fn estimate(&self, product: &Product<'_>, split_k: u16, units: u64) -> u64 {
        /// What a launch costs, and a tile before and behind its products, for each 64 by 64 outputs.
        const START: u64 = 2000;
        const FINISH: u64 = 200;
        /// What a cluster's exchange costs.
        const EXCHANGE: u64 = 800;
        /// What two blocks that load for each other lose until both are there.
        const MEET: u64 = 2400;
        /// From asking for a K block until its stage is free again, if nothing else is asked for.
        const LATENCY: u64 = 1400;
        /// What it costs to load a K block of weights that stay, before the first tile.
        const LOAD: u64 = 256;
        /// Columns at which a product reads of shared memory as long as it multiplies.
        const NARROW: u64 = 256;
        let [samples, rows, columns, channels] = product.out.extents.map(u64::from);
        let [pixels, across] = [self.tile.0, self.tile.1].map(u64::from);
        let (side_by_side, last) = match self.chains {
            Chains::Cluster => (u64::from(split_k), EXCHANGE),
            _ => (1, FINISH * (pixels / 64) * across.div_ceil(64)),
        };
        let tiles = (samples * rows * columns).div_ceil(pixels) * channels.div_ceil(across) * side_by_side;
        // Narrow tiles are bound by what they read of shared memory.
        let wide = across.max(64);
        let block = pixels * wide * 128 * (NARROW + wide) / (64 * 64 * (NARROW - 128 + wide));
        // Blocks that share a multiprocessor share its products, and wait for their copies side by side.
        let wave = |resident: u64| match resident {
            0 => 0,
            _ => k_blocks(product).div_ceil(side_by_side) * (block * resident).max(LATENCY / u64::from(self.stages - 1)) + last,
        };
        let blocks = match self.sharing {
            // What is behind one tile's products hides behind the next one's.
            Sharing::PingPong { kept: None, pair, .. } => {
                let (block, start) = if pair { (block * 7 / 8, START + MEET) } else { (block, START) };
                let products = k_blocks(product) * block.max(LATENCY / u64::from(self.stages - 1));
                return start + tiles.div_ceil(units) * products.max(last) + last;
            }
            // Warpgroups that take tiles of their own are like blocks.
            Sharing::PingPong { warpgroups, .. } => u64::from(warpgroups),
            Sharing::Together => u64::from(self.blocks),
        };
        let (full, rest) = (tiles / (units * blocks), tiles % (units * blocks));
        let loads = self.kept().map_or(0, |_| LOAD * k_blocks(product));
        START + loads + full * wave(blocks) + wave(rest.div_ceil(units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_kernel_of_the_source() {
        let sources = [
            include_str!("../../backend/cuda/kernels/conv_wgmma.cu"),
            include_str!("../../backend/cuda/kernels/conv_wgmma_kept.cu"),
            include_str!("../../backend/cuda/kernels/conv_wgmma_pingpong.cu"),
        ];
        let mut kernels = 0;
        for entry in WgmmaTile::all() {
            let list = match entry.chains {
                Chains::One => "ONE",
                Chains::InTurn => "TURNS",
                Chains::Cluster => "CLUSTER",
            };
            let (tile, stages) = (entry.tile, entry.stages);
            let line = match entry.sharing {
                Sharing::PingPong {
                    warpgroups, kept: Some(k), ..
                } => {
                    format!(
                        "\nCONV_KEPT_{list}({}, {}, {warpgroups}, {stages}, {})\n",
                        tile.1, k.k_blocks, k.buffers
                    )
                }
                Sharing::PingPong {
                    warpgroups,
                    kept: None,
                    pair,
                } => {
                    let list = if pair { format!("PAIR_{list}") } else { list.to_string() };
                    format!("\nCONV_PINGPONG_{list}({}, {}, {warpgroups}, {stages})\n", tile.0, tile.1)
                }
                Sharing::Together => format!("\nCONV_WGMMA_{list}({}, {}, {stages}, {})\n", tile.0, tile.1, entry.blocks),
            };
            let found: usize = sources.iter().map(|s| s.matches(&line).count()).sum();
            assert_eq!(found, 1, "{line}");
            kernels += 1;
        }
        let lines = sources.iter().flat_map(|s| s.lines());
        let listed = lines.filter(|l| {
            ["CONV_WGMMA_", "CONV_KEPT_", "CONV_PINGPONG_"]
                .iter()
                .any(|name| l.starts_with(name))
        });
        assert_eq!(listed.count(), kernels);
    }

    #[test]
    fn tactics_name_entries_and_clusters_can_be_undone() {
        for (tactic, entry) in WgmmaTile::tactics().zip(WgmmaTile::all()) {
            assert_eq!(WgmmaTile::of(tactic), Some(entry));
            let wrong = Tactic {
                tile: (entry.tile.0 + 64, entry.tile.1),
                ..tactic
            };
            assert_eq!(WgmmaTile::of(wrong), None);
            assert!(entry.chains != Chains::Cluster || entry.without_cluster().is_some_and(|e| e.chains == Chains::InTurn));
            let together = |e: &WgmmaTile| e.sharing == Sharing::Together && e.chains == entry.chains;
            assert!(together(entry) || entry.together().is_some_and(together));
        }
        let retired = MENU.iter().position(Option::is_none).map(|variant| Tactic {
            kernel: Kernel::ConvWgmma,
            tile: (256, 128),
            variant: variant as u16,
        });
        assert_eq!(retired.and_then(WgmmaTile::of), None);
    }
}
