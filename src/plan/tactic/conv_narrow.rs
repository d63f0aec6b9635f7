//! The tiles of the kernel for convolutions of few channels whose taps share a patch of pixels: the class of [`conv_mma`], where that
//! does not split K.

use super::Misfit;
use super::conv_mma::{self, Loader};
use super::forms::{cheapest_first, need};
use super::product::Product;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};

/// Neighbours of a row in a tile, and rows that a warp makes of it.
pub const PIXELS: u32 = 16;
/// Rows of a tile that a warp makes.
pub const WARP_ROWS: u32 = 4;
/// Output channels that a warp makes at a time.
pub const CHANNELS: u32 = 16;
/// Channels that are copied and multiplied at once, and their bytes.
const PIECE: u32 = 8;
const PIECE_BYTES: u32 = 16;
/// Most channels of the input: with more, `conv_mma`'s steps are as full, and `wgmma`'s nearly so.
const MAX_CHANNELS: u32 = 32;
/// Bytes of shared memory that a block may have on any GPU since sm_80.
const BLOCK_BYTES: u64 = 99 << 10;

/// Warps of a block, each entry of the menu: [`PIXELS`] by [`WARP_ROWS`] pixels apiece. A tactic's `variant` is the place in it: only ever append.
pub const MENU: [u32; 4] = [8, 4, 2, 1];

/// A block's tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowTile {
    /// Warps of the block, one below the other.
    pub warps: u32,
}

/// Where things lie in a block's shared memory: weights, the table of K's pieces, two patches of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Pieces of a pixel.
    pub pieces: u32,
    /// Pieces of K, in whole steps of two.
    pub row_pieces: u32,
    /// Rows of a patch.
    pub lines: u32,
    /// Pixels of a row of a patch.
    pub pitch: u32,
    /// Bytes from pixel to pixel.
    pub pixel_bytes: u32,
    /// Bytes of a patch.
    pub patch_bytes: u32,
    /// Where the table begins, behind the weights.
    pub table: u32,
    /// Where the patches begin.
    pub patches: u32,
}

impl Patch {
    /// Bytes of a block's shared memory.
    pub fn shared(&self) -> u32 {
        self.patches + 2 * self.patch_bytes
    }
}

impl NarrowTile {
    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<NarrowTile> {
        let entry = NarrowTile {
            warps: *MENU.get(usize::from(tactic.variant))?,
        };
        (tactic.kernel == Kernel::ConvNarrow && tactic.tile == entry.tile()).then_some(entry)
    }

    /// The tactics of the whole menu.
    pub fn tactics() -> impl Iterator<Item = Tactic> {
        MENU.iter().enumerate().map(|(variant, &warps)| Tactic {
            kernel: Kernel::ConvNarrow,
            tile: NarrowTile { warps }.tile(),
            variant: variant as u16,
        })
    }

    /// Pixels and output channels of a tile.
    fn tile(self) -> (u16, u16) {
        ((self.rows() * PIXELS) as u16, CHANNELS as u16)
    }

    /// Rows of a tile.
    pub fn rows(self) -> u32 {
        self.warps * WARP_ROWS
    }

    /// Threads of a block.
    pub fn threads(self) -> u32 {
        self.warps * 32
    }

