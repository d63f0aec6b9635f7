//! How a tactic lies on the board: into how many thread blocks an operator falls, and how many of them share a unit.
//!
//! Counted from the tactic's tile and the output's shape, the way the kernels cut their work. On the CPU backend a block is
//! a worker's turn on an operator.

use crate::board::{BackendKind, BoardRecord};
use crate::plan::format::{Family, Kernel, Operator};
use crate::plan::tactic::conv_mma::MmaTile;
use crate::plan::tactic::conv_wgmma::{Chains, WgmmaTile};
use crate::primitive::{Primitive, Region};
use crate::tensor::Shape;

/// Elements of the output that a block of a kernel without tiles works on, about: 256 threads, 8 elements each.
const BLOCK_ELEMENTS: u64 = 2048;
/// Blocks of such a kernel that share an SM.
const PLAIN_RESIDENTS: u32 = 8;
/// Shared memory of an SM that rings of stages may take, in bytes.
const SHARED_BYTES: u64 = 200 << 10;
/// Most blocks of a kernel on tensor cores that share an SM: registers allow no more.
const PRODUCT_RESIDENTS: u64 = 4;
/// Turns that the CPU backend's workers have on an operator, a worker: how finely streams share them.
const TURNS: u32 = 4;
/// Rows of the batch that one cluster of a recurrent layer carries, and blocks of the cluster.
const RECURRENT: (u32, u32) = (16, 8);

/// How an operator lies on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    cut: Blocks,
    /// Blocks that a unit holds at once, at least 1.
    pub residents: u32,
    /// Whether a launch width has an effect.
    pub resizable: bool,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocks {
    /// A tile of pixels and channels, some blocks a tile.
    Tiles { pixels: u64, channels: u64, each: u64 },
    /// So many elements.
    Elements(u64),
    /// The same number whatever the share.
    Fixed(u32),
    /// Samples, so many blocks for so many.
    Samples { samples: u32, blocks: u32 },
}

impl Footprint {
    /// The footprint of an operator under its tactic.
    pub fn of(operator: &Operator, board: &BoardRecord) -> Footprint {
        if board.backend == BackendKind::Cpu {
            let elements = shape(operator).elements();
            let turns = u64::from(TURNS * board.units.max(1));
            return Footprint {
                cut: Blocks::Elements(elements.div_ceil(turns).max(1)),
                residents: 1,
                resizable: true,
            };
        }
        let tactic = operator.tactic;
        let tiles = |each: u16| Blocks::Tiles {
            pixels: u64::from(tactic.tile.0.max(1)),
            channels: u64::from(tactic.tile.1.max(1)),
            each: u64::from(each.max(1)),
        };
        let (cut, residents, resizable) = match tactic.kernel {
            Kernel::ConvWgmma => {
                let entry = WgmmaTile::of(tactic);
                let clustered = entry.is_some_and(|e| e.chains == Chains::Cluster);
                let each = if clustered { operator.class.split_k } else { 1 };
                (tiles(each), entry.map_or(1, |e| u32::from(e.blocks)), !clustered)
            }
            Kernel::StreamWgmma => (tiles(operator.class.split_k), 2, false),
            Kernel::ConvMma => {
                let ring = MmaTile::of(tactic).map_or(SHARED_BYTES, |e| {
                    u64::from(e.tile.0 + e.tile.1) * u64::from(e.step) * 2 * u64::from(e.stages)
                });
                let residents = (SHARED_BYTES / ring.max(1)).clamp(1, PRODUCT_RESIDENTS);
                (tiles(operator.class.split_k), residents as u32, true)
            }
            Kernel::Recurrent if operator.class.family == Family::TensorCore => {
                let (samples, blocks) = RECURRENT;
                (Blocks::Samples { samples, blocks }, 1, false)
            }
            Kernel::Squeeze => (Blocks::Samples { samples: 1, blocks: 8 }, 2, false),
            Kernel::Decode => (Blocks::Fixed(1), 1, false),
            _ => (Blocks::Elements(BLOCK_ELEMENTS), PLAIN_RESIDENTS, true),
        };
        Footprint { cut, residents, resizable }
    }

    /// Blocks of a share of the operator's output, at least 1.
    pub fn blocks(&self, operator: &Operator, region: &Region) -> u32 {
        let shape = shape(operator);
        let area = |r: &Region| u64::from(r.batch.end.saturating_sub(r.batch.start)) * u64::from(r.rows.end.saturating_sub(r.rows.start));
        let (whole, part) = (area(&Region::whole(shape)).max(1), area(region));
        let share = |n: u64| n.saturating_mul(part).div_ceil(whole);
        let blocks = match self.cut {
            Blocks::Tiles { pixels, channels, each } => {
                let (all_pixels, all_channels) = product(operator, shape);
                share(all_pixels)
                    .div_ceil(pixels)
                    .saturating_mul(all_channels.div_ceil(channels))
                    .saturating_mul(each)
            }
            Blocks::Elements(elements) => share(shape.elements()).div_ceil(elements),
            Blocks::Fixed(blocks) => u64::from(blocks),
            Blocks::Samples { samples, blocks } => {
                let batch = u64::from(region.batch.end.saturating_sub(region.batch.start));
                batch.div_ceil(u64::from(samples)).saturating_mul(u64::from(blocks))
            }
        };
        blocks.clamp(1, u64::from(u32::MAX)) as u32
    }
}

/// Shape of the first output.
pub fn shape(operator: &Operator) -> Shape {
    operator.outputs.first().map_or(Shape::SCALAR, |v| v.layout.shape)
}

/// Pixels and channels of a product's output: rows and columns of a matrix product.
fn product(operator: &Operator, shape: Shape) -> (u64, u64) {
    let matrix = operator.calls.iter().any(|c| c.primitive == Primitive::MatMul);
    let channels = u64::from(shape.dim(if matrix { shape.rank().saturating_sub(1) } else { 1 })).max(1);
    (shape.elements() / channels, channels)
}
