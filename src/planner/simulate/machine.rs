//! The board as the simulator sees it, in integers.

use crate::board::{BackendKind, BoardRecord};

/// Parts of a unit's room: every number of blocks up to 10 divides it.
pub const GRAIN: u32 = 2520;
/// A whole board's bandwidth or arithmetic, in the parts that demands are counted in.
pub const WHOLE: u64 = 1 << 26;
/// Rates are counted in parts of this, so that small ones do not vanish.
const SCALE: u64 = 1 << 8;
/// A sync point costs this part of an issue: an H200's streams meet in 0.3 microseconds inside a graph, where a launch in a
/// chain takes 0.9.
const SYNC_PART: u64 = 3;
/// What a launch takes longer in a frame than among its like, whose operands lie in the caches, in percent of an issue. This and
/// what follows is fitted to frames of three mixes on an H200: one after another, and on free streams.
const CHAIN_PART: u64 = 50;
/// What it takes longer while other streams are at work, in percent of an issue.
const CROWD_PART: u64 = 167;
/// Part of an SM's throughput that blocks use which have it to themselves, of `costs::ONE`.
const SHARE: u64 = 1000;

/// From the last block of a launch at work to the blocks of one that follows early, in percent of an issue.
const LEAD_PART: u64 = 50;

/// The board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What runs its blocks.
    pub backend: BackendKind,
    /// Units that hold blocks: SMs, or workers.
    pub units: u32,
    /// Bytes a nanosecond, times `scale`.
    pub bytes: u64,
    /// Multiply-adds a nanosecond, times `scale`.
    pub macs: u64,
    /// What rates are multiplied by.
    pub scale: u64,
    /// Nanoseconds of a launch in a chain.
    pub issue: u64,
    /// Nanoseconds that a launch takes longer in a frame than in the chain of its like that it was measured in.
    pub chain: u64,
    /// Nanoseconds that a launch takes longer while other streams are at work.
    pub crowd: u64,
    /// Part of a unit's throughput that blocks use which have it to themselves, of `costs::ONE`.
    pub share: u64,
    /// Launches of a stream begin early.
    pub early: bool,
    /// Nanoseconds from the last block at work to the blocks of the launch that follows early.
    pub lead: u64,
    /// Nanoseconds from the end of the last segment waited for to the segment that waits.
    pub sync: u64,
}

impl Machine {
    /// The machine of a board.
    pub fn of(board: &BoardRecord) -> Machine {
        let rate = |r: f32| (f64::from(r) * SCALE as f64).ceil().max(1.0) as u64;
        let gpu = board.backend == BackendKind::Cuda;
        Machine {
            backend: board.backend,
            units: board.units.max(1),
            bytes: rate(board.bytes_per_ns),
            macs: rate(board.macs_per_ns),
            scale: SCALE,
            issue: board.issue.0,
            chain: board.issue.0 * CHAIN_PART / 100,
            crowd: if gpu { board.issue.0 * CROWD_PART / 100 } else { 0 },
            share: if gpu { SHARE } else { 0 },
            early: gpu,
            lead: if gpu { board.issue.0 * LEAD_PART / 100 } else { 0 },
            sync: if gpu { board.issue.0 / SYNC_PART } else { 0 },
        }
    }

    /// Parts of units that there are.
    pub fn pool(&self) -> u64 {
        u64::from(self.units) * u64::from(GRAIN)
    }
}
