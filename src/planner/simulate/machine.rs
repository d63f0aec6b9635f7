//! The board as the simulator sees it, in integers.

use super::calibration::{APART_PART, Calibration};
use crate::board::{BackendKind, BoardRecord};

/// Parts of a unit's room: every number of blocks up to 10 divides it.
pub const GRAIN: u32 = 2520;
/// A whole board's bandwidth or arithmetic, in the parts that demands are counted in.
pub const WHOLE: u64 = 1 << 26;
/// Rates are counted in parts of this, so that small ones do not vanish.
const SCALE: u64 = 1 << 8;
/// Where a board has no figures of its own, those of an H200, in percent of what an issue costs it: launches in a frame,
const CHAIN_PART: u64 = 22;
/// launches beside other streams,
const CROWD_PART: u64 = 139;
/// launches that come early,
const LEAD_PART: u64 = 50;
/// sync points: much more than in a graph of empty kernels, where an H200's streams meet in 0.3 microseconds.
const SYNC_PART: u64 = 278;
/// The other figures of the H200, see [`Calibration`].
const SHARE: u64 = 800;
const MUTUAL: u64 = 800;
const SHARED_BYTES: u64 = 30;

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
    /// Launches of a stream begin early, and pass those of others that do not find room.
    pub early: bool,
    /// What its rules weigh.
    pub calibration: Calibration,
}

impl Machine {
    /// The machine of a board, with the figures of an H200 in the board's measure.
    pub fn of(board: &BoardRecord) -> Machine {
        let rate = |r: f32| (f64::from(r) * SCALE as f64).ceil().max(1.0) as u64;
        let gpu = board.backend == BackendKind::Cuda;
        let issues = |part: u64| board.issue.0 * part / 100;
        let idle = Calibration {
            chain: issues(CHAIN_PART),
            crowd: 0,
            lead: 0,
            sync: 0,
            block: 0,
            share: 0,
            mutual: 0,
            bytes: 100,
            cold: 0,
            apart: 0,
            cache: 0,
        };
        let h200 = Calibration {
            crowd: issues(CROWD_PART),
            lead: issues(LEAD_PART),
            sync: issues(SYNC_PART),
            share: SHARE,
            mutual: MUTUAL,
            apart: MUTUAL * APART_PART / 100,
            bytes: SHARED_BYTES,
            ..idle
        };
        Machine {
            backend: board.backend,
            units: board.units.max(1),
            bytes: rate(board.bytes_per_ns),
            macs: rate(board.macs_per_ns),
            scale: SCALE,
            issue: board.issue.0,
            early: gpu,
            calibration: if gpu { h200 } else { idle },
        }
    }

    /// The same with figures of its own, if it has them.
    pub fn calibrated(self, calibration: Option<Calibration>) -> Machine {
        Machine {
            calibration: calibration.unwrap_or(self.calibration),
            ..self
        }
    }

    /// Bytes a nanosecond that launches side by side reach, times `scale`.
    pub fn shared_bytes(&self) -> u64 {
        (self.bytes.saturating_mul(self.calibration.bytes) / 100).max(1)
    }

    /// Parts of units that there are.
    pub fn pool(&self) -> u64 {
        u64::from(self.units) * u64::from(GRAIN)
    }
}
