//! The tactics of [`Kernel::ConvWgmma`], what it takes, and what fixes the bits of its operators.

use super::Misfit;
use super::forms::need;
use crate::plan::format::{Kernel, Operand, Operator, Plan, Space, Tactic, View};
use crate::primitive::{Primitive, Window};
use crate::tensor::DType;

/// Input channels of a K block: every tap's channels are filled up with zeros to a multiple of it.
pub const BLOCK_K: u32 = 64;

/// One instantiation of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WgmmaShape {
    /// Pixels of a tile, 64 for each warpgroup.
    pub pixels: u16,
    /// Channels of a tile.
    pub channels: u16,
    /// K blocks in flight.
    pub stages: u16,
    /// Blocks that share an SM.
    pub blocks: u16,
}

const fn shape(pixels: u16, channels: u16, stages: u16, blocks: u16) -> WgmmaShape {
    WgmmaShape {
        pixels,
        channels,
        stages,
        blocks,
    }
}

/// All instantiations.
pub const SHAPES: [WgmmaShape; 11] = [
    shape(128, 128, 5, 1),
    shape(128, 128, 3, 2),
    shape(128, 256, 4, 1),
    shape(128, 64, 6, 1),
    shape(128, 64, 4, 2),
    shape(64, 128, 6, 1),
    shape(64, 128, 4, 2),
    shape(64, 64, 8, 1),
    shape(64, 64, 4, 3),
    shape(64, 32, 8, 1),
    shape(64, 32, 4, 3),
];

/// Bit of a variant: the chains of a tile are summed side by side by the blocks of a cluster.
const CLUSTER: u16 = 1 << 15;

impl WgmmaShape {
    /// True if one block can sum several chains one after another: it keeps two sets of sums in registers.
    pub const fn chains(self) -> bool {
        self.channels * if self.pixels == 64 { 1 } else { self.blocks } <= 128
    }

    /// The tactic that runs the shape, by clusters or by single blocks.
    pub const fn tactic(self, cluster: bool) -> Tactic {
        Tactic {
            kernel: Kernel::ConvWgmma,
            tile: (self.pixels, self.channels),
            variant: self.stages | self.blocks << 8 | if cluster { CLUSTER } else { 0 },
        }
    }

    /// The shape of a tactic, and whether it runs by clusters; `None` if it is not on the menu.
    pub fn of(tactic: Tactic) -> Option<(WgmmaShape, bool)> {
        let cluster = tactic.variant & CLUSTER != 0;
        let shape = SHAPES.into_iter().find(|s| s.tactic(cluster) == tactic)?;
        Some((shape, cluster))
    }
}

/// Every tactic of the kernel.
pub fn tactics() -> impl Iterator<Item = Tactic> {
    SHAPES.into_iter().flat_map(|s| [s.tactic(false), s.tactic(true)])
}

/// A convolution, or a matrix product with constant weights, as the kernel sees both: pixels times channels.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// The input, f16.
    pub x: &'a View,
    /// The weights, f16, in a weight file.
    pub weights: &'a View,
    /// The bias, in a weight file.
    pub bias: Option<&'a View>,
    /// The window; one tap for a matrix product.
    pub window: Window,
    /// Input channels, a multiple of 8.
    pub inputs: u32,
    /// Output channels.
    pub outputs: u32,
    /// Input images, rows and columns. The rows of a matrix are the columns of an image of one row.
    pub input_grid: [u32; 3],
    /// Output images, rows and columns.
    pub output_grid: [u32; 3],
    /// Strides of the input's images, rows and columns, in elements.
    pub input_strides: [i64; 3],
}

/// Most bytes that a tap may lie from a base pixel, in elements of an axis: what an im2col copy can express.
const MAX_REACH: u32 = 255;
/// Corners of an im2col map's box.
const CORNERS: std::ops::RangeInclusive<i64> = -128..=127;
/// Largest stride of an im2col map.
const MAX_STRIDE: u32 = 8;
/// Elements in 16 bytes, of which the copy engine's addresses are multiples.
const ALIGNED: i64 = 8;

impl<'a> Product<'a> {
    /// The product that an operator begins with, if the kernel takes it.
    pub fn of(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
        let first = operator.calls.first().ok_or(Misfit::Primitive)?;
        let view = |i: usize| match first.inputs.get(i) {
            Some(Operand::View(v)) => Ok(v),
            _ => Err(Misfit::Primitive),
        };
        let (x, weights) = (view(0)?, view(1)?);
        let bias = (first.inputs.len() > 2).then(|| view(2)).transpose()?;
        let constant = |v: &View| {
            let buffer = plan.buffers.get(v.buffer.index());
            buffer.is_some_and(|b| matches!(b.space, Space::Weights(_)))
        };
        need(constant(weights) && bias.is_none_or(constant), Misfit::Weights)?;
        need(
            x.dtype == DType::F16 && weights.dtype == DType::F16 && first.dtype == DType::F16,
            Misfit::Type,
        )?;
        let product = match first.primitive {
            Primitive::Conv { window, groups: 1 } if window.axes == 2 => Product::convolution(x, weights, bias, window, first.shape.dims()),
            Primitive::MatMul => Product::matrices(x, weights, bias, first.shape.dims()),
            _ => None,
        };
        let product = product.ok_or(Misfit::Primitive)?;
        product.copies()?;
        Ok(product)
    }