    /// What a block's shared memory holds for a product; `None` where it has no room.
    pub fn patch(self, product: &Product<'_>) -> Option<Patch> {
        let window = &product.window;
        let reach = |axis: usize, outputs: u32| -> Option<u64> {
            let steps = u64::from(outputs - 1).checked_mul(u64::from(window.stride[axis]))?;
            steps.checked_add(u64::from(window.reach(axis)?))
        };
        let pieces = u64::from(product.x.extents[3].div_ceil(PIECE));
        let row_pieces = window.taps().checked_mul(pieces)?.checked_next_multiple_of(2)?;
        let (lines, pitch) = (reach(0, self.rows())?, reach(1, PIXELS)?);
        // Of an odd number of pieces, so that neighbours lie in different banks.
        let pixel_bytes = (pieces | 1) * u64::from(PIECE_BYTES);
        let patch_bytes = lines.checked_mul(pitch)?.checked_mul(pixel_bytes)?;
        let channels = u64::from(product.out.extents[3].checked_next_multiple_of(CHANNELS)?);
        let weights = channels.checked_mul(row_pieces + 1)?.checked_mul(u64::from(PIECE_BYTES))?;
        // The table has two entries more, which are read and not used.
        let patches = weights
            .checked_add((row_pieces + 2) * 4)?
            .checked_next_multiple_of(u64::from(PIECE_BYTES))?;
        let all = patch_bytes.checked_mul(2)?.checked_add(patches)?;
        (all <= BLOCK_BYTES).then_some(Patch {
            pieces: pieces as u32,
            row_pieces: row_pieces as u32,
            lines: lines as u32,
            pitch: pitch as u32,
            pixel_bytes: pixel_bytes as u32,
            patch_bytes: patch_bytes as u32,
            table: weights as u32,
            patches: patches as u32,
        })
    }

    /// Tiles beside each other in a row, and one below the other among so many rows.
    pub fn tiles(self, rows: u32, columns: u32) -> (u32, u32) {
        (columns.div_ceil(PIXELS), rows.div_ceil(self.rows()))
    }

    /// Blocks that share a unit with so much shared memory, by that and by the registers.
    pub fn together(self, patch: &Patch, unit_bytes: u32) -> u32 {
        let warps = 16 / self.warps;
        (unit_bytes / (patch.shared() + 1024)).clamp(1, warps)
    }

    /// Relative time of a product: that of the rounds in which a large GPU takes the tiles.
    fn estimate(self, product: &Product<'_>) -> u64 {
        /// Multiprocessors of a large GPU, warps of one at work.
        const PLACES: u64 = 128 * 16;
        /// What a tile costs before and behind its products, in steps along K of one warp.
        const FIXED: u64 = 24;
        let [samples, rows, columns, channels] = product.out.extents;
        let (across, down) = self.tiles(rows, columns);
        let tiles = u64::from(samples) * u64::from(across) * u64::from(down);
        let rounds = (tiles * u64::from(self.warps)).div_ceil(PLACES);
        let turns = u64::from(channels.div_ceil(CHANNELS));
        // Rows that tiles share are copied twice.
        let shared = u64::from(8 / self.warps);
        rounds * (turns * product.k().div_ceil(16) + FIXED) + shared
    }
}

/// The product that an operator begins with, if the kernel takes it in some tile.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = conv_mma::product(plan, operator)?;
    need(!product.matrix && product.window.taps() > 1, Misfit::Primitive)?;
    need(conv_mma::loader(&product) == Loader::Taps, Misfit::Layout)?;
    need(conv_mma::splits(&product) == 1, Misfit::Class)?;
    need(product.x.extents[3] <= MAX_CHANNELS, Misfit::Tile)?;
    need(NarrowTile { warps: 1 }.patch(&product).is_some(), Misfit::Tile)?;
    Ok(product)
}

/// True for products that this kernel is made for: on GPUs with `wgmma`, whose steps along K are of 64 channels of a tap, they have the
/// class of `mma.sync` for its sake, unless [`conv_shallow`](super::conv_shallow) takes them. From the shape of a sample alone, as measured on 132 and on 16 multiprocessors
/// (boards/h200/figures.md, "Few channels of large maps").
pub fn leads(product: &Product<'_>) -> bool {
    /// Fewest pixels of a sample that keep it ahead where there are more than a piece of channels.
    const FEWEST_PIXELS: u64 = 10_000;
    /// Most products of a tap, and of one whose windows leave pixels out.
    const MOST: u32 = 768;
    const MOST_APART: u32 = 384;
    let [_, rows, columns, outputs] = product.out.extents;
    let (inputs, outputs) = (product.x.extents[3], outputs.next_multiple_of(CHANNELS));
    let many = inputs <= PIECE || u64::from(rows) * u64::from(columns) >= FEWEST_PIXELS;
    let apart = (0..2).any(|a| product.window.stride[a] > 1);
    many && outputs <= 2 * CHANNELS && inputs * outputs <= if apart { MOST_APART } else { MOST }
}

