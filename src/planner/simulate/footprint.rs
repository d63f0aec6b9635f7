//! How a tactic lies on the board: into how many tiles an operator falls, how many blocks a launch of it has, and what part of
//! a unit each of them takes.
//!
//! Counted from the tactic's tile and the output's shape, the way the kernels cut their work. On the CPU backend a block is
//! a worker's turn on an operator.

use super::extents::{depth, matrix, shape, window};
use super::room::{Room, WHOLE_UNIT, of_kernel};
use crate::board::{BackendKind, BoardRecord};
use crate::plan::format::{Family, Kernel, Operator};
use crate::plan::tactic::conv_3x3::COLUMNS;
use crate::plan::tactic::conv_chains;
use crate::plan::tactic::conv_grouped::{self, GroupedTile};
use crate::plan::tactic::conv_patch::PatchTile;
use crate::plan::tactic::conv_shallow::ShallowTile;
use crate::plan::tactic::conv_slender::{self, SlenderTile};
use crate::plan::tactic::conv_warps::WarpsTile;
use crate::plan::tactic::conv_wgmma::{Chains, WgmmaTile};
use crate::plan::tactic::depthwise_few::{self, Patch};
use crate::plan::tactic::depthwise_strip::{Strip, Way, form};
use crate::plan::tactic::group_normalise::Slabs;
use crate::plan::tactic::pair;
use crate::plan::tactic::recurrent;
use crate::plan::tactic::squeeze;
use crate::plan::tactic::stem::{BLOCK_CHANNELS, StemTile};
use crate::primitive::{Primitive, Region};

/// Elements that a thread of a plain kernel works on.
const THREAD_ELEMENTS: u64 = 8;
/// Threads of a block of plain kernels that go pixel by pixel, and of elementwise ones.
const PIXEL_THREADS: u64 = 128;
const ELEMENT_THREADS: u64 = 256;
/// Blocks up to which a depthwise convolution has one output a thread; beyond it two.
const MANY: u64 = 264;
/// Means that a block of a reduction computes.
const MEANS: u64 = 64;
/// The most elements of the rows of which a block normalises so many; of longer ones one.
const NORMALISED: [(u64, u64); 3] = [(64, 16), (128, 8), (1024, 4)];
/// Turns that the CPU backend's workers have on an operator, a worker: how finely streams share them.
const TURNS: u32 = 4;

/// How an operator lies on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    cut: Tiles,
    /// Blocks that a launch has at most: kernels whose blocks stay for several tiles.
    pub most: u32,
    /// What a block takes of a unit.
    pub room: Room,
    /// Whether a launch width has an effect.
    pub resizable: bool,
    /// Blocks that belong together: the ranges of channels of a launch that keeps a block's weights, whose blocks are a multiple
    /// of this at any width.
    pub step: u32,
    /// Blocks of a cluster, which find room together or not at all; 1 of kernels without clusters.
    pub cluster: u32,
    /// How many times as much of a unit's throughput as others want blocks that fill it, in percent: those that move more than
    /// they compute hold each other up.
    pub crowding: u32,
    /// Bytes of weights that a block loads before its first tile.
    pub loaded: u64,
}

/// What blocks that fill a unit want of its throughput, in percent of those that compute more than they move: kernels that move
/// values, that interpolate between them, and that look at several for each. Measured on an H200 at launch widths of an eighth and
/// half of its units.
const MOVING: u32 = 220;
const BLENDING: u32 = 300;
const LOOKING: u32 = 150;

/// What a tile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tiles {
    /// So many pixels and channels, some blocks a tile.
    Product { pixels: u64, channels: u64, each: u64 },
    /// Rows and columns of a sample, and channels; the output is so many times smaller along either axis than what is tiled.
    Patches { rows: u64, channels: u64, pool: u64 },
    /// Rows, pixels of them, and channels.
    Segments { rows: u64, pixels: u64, channels: u64 },
    /// So many elements.
    Elements(u64),
    /// Twice as many elements where there would be many tiles.
    Slabs(u64),
    /// The same number whatever the share.
    Fixed(u32),
    /// Samples, so many blocks for so many.
    Samples { samples: u32, blocks: u32 },
    /// Rows, so many blocks for so many.
    Rows { rows: u32, blocks: u32 },
    /// Runs along a row and rows, of so many lots of channels of a sample: a thread's.
    Strips { run: u64, depth: u64, lots: u64 },
}