    fn convolution(x: &'a View, weights: &'a View, bias: Option<&'a View>, window: Window, output: &[u32]) -> Option<Product<'a>> {
        let (&[images, inputs, rows, columns], &[_, outputs, out_rows, out_columns]) = (x.layout.shape.dims(), output) else {
            return None;
        };
        (x.layout.shape.dim(1) <= 1 || x.layout.stride(1) == 1).then_some(())?;
        Some(Product {
            x,
            weights,
            bias,
            window,
            inputs,
            outputs,
            input_grid: [images, rows, columns],
            output_grid: [images, out_rows, out_columns],
            input_strides: [x.layout.stride(0), x.layout.stride(2), x.layout.stride(3)],
        })
    }

    /// `[M, K]` and `[B, M, K]` times the same weights for all of the batch.
    fn matrices(x: &'a View, weights: &'a View, bias: Option<&'a View>, output: &[u32]) -> Option<Product<'a>> {
        let rank = output.len();
        let (images, image_stride) = match rank {
            2 => (1, 0),
            3 => (output[0], x.layout.stride(0)),
            _ => return None,
        };
        let repeated = |v: &View, axis: usize| v.layout.shape.dim(axis) <= 1 || v.layout.stride(axis) == 0;
        let same = (0..rank - 2).all(|a| repeated(weights, a)) && bias.is_none_or(|b| (0..rank - 1).all(|a| repeated(b, a)));
        (same && x.layout.stride(rank - 1) == 1).then_some(())?;
        let [rows, outputs] = [output[rank - 2], output[rank - 1]];
        Some(Product {
            x,
            weights,
            bias,
            window: Window::new(&[1, 1]),
            inputs: x.layout.shape.dim(rank - 1),
            outputs,
            input_grid: [images, 1, rows],
            output_grid: [images, 1, rows],
            input_strides: [image_stride, 0, x.layout.stride(rank - 2)],
        })
    }

    /// What the copy engine demands of the input and of the window.
    fn copies(&self) -> Result<(), Misfit> {
        let aligned = |stride: i64| stride >= 0 && stride % ALIGNED == 0;
        let carried = self.input_grid.iter().zip(self.input_strides).all(|(&n, s)| n <= 1 || (s > 0 && aligned(s)));
        need(
            i64::from(self.inputs) % ALIGNED == 0 && self.inputs > 0 && self.x.origin % ALIGNED as u64 == 0 && carried,
            Misfit::Layout,
        )?;
        let reach = |a: usize| self.window.reach(a).is_some_and(|r| r - 1 <= MAX_REACH);
        let corners = |a: usize| {
            let [lower, upper] = self.corners(a);
            CORNERS.contains(&lower) && CORNERS.contains(&upper)
        };
        need(
            (0..2).all(|a| reach(a) && corners(a) && self.window.stride[a] <= MAX_STRIDE),
            Misfit::Primitive,
        )?;
        let pixels = self.output_grid.iter().try_fold(1u32, |all, &n| all.checked_mul(n));
        need(pixels.is_some_and(|n| (1..=i32::MAX as u32).contains(&n)), Misfit::Primitive)
    }

    /// First and last base pixel along rows (0) or columns (1): the last relative to the input's last position.
    pub fn corners(&self, axis: usize) -> [i64; 2] {
        let [pad, stride] = [self.window.pad_begin[axis], self.window.stride[axis]].map(i64::from);
        let [extent, outputs] = [self.input_grid[axis + 1], self.output_grid[axis + 1]].map(i64::from);
        [-pad, (outputs - 1) * stride - pad - (extent - 1)]
    }

    /// K blocks of one tap.
    pub fn channel_blocks(&self) -> u32 {
        self.inputs.div_ceil(BLOCK_K)
    }

    /// K blocks in all.
    pub fn k_blocks(&self) -> u32 {
        (self.window.taps() as u32).saturating_mul(self.channel_blocks())
    }

    /// Chains of products that are summed on their own and then in order: more where a sample has too few tiles to occupy
    /// a large GPU, a power of two because a cluster shares out a tile's rows.
    pub fn splits(&self) -> u16 {
        let pixels = self.output_grid[1] * self.output_grid[2];
        let tiles = pixels.div_ceil(64) * self.outputs.div_ceil(64);
        let mut splits = 1;
        while splits < MAX_SPLITS && tiles * u32::from(splits) * 2 <= SPLIT_TILES && self.k_blocks() >= u32::from(splits) * 2 * SPLIT_BLOCKS {
            splits *= 2;
        }
        splits
    }
}

/// Most chains: the blocks of the largest portable cluster.
const MAX_SPLITS: u16 = 8;
/// Tiles of 64 by 64, counted once for each chain, beyond which nothing is split.
const SPLIT_TILES: u32 = 160;
/// Fewest K blocks of a chain.
const SPLIT_BLOCKS: u32 = 4;

/// Checks that a tactic of the kernel runs an operator split in `splits` chains.
pub fn fits(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    let (shape, cluster) = WgmmaShape::of(tactic).ok_or(Misfit::Tile)?;
    let product = Product::of(plan, operator)?;
    let splits = operator.class.split_k;
    need(splits == product.splits(), Misfit::Class)?;
    need((splits == 1 && !cluster) || (splits > 1 && shape.chains()), Misfit::Tile)
}
