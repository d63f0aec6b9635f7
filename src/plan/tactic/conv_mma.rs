//! The tiles of the kernels that convolve with `mma.sync`, what they demand of an operator, and how K is split.

use super::Misfit;
use super::forms::{cheapest_first, computes_halves, need};
use super::pictures;
use super::product::Product;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};
use crate::tensor::DType;

/// K is padded with zeros to a multiple of this, and its ranges begin at multiples of it.
pub const K_BLOCK: u32 = 64;

/// Most taps along an axis: the kernels keep a bit for each.
const MAX_TAPS: u32 = 15;
/// Most products summed for one element that the gathering loader has a table for.
const MAX_GATHERED: u64 = 2048;
/// Halves of a piece that the loader of taps copies at once; every address is a multiple of its 16 bytes.
const PIECE: u32 = 8;
/// Most tiles of an operator whose ranges of K are summed apart: each has a counter.
const MAX_COUNTED: u64 = 16_384;

/// How pixels come into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// In pieces of 8 channels, by asynchronous copies.
    Taps,
    /// One by one through a table of K, for any number of channels.
    Gather,
    /// As `Taps`, of one tap, with the operator's prologue on the way into the tensor cores.
    Affine,
}

/// What adds up the K ranges of an operator whose class splits K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splits {
    /// A block for each range, the last of which adds; the whole of K where the class does not split it.
    Apart,
    /// One block makes all ranges in turn.
    Folded,
}

/// One kernel of `conv_mma.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmaTile {
    /// Pixels and output channels of a block's tile.
    pub tile: (u16, u16),
    /// Pixels and output channels of a warp's share.
    pub warp: (u16, u16),
    /// Depth of a step along K, 32 or 64.
    pub step: u16,
    /// Steps in shared memory at once.
    pub stages: u16,
    /// How pixels are loaded.
    pub loader: Loader,
    /// What adds the ranges of K.
    pub splits: Splits,
}

const fn taps(tile: (u16, u16), step: u16, warp: (u16, u16), stages: u16) -> MmaTile {
    MmaTile {
        tile,
        warp,
        step,
        stages,
        loader: Loader::Taps,
        splits: Splits::Apart,
    }
}

const fn folded(tile: (u16, u16), step: u16, warp: (u16, u16), stages: u16) -> MmaTile {
    MmaTile {
        splits: Splits::Folded,
        ..taps(tile, step, warp, stages)
    }
}

const fn gather(tile: (u16, u16), step: u16, warp: (u16, u16), stages: u16) -> MmaTile {
    MmaTile {
        loader: Loader::Gather,
        ..taps(tile, step, warp, stages)
    }
}

const fn affine(tile: (u16, u16), step: u16, warp: (u16, u16), stages: u16) -> MmaTile {
    MmaTile {
        loader: Loader::Affine,
        ..taps(tile, step, warp, stages)
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[MmaTile] = &[
    taps((128, 256), 32, (64, 64), 4),
    taps((128, 128), 64, (64, 64), 3),
    taps((256, 64), 32, (64, 64), 4),
    taps((128, 64), 32, (64, 64), 4),
    taps((64, 128), 64, (32, 64), 4),
    taps((64, 64), 64, (32, 32), 4),
    taps((64, 64), 64, (32, 32), 3),
    taps((32, 64), 64, (32, 32), 4),
    taps((32, 64), 64, (16, 32), 4),
    taps((32, 32), 64, (16, 16), 6),
    taps((16, 64), 64, (16, 16), 5),
    folded((64, 128), 64, (32, 64), 4),
    folded((64, 64), 64, (32, 32), 4),
    gather((64, 64), 32, (32, 32), 3),
    gather((64, 32), 32, (16, 32), 3),
    gather((128, 16), 32, (32, 16), 3),
    affine((128, 128), 32, (32, 64), 4),
    affine((64, 128), 64, (32, 64), 3),
    affine((64, 64), 64, (32, 32), 3),
    affine((32, 64), 64, (16, 32), 4),
    affine((32, 32), 64, (16, 16), 6),
    affine((16, 32), 64, (16, 16), 6),
];

impl MmaTile {
    /// The kernel's name in `conv_mma.cu`.
    pub fn function(&self) -> String {
        let MmaTile {
            tile, warp, step, stages, ..
        } = self;
        let suffix = match (self.loader, self.splits) {
            (Loader::Gather, _) => "_gather",
            (Loader::Affine, _) => "_affine",
            (_, Splits::Folded) => "_fold",
            _ => "",
        };
        format!("conv_mma_{}x{}x{step}_{}x{}_s{stages}{suffix}", tile.0, tile.1, warp.0, warp.1)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static MmaTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvMma && tactic.tile == entry.tile).then_some(entry)
    }

    /// The tactics of the whole menu.
    pub fn tactics() -> impl Iterator<Item = Tactic> {
        MENU.iter().enumerate().map(|(variant, entry)| Tactic {
            kernel: Kernel::ConvMma,
            tile: entry.tile,
            variant: variant as u16,
        })
    }
}

/// The product that an operator begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = Product::of(plan, operator)?;
    let halves = product.weights.dtype == DType::F16;
    let picture = product.x.extents[3] <= pictures::MAX_CHANNELS && product.x.strides.iter().all(|&s| s >= 0);
    let read = product.input.dtype == DType::F16 || picture && product.input.dtype == DType::F32;
    need(halves && read && computes_halves(operator), Misfit::Type)?;
    need(
        (picture || product.x.channels_last()) && product.out.channels_last(),
        Misfit::Layout,
    )?;
    let window = &product.window;
    need((0..2).all(|a| window.kernel[a] <= MAX_TAPS), Misfit::Primitive)?;
    need(product.k() > 0 && product.k() < 1 << 30, Misfit::Primitive)?;
    need(product.is_counted(), Misfit::Layout)?;
    need(product.has_pixels(), Misfit::Primitive)?;
    need(loader(&product) == Loader::Taps || product.k() <= MAX_GATHERED, Misfit::Layout)?;
    Ok(product)
}

