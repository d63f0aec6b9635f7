//! What part of a unit a block takes: shared memory and registers, as the kernels' sources and compiler say.
//!
//! A unit of a GPU of compute capability 9.0 has 228 KB of shared memory, of which a block has 1 KB for the system, 65,536
//! registers and 2,048 threads; others have less shared memory (CUDA C++ Programming Guide, table of technical specifications). Kernels
//! that fill a unit with one block keep all others with shared memory out of it, which is most of what streams feel of each other.

use super::extents::{depth, shape, window};
use super::machine::GRAIN;
use crate::plan::format::{Kernel, Operator};
use crate::plan::tactic::attention::{self, Team};
use crate::plan::tactic::conv_chains::{self, ChainsTile};
use crate::plan::tactic::conv_direct::DirectTile;
use crate::plan::tactic::conv_fma::FmaTile;
use crate::plan::tactic::conv_grouped::{self, GroupedTile};
use crate::plan::tactic::conv_large::LargeTile;
use crate::plan::tactic::conv_mma::MmaTile;
use crate::plan::tactic::conv_narrow::NarrowTile;
use crate::plan::tactic::conv_parts::PartTile;
use crate::plan::tactic::conv_patch::PatchTile;
use crate::plan::tactic::conv_pooled;
use crate::plan::tactic::conv_slender::SlenderTile;
use crate::plan::tactic::conv_spread;
use crate::plan::tactic::conv_warps::{self, Share, WarpsTile};
use crate::plan::tactic::conv_wgmma::{BLOCK_K, WgmmaTile};
use crate::plan::tactic::depthwise_few::Patch;
use crate::plan::tactic::depthwise_strip::{Strip, Way, form};
use crate::plan::tactic::prologue_wgmma::PrologueTile;
use crate::plan::tactic::recurrent;
use crate::plan::tactic::stem::StemTile;
use crate::plan::tactic::stream_wgmma::StreamTile;

/// Bytes of shared memory that the system takes of a block.
const RESERVED: u64 = 1 << 10;
/// Registers of a unit, and those of a thread at full occupancy: more threads than that do not fit.
const REGISTERS: u64 = 65_536;
const LEAST: u64 = 32;

/// Parts of a unit's shared memory and of its registers, each of [`GRAIN`].
pub type Room = [u32; 2];

/// A unit as a whole.
pub const WHOLE_UNIT: Room = [GRAIN, GRAIN];

/// Bytes of a unit's shared memory.
fn shared_memory(architecture: &str) -> u64 {
    let kilobytes = match architecture {
        "sm_80" | "sm_87" => 164,
        "sm_89" | "sm_120" => 100,
        _ => 228,
    };
    kilobytes << 10
}