impl Footprint {
    /// The footprint of an operator under its tactic.
    pub fn of(operator: &Operator, board: &BoardRecord) -> Footprint {
        if board.backend == BackendKind::Cpu {
            let elements = shape(operator).elements();
            let turns = u64::from(TURNS * board.units.max(1));
            return Footprint {
                cut: Tiles::Elements(elements.div_ceil(turns).max(1)),
                most: u32::MAX,
                room: WHOLE_UNIT,
                resizable: true,
                step: 1,
                cluster: 1,
                crowding: 100,
                loaded: 0,
            };
        }
        let tactic = operator.tactic;
        let (pixels, channels) = (u64::from(tactic.tile.0.max(1)), u64::from(tactic.tile.1.max(1)));
        let product = |each: u16| Tiles::Product {
            pixels,
            channels,
            each: u64::from(each.max(1)),
        };
        let pooled = operator.calls.iter().any(|c| matches!(c.primitive, Primitive::Pool { .. }));
        let patches = |rows: u64| Tiles::Patches {
            rows,
            channels,
            pool: if pooled { 2 } else { 1 },
        };
        // Ranges of channels of a launch.
        let ranges = || u32::try_from(matrix(operator, shape(operator)).1.div_ceil(channels)).unwrap_or(u32::MAX);
        let mut most = u32::MAX;
        let mut resizable = true;
        let (mut step, mut cluster) = (1, 1);
        let cut = match tactic.kernel {
            Kernel::ConvWgmma => {
                let entry = WgmmaTile::of(tactic);
                let clustered = entry.is_some_and(|e| e.chains == Chains::Cluster);
                resizable = !clustered;
                if clustered {
                    cluster = u32::from(operator.class.split_k.max(1));
                } else {
                    most = board.units.max(1).saturating_mul(entry.map_or(1, |e| u32::from(e.blocks)));
                }
                if let Some(mates @ 2..) = entry.map(WgmmaTile::mates) {
                    (step, cluster) = (mates, mates);
                    most = board.units / mates * mates;
                }
                if entry.is_some_and(|e| e.kept().is_some()) {
                    step = ranges();
                    most = (board.units / step * step).max(1);
                }
                product(if clustered { operator.class.split_k } else { 1 })
            }
            Kernel::StreamWgmma => {
                resizable = false;
                cluster = u32::from(operator.class.split_k.max(1));
                product(operator.class.split_k)
            }
            Kernel::ConvMma => product(operator.class.split_k),
            Kernel::ConvDirect | Kernel::ConvFma | Kernel::ConvNarrow | Kernel::ConvParts => product(1),
            Kernel::PairMma => product(operator.class.split_k.div_ceil(pair::STRANDS)),
            Kernel::ConvAffine | Kernel::PrologueWgmma => {
                step = ranges();
                most = (board.units / step * step).max(1);
                product(1)
            }
            // Tiles are counted in pixels of the input, of which each makes a window's.
            Kernel::ConvSpread => {
                let places = window(operator).map_or(1, |w| w.taps());
                Tiles::Product {
                    pixels: pixels * places,
                    channels,
                    each: 1,
                }
            }
            Kernel::ConvPooled => {
                most = board.units.max(1);
                // Of maxima there are a fourth as many as results.
                Tiles::Product {
                    pixels: pixels / 4,
                    channels,
                    each: 1,
                }
            }
            Kernel::ConvTaps | Kernel::ConvLarge => {
                most = board.units.max(1);
                product(1)
            }
            Kernel::ConvPatch => {
                most = board.units.max(1);
                match PatchTile::of(tactic) {
                    Some(entry) if entry.is_wide() => product(1),
                    entry => patches(entry.map_or(1, |e| u64::from(e.rows))),
                }
            }
            Kernel::ConvShallow => {
                most = board.units.max(1);
                patches(ShallowTile::of(tactic).map_or(1, |e| u64::from(e.rows)))
            }
            Kernel::ConvSlender => {
                let together = SlenderTile::of(tactic).map_or(1, |e| e.together);
                most = board.units.max(1).saturating_mul(together);
                patches(u64::from(conv_slender::ROWS))
            }
            Kernel::ConvChains => {
                most = board.units.max(1);
                patches(u64::from(conv_chains::ROWS))
            }
            Kernel::ConvGrouped => {
                let together = GroupedTile::of(tactic).map_or(1, |e| e.together);
                most = board.units.max(1).saturating_mul(together);
                patches(u64::from(conv_grouped::SIDE))
            }
            Kernel::ConvWarps => Tiles::Product {
                pixels: pixels * WarpsTile::of(tactic).map_or(1, |e| u64::from(e.turns)),
                channels,
                each: 1,
            },
            Kernel::Stem => {
                let entry = StemTile::of(tactic);
                most = entry.map_or(u32::MAX, |e| u32::from(e.blocks));
                let band = entry.and_then(|e| e.band);
                Tiles::Segments {
                    rows: band.map_or(1, |b| u64::from(b.rows)),
                    pixels: entry.map_or(1, |e| u64::from(e.pixels)),
                    channels: band.map_or(u64::from(BLOCK_CHANNELS), |_| u64::MAX),
                }
            }
            Kernel::ConvDepthwise => match Strip::of(tactic) {
                Some(strip) if strip.way == Way::Patch => {
                    let taps = window(operator).map_or(1, |w| w.kernel[0]);
                    Tiles::Segments {
                        rows: strip.depth.into(),
                        pixels: Patch::of(strip, taps, shape(operator).dim(3)).width(strip).into(),
                        channels: depthwise_few::LOT.into(),
                    }
                }
                Some(strip) => {
                    let each = u64::from(strip.channels(window(operator).and_then(form).map_or(1, |(taps, _)| taps)));
                    Tiles::Strips {
                        run: strip.run.into(),
                        depth: strip.depth.into(),
                        lots: u64::from(shape(operator).dim(1)).div_ceil(each),
                    }
                }
                None => Tiles::Slabs(PIXEL_THREADS * THREAD_ELEMENTS),
            },
            Kernel::Recurrent if operator.class.family == Family::TensorCore => {
                resizable = false;
                let (rows, blocks) = recurrent::carried(tactic, shape(operator).dim(2));
                cluster = blocks;
                Tiles::Rows { rows, blocks }
            }
            Kernel::Squeeze => {
                let channels = shape(operator).dim(1);
                let samples = squeeze::span(tactic, channels).unwrap_or(1);
                Tiles::Elements(u64::from(samples) * u64::from(squeeze::range(channels)))
            }
            Kernel::Attention => {
                let all = shape(operator);
                Tiles::Elements((all.elements() / u64::from(all.batch().max(1)) / u64::from(all.dim(1).max(1))).max(1))
            }
            Kernel::AttentionMma | Kernel::AttentionWgmma => {
                let all = shape(operator);
                Tiles::Elements((pixels * u64::from(all.dim(all.rank().saturating_sub(1)))).max(1))
            }
            Kernel::Normalise => {
                let all = shape(operator);
                let extent = u64::from(all.dim(all.rank().saturating_sub(1)).max(1));
                let rows = NORMALISED.iter().find(|&&(most, _)| extent <= most);
                Tiles::Elements(rows.map_or(1, |&(_, rows)| rows) * extent)
            }
            Kernel::GroupNormalise => {
                let groups = match operator.calls.first().map(|c| c.primitive) {
                    Some(Primitive::GroupNormalise { groups, .. }) => groups.max(1),
                    _ => 1,
                };
                let all = shape(operator);
                let samples = u64::from(all.batch().max(1)) * u64::from(all.dim(1).max(1));
                let pixels = u32::try_from(all.elements() / samples).unwrap_or(u32::MAX);
                let slabs = Slabs::of(all.dim(1).max(groups), pixels, groups);
                Tiles::Samples {
                    samples: 1,
                    blocks: slabs.count * if slabs.spreads() { slabs.spread } else { 1 },
                }
            }
            Kernel::Reduce => Tiles::Elements(MEANS),
            Kernel::Decode => {
                resizable = false;
                Tiles::Fixed(1)
            }
            Kernel::Elementwise | Kernel::Copy => Tiles::Elements(ELEMENT_THREADS * THREAD_ELEMENTS),
            _ => Tiles::Elements(PIXEL_THREADS * THREAD_ELEMENTS),
        };
        Footprint {
            cut,
            most,
            room: of_kernel(operator, &board.architecture),
            resizable,
            step,
            cluster,
            crowding: match tactic.kernel {
                Kernel::Elementwise | Kernel::Copy => MOVING,
                Kernel::Resize => BLENDING,
                Kernel::Pool | Kernel::Generic => LOOKING,
                _ => 100,
            },
            loaded: match tactic.kernel {
                Kernel::ConvAffine | Kernel::PrologueWgmma => 2 * channels * u64::from(depth(operator).map_or(0, |(k, _)| k)),
                _ => 0,
            },
        }
    }