/// What loads a product's pixels: pieces of 8 channels where the input allows it.
pub fn loader(product: &Product<'_>) -> Loader {
    let whole = product.x.extents[3].is_multiple_of(PIECE) && product.input.origin.is_multiple_of(u64::from(PIECE));
    if whole && product.x.wide() { Loader::Taps } else { Loader::Gather }
}

/// Tiles of 32 pixels by 64 channels of one sample beyond which K is not split.
const SPLIT_TILES: u64 = 64;
/// Fewest K blocks of a product that is split, and the ranges it is split into.
const SPLIT_BLOCKS: u64 = 32;
const SPLITS: u16 = 4;

/// Ranges of K that are summed on their own and then in order: several where one sample has too few tiles to occupy a GPU
/// and K is long. From the shape of a sample alone; matrices are taken as one sample of few rows.
pub fn splits(product: &Product<'_>) -> u16 {
    let [_, rows, columns, channels] = product.out.extents.map(u64::from);
    let tiles = (rows * columns).div_ceil(32) * channels.div_ceil(64);
    let long = product.k().div_ceil(u64::from(K_BLOCK)) >= SPLIT_BLOCKS;
    if loader(product) == Loader::Taps && tiles <= SPLIT_TILES && long {
        SPLITS
    } else {
        1
    }
}

/// Checks that an entry of the menu computes a product whose class has `split_k` ranges, behind a prologue or without one.
pub fn fits(entry: &MmaTile, product: &Product<'_>, split_k: u16, prologue: bool) -> Result<(), Misfit> {
    need(split_k == splits(product), Misfit::Class)?;
    let wanted = match (loader(product), prologue) {
        (Loader::Taps, true) => Loader::Affine,
        (_, true) => return Err(Misfit::Layout),
        (loader, false) => loader,
    };
    need(entry.loader == wanted, Misfit::Layout)?;
    let [samples, rows, columns, channels] = product.out.extents.map(u64::from);
    let tiles = (samples * rows * columns).div_ceil(u64::from(entry.tile.0)) * channels.div_ceil(u64::from(entry.tile.1));
    let counted = split_k > 1 && entry.splits == Splits::Apart;
    need(!counted || tiles <= MAX_COUNTED, Misfit::Tile)?;
    need(split_k > 1 || entry.splits == Splits::Apart, Misfit::Tile)
}

/// The menu's tactics for a product, best first by estimate: the time is that of the rounds in which a GPU of so many
/// `units` takes the tiles, each a fixed cost and its share of products.
pub fn menu(product: &Product<'_>, split_k: u16, prologue: bool, units: u32) -> Vec<Tactic> {
    let costs = MmaTile::tactics().filter_map(|tactic| {
        let entry = MmaTile::of(tactic)?;
        fits(entry, product, split_k, prologue).ok()?;
        Some((entry.estimate(product, split_k, u64::from(units.max(1))), tactic))
    });
    cheapest_first(costs)
}

impl MmaTile {
    /// Relative time of a product, in units of one K block of a tile of 32 by 32.
    fn estimate(&self, product: &Product<'_>, split_k: u16, units: u64) -> u64 {
        /// What a tile costs before and behind its products.
        const FIXED: u64 = 24;
        let [samples, rows, columns, channels] = product.out.extents.map(u64::from);
        let [high, wide] = [self.tile.0, self.tile.1].map(u64::from);
        let tiles = (samples * rows * columns).div_ceil(high) * channels.div_ceil(wide);
        let apart = if self.splits == Splits::Apart { u64::from(split_k) } else { 1 };
        let blocks = product.k().div_ceil(u64::from(K_BLOCK)).div_ceil(apart);
        // Blocks of the same processor hide each other's fixed cost, not each other's products.
        let warps = (high / u64::from(self.warp.0)) * (wide / u64::from(self.warp.1));
        let rounds = (tiles * apart).div_ceil(units);
        let area = high * wide / 1024;
        // Narrow warps read more of shared memory for each product.
        let reads = 64 / u64::from(self.warp.0) + 64 / u64::from(self.warp.1);
        rounds * (blocks * area * (4 + reads) + FIXED * 8 / warps.min(4)) + FIXED * 8 * apart
    }
}