/// The room of a block of an operator's tactic on a GPU of that architecture.
pub fn of_kernel(operator: &Operator, architecture: &str) -> Room {
    let tactic = operator.tactic;
    let all = shared_memory(architecture);
    // Of so many threads with so many registers each and so many bytes of shared memory.
    let block = |threads: u64, registers: u64, shared: u64| {
        let part = |amount: u64, all: u64| (amount * u64::from(GRAIN)).div_ceil(all).min(u64::from(GRAIN)) as u32;
        [
            part(shared + RESERVED, all),
            part(threads * registers.next_multiple_of(8).max(LEAST), REGISTERS),
        ]
    };
    // Of which so many fill a unit's shared memory.
    let sharing = |blocks: u64, threads: u64, registers: u64| block(threads, registers, all / blocks.max(1) - RESERVED);
    match tactic.kernel {
        Kernel::ConvWgmma => WgmmaTile::of(tactic).map_or(WHOLE_UNIT, |e| sharing(u64::from(e.blocks), u64::from(e.threads()), 96)),
        Kernel::StreamWgmma => StreamTile::of(tactic).map_or(WHOLE_UNIT, |e| sharing(2, u64::from(e.threads()), 80)),
        Kernel::ConvPatch if PatchTile::of(tactic).is_some_and(PatchTile::is_wide) => sharing(1, 384, 168),
        Kernel::ConvPatch => sharing(1, 288, 144),
        Kernel::ConvLarge => LargeTile::of(tactic).map_or(WHOLE_UNIT, |e| block(u64::from(e.threads()), 104, u64::from(e.shared()))),
        Kernel::ConvPooled => block(u64::from(conv_pooled::THREADS), 168, u64::from(conv_pooled::SHARED)),
        Kernel::ConvShallow => sharing(1, 544, 96),
        Kernel::ConvSlender => SlenderTile::of(tactic).map_or(WHOLE_UNIT, |e| block(u64::from(e.threads()), 104, u64::from(e.shared()))),
        Kernel::ConvChains => ChainsTile::of(tactic).map_or(WHOLE_UNIT, |e| {
            let k_blocks = depth(operator).map_or(1, |(channels, _)| channels.div_ceil(BLOCK_K));
            block(u64::from(conv_chains::THREADS), 96, u64::from(e.shared(k_blocks)))
        }),
        Kernel::ConvGrouped => GroupedTile::of(tactic).map_or(WHOLE_UNIT, |e| {
            sharing(u64::from(e.together), u64::from(e.threads()), u64::from(conv_grouped::REGISTERS))
        }),
        Kernel::Stem => match StemTile::of(tactic).and_then(|e| e.band) {
            Some(band) => sharing(u64::from(band.together), u64::from(band.groups) * 128, 96),
            None => block(512, 104, 80 << 10),
        },
        Kernel::ConvMma => {
            let ring = MmaTile::of(tactic).map_or(all, |e| {
                u64::from(e.tile.0 + e.tile.1) * u64::from(e.step) * 2 * u64::from(e.stages)
            });
            block(128, 160, ring)
        }
        Kernel::ConvDirect => DirectTile::of(tactic).map_or(WHOLE_UNIT, |e| block(u64::from(e.threads()), 104, 16 << 10)),
        Kernel::ConvSpread => block(u64::from(conv_spread::THREADS), 100, 0),
        Kernel::ConvAffine => sharing(1, 256, 220),
        Kernel::PrologueWgmma => PrologueTile::of(tactic).map_or(WHOLE_UNIT, |e| block(u64::from(e.threads()), 128, u64::from(e.shared()))),
        Kernel::ConvTaps => block(288, 160, 128 << 10),
        Kernel::ConvFma => FmaTile::of(tactic).map_or(WHOLE_UNIT, |e| {
            block(u64::from(e.threads()), u64::from(e.registers), u64::from(e.shared()))
        }),
        Kernel::ConvNarrow => NarrowTile::of(tactic).map_or(WHOLE_UNIT, |e| sharing(u64::from(16 / e.warps), u64::from(e.threads()), 128)),
        Kernel::ConvParts => PartTile::of(tactic).map_or(WHOLE_UNIT, |e| block(u64::from(e.threads()), 128, u64::from(e.shared()))),
        Kernel::ConvWarps => {
            let (threads, registers) = conv_warps(operator);
            block(threads, registers, if tactic.tile.1 == 16 { 13 << 10 } else { 42 << 10 })
        }
        Kernel::ConvDepthwise => match Strip::of(tactic) {
            Some(strip) if strip.way == Way::Burst => block(128, 104, 0),
            Some(strip) if strip.way == Way::Patch => {
                let taps = window(operator).map_or(7, |w| w.kernel[0]);
                let tile = Patch::of(strip, taps, shape(operator).dim(3));
                let registers = match taps {
                    5 => 128,
                    7 => 168,
                    _ => 80,
                };
                block(tile.threads.into(), registers, tile.shared.into())
            }
            Some(strip) => {
                let taps = window(operator).and_then(form).map_or(5, |(taps, _)| taps);
                let registers = match (taps, strip.run) {
                    (3, 2) => 76,
                    (5, 2) => 116,
                    (7, 2) => 190,
                    (7, _) => 226,
                    _ => 160,
                };
                block(128, registers, 0)
            }
            None => block(128, 128, 8 << 10),
        },
        Kernel::Recurrent => {
            let share = recurrent::Share::of(tactic);
            share.map_or(WHOLE_UNIT, |e| block(u64::from(e.threads()), 128, u64::from(e.shared())))
        }
        Kernel::Squeeze => block(256, 120, 11 << 10),
        // Heads of few channels have a kernel of their own.
        Kernel::Attention if narrow(operator) => block(128, 64, 4 << 10),
        Kernel::Attention => block(256, 48, 4 << 10),
        Kernel::AttentionMma => block(256, 128, 78 << 10),
        Kernel::AttentionWgmma => attention_team(operator).map_or(WHOLE_UNIT, |(team, together)| {
            let registers = REGISTERS / u64::from(team.threads() * together);
            sharing(u64::from(together), u64::from(team.threads()), registers.min(168))
        }),
        Kernel::PairMma => block(128, 112, 31 << 10),
        Kernel::Reduce => block(256, 80, 9 << 10),
        Kernel::Normalise => block(128, 96, 1 << 10),
        Kernel::GroupNormalise => block(512, 64, 99 << 10),
        Kernel::Elementwise | Kernel::Copy => block(256, 64, 0),
        Kernel::MatMul => block(128, 112, 9 << 10),
        Kernel::MatVec => block(128, 152, 9 << 10),
        _ => block(128, 72, 0),
    }
}

/// The team of warpgroups that an attention's tactic names, and how many share a unit.
fn attention_team(operator: &Operator) -> Option<(Team, u32)> {
    let it = attention::matrices(operator).ok()?;
    let team = Team::of(operator.tactic)?;
    Some((team, team.together(it.panels()?, it.mask.is_some())))
}

/// Most channels of a head that count as few.
const NARROW: u32 = 16;

/// Whether an attention's heads have few channels.
fn narrow(operator: &Operator) -> bool {
    let all = shape(operator);
    all.rank() > 0 && all.dim(all.rank() - 1) <= NARROW
}

/// Threads of a block whose warps share out K, and registers of each.
fn conv_warps(operator: &Operator) -> (u64, u64) {
    let (channels, taps) = depth(operator).unwrap_or((conv_warps::MAX_CHANNELS, 1));
    let share = if taps > 1 { Share::Taps } else { Share::Single };
    let (pieces, warps) = share.pieces(channels);
    let tile = operator.tactic.tile;
    let registers = match (taps, pieces) {
        (2.., _) => 168,
        (_, 0..=1) => 128,
        (_, 2) if tile.0 < 32 => 128,
        (_, 2) => 192,
        _ => 248,
    };
    (WarpsTile::threads(tile, warps).into(), registers)
}