/// Checks that an entry of the menu computes a product.
pub fn fits(entry: NarrowTile, product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    need(split_k <= 1, Misfit::Class)?;
    need(entry.patch(product).is_some(), Misfit::Tile)
}

/// The menu's tactics for a product, best first by estimate.
pub fn menu(product: &Product<'_>) -> Vec<Tactic> {
    let costs = NarrowTile::tactics().filter_map(|tactic| {
        let entry = NarrowTile::of(tactic)?;
        entry.patch(product)?;
        Some((entry.estimate(product), tactic))
    });
    cheapest_first(costs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BufferId;
    use crate::plan::format::View;
    use crate::plan::tactic::product::Pixels;
    use crate::primitive::Window;
    use crate::tensor::{DType, Layout, Shape};

    /// A convolution of so many channels; what it reads and writes matters by its extents alone.
    fn with_product<T>([x, out]: [[u32; 4]; 2], window: Window, check: impl Fn(&Product<'_>) -> T) -> T {
        let pixels = |extents| Pixels { extents, strides: [0; 4] };
        let view = View {
            buffer: BufferId(0),
            origin: 0,
            dtype: DType::F16,
            layout: Layout::contiguous(Shape::new(&[1]).unwrap()),
        };
        check(&Product {
            input: &view,
            x: pixels(x),
            output: &view,
            out: pixels(out),
            weights: &view,
            bias: None,
            window,
            matrix: false,
        })
    }

    #[test]
    fn few_channels_of_large_maps_lead() {
        let leads = |inputs, outputs, side, stride| {
            let mut window = Window::new(&[3, 3]);
            window.stride[..2].fill(stride);
            with_product([[1, side * stride, side * stride, inputs], [1, side, side, outputs]], window, leads)
        };
        for (inputs, outputs) in [(8, 32), (16, 16), (16, 19), (24, 32), (32, 16)] {
            assert!(leads(inputs, outputs, 112, 1), "{inputs} to {outputs}");
            assert_eq!(leads(inputs, outputs, 64, 1), inputs == 8, "{inputs} to {outputs} of few pixels");
        }
        assert!(leads(24, 16, 112, 2) && !leads(16, 32, 112, 2));
        assert!(!leads(32, 32, 512, 1) && !leads(8, 64, 512, 1));
    }

    #[test]
    fn patches_hold_what_a_tile_reads_and_have_room() {
        let mut window = Window::new(&[3, 5]);
        (window.stride[0], window.dilation[1]) = (2, 3);
        with_product([[1, 99, 99, 24], [1, 50, 99, 20]], window, |product| {
            let patch = NarrowTile { warps: 2 }.patch(product).unwrap();
            assert_eq!((patch.lines, patch.pitch), (7 * 2 + 2 + 1, 15 + 4 * 3 + 1));
            assert_eq!((patch.pieces, patch.row_pieces, patch.pixel_bytes), (3, 46, 48));
            assert_eq!(patch.table, 32 * 47 * 16);
            assert_eq!(patch.patches % 16, 0);
            assert!(patch.patches >= patch.table + 4 * (46 + 2));
            assert!(u64::from(patch.shared()) <= BLOCK_BYTES);
            assert!(NarrowTile { warps: 8 }.patch(product).is_none(), "no room");
        });
        window.dilation[0] = u32::MAX;
        with_product([[1, 99, 99, 24], [1, 50, 99, 20]], window, |product| {
            assert_eq!(NarrowTile { warps: 1 }.patch(product), None);
        });
    }

    #[test]
    fn tactics_name_their_entries() {
        for (tactic, warps) in NarrowTile::tactics().zip(MENU) {
            assert_eq!(NarrowTile::of(tactic), Some(NarrowTile { warps }));
            assert_eq!(u32::from(tactic.tile.0), warps * WARP_ROWS * PIXELS);
            assert_eq!(NarrowTile::of(Tactic { tile: (8, 8), ..tactic }), None);
        }
    }
}