    /// Tiles of a share of the operator's output, at least 1.
    pub fn tiles(&self, operator: &Operator, region: &Region) -> u32 {
        let shape = shape(operator);
        let area = |r: &Region| u64::from(r.batch.end.saturating_sub(r.batch.start)) * u64::from(r.rows.end.saturating_sub(r.rows.start));
        let (whole, part) = (area(&Region::whole(shape)).max(1), area(region));
        let share = |n: u64| n.saturating_mul(part).div_ceil(whole);
        let samples = u64::from(region.batch.end.saturating_sub(region.batch.start));
        let height = u64::from(region.rows.end.saturating_sub(region.rows.start));
        let axis = |axis: usize| u64::from(if axis < shape.rank() { shape.dim(axis) } else { 1 }).max(1);
        let tiles = match self.cut {
            Tiles::Product { pixels, channels, each } => {
                let (all_pixels, all_channels) = matrix(operator, shape);
                share(all_pixels)
                    .div_ceil(pixels)
                    .saturating_mul(all_channels.div_ceil(channels))
                    .saturating_mul(each)
            }
            Tiles::Patches { rows, channels, pool } => {
                let down = height.div_ceil((rows / pool).max(1));
                let across = axis(3).div_ceil(u64::from(COLUMNS) / pool);
                samples * down * across * axis(1).div_ceil(channels)
            }
            Tiles::Segments { rows, pixels, channels } => {
                samples * height.div_ceil(rows) * axis(3).div_ceil(pixels) * axis(1).div_ceil(channels)
            }
            Tiles::Elements(elements) => share(shape.elements()).div_ceil(elements),
            Tiles::Slabs(elements) => match share(shape.elements()).div_ceil(elements) {
                few if few <= MANY => few,
                many => many.div_ceil(2),
            },
            Tiles::Fixed(tiles) => u64::from(tiles),
            Tiles::Strips { run, depth, lots } => {
                let threads = samples * height.div_ceil(depth) * axis(3).div_ceil(run) * lots;
                threads.div_ceil(PIXEL_THREADS)
            }
            Tiles::Rows { rows, blocks } => height.div_ceil(u64::from(rows)).saturating_mul(u64::from(blocks)),
            Tiles::Samples { samples: each, blocks } => samples.div_ceil(u64::from(each)).saturating_mul(u64::from(blocks)),
        };
        tiles.clamp(1, u64::from(u32::MAX)) as u32
    }
}
