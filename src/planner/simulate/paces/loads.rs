//! What a launch does, in figures that its time grows with.

use super::super::extents::{depth, shape};
use super::super::footprint::Footprint;
use super::super::machine::GRAIN;
use crate::board::BoardRecord;
use crate::plan::format::{Call, Kernel, Operator};
use crate::plan::tactic::attention;
use crate::plan::tactic::conv_wgmma::{Chains, WgmmaTile};
use crate::planner::cost::{work, written};
use crate::primitive::{Primitive, Region, Unary};

/// Loads that are told apart.
pub const COUNT: usize = 11;

/// Input channels of a K block: products are as deep as whole ones.
const BLOCK_K: u32 = 64;
/// Bytes a nanosecond that a unit reads from memory, writes, and brings in from the second cache, and the most that all of them do:
/// best rates of an H200 and of 16 of its SMs.
const READ: (f64, f64) = (155.0, 4450.0);
const WRITTEN: (f64, f64) = (62.5, 4300.0);
const BROUGHT: (f64, f64) = (75.0, 5500.0);

/// What a launch does.
///
/// | load | what |
/// |---|---|
/// | 0 | the launch |
/// | 1 | rounds: waves of blocks times tiles of a block |
/// | 2 | rounds times a thousand products of each output |
/// | 3 | the same times the blocks that share a unit |
/// | 4 | nanoseconds of memory for its operands and results |
/// | 5 | nanoseconds of writing for its results |
/// | 6 | bytes of weights that a block loads before its first tile, in ten thousands |
/// | 7 | nanoseconds of the second cache for what all tiles bring in |
/// | 8, 9 | loads 2 and 1 times the part of the board's places that its blocks fill |
/// | 10 | results of functions with an exponential, in thousands a unit: of whole tiles, as blocks take them |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loads(pub [f64; COUNT]);

impl Loads {
    /// Nanoseconds of memory for all bytes.
    pub fn bytes(&self) -> f64 {
        self.0[4]
    }

    /// The loads of an operator in one piece under its tactic.
    pub fn of(operator: &Operator, board: &BoardRecord) -> Loads {
        let footprint = Footprint::of(operator, board);
        let tiles = footprint.tiles(operator, &Region::whole(shape(operator)));
        let units = board.units.max(1);
        let each = footprint.room.iter().map(|&part| GRAIN / part.max(1)).min().unwrap_or(1).max(1);
        let places = room(units, footprint.cluster).saturating_mul(each);
        let blocks = tiles.min(footprint.most).max(1);
        let abreast = blocks.min(places);
        let rounds = f64::from(blocks.div_ceil(places)) * f64::from(tiles.div_ceil(blocks));
        let sharing = f64::from(abreast.div_ceil(units));
        let fill = f64::from(abreast) / f64::from(places);
        let deep = deep(operator);
        let rate = |(each, all): (f64, f64)| (each * f64::from(units)).min(all);
        let (pixels, channels) = operator.tactic.tile;
        let brought = f64::from(tiles) * (f64::from(pixels) + f64::from(channels)) * deep * 2e3;
        Loads([
            1.0,
            rounds,
            rounds * deep,
            rounds * sharing * deep,
            work(operator).1 as f64 / rate(READ),
            written(operator) as f64 / rate(WRITTEN),
            footprint.loaded as f64 * 1e-4,
            brought / rate(BROUGHT),
            rounds * deep * fill,
            rounds * fill,
            f64::from(curved(operator)) * taken(operator, tiles) / f64::from(units) * 1e-3,
        ])
    }
}

/// Units that clusters of so many blocks find room on. Those of more than two lie in groups of 14 to 18 units, of which some have no room
/// for a last one: an H200 of 132 has it for 31 of four blocks, and for 15 of eight.
fn room(units: u32, cluster: u32) -> u32 {
    const GROUP: u32 = 18;
    let cluster = cluster.clamp(1, units);
    let lost = if cluster > 2 && units > GROUP { units / 16 } else { 0 };
    (units - lost) / cluster * cluster
}

/// Calls of functions that take an exponential or a logarithm.
fn curved(operator: &Operator) -> u32 {
    use Unary::{Erf, Exp, Gelu, GeluTanh, Log, Sigmoid, Silu, Tanh};
    let takes = |call: &&Call| {
        let Primitive::Unary(function) = call.primitive else { return false };
        matches!(function, Erf | Exp | Gelu | GeluTanh | Log | Sigmoid | Silu | Tanh)
    };
    operator.calls.iter().filter(takes).count() as u32
}

/// Results that tiles are finished for: products finish what lies outside of the tensor, too.
fn taken(operator: &Operator, tiles: u32) -> f64 {
    let own = shape(operator).elements() as f64;
    let (pixels, channels) = operator.tactic.tile;
    match operator.tactic.kernel {
        Kernel::ConvDepthwise => own,
        _ => own.max(f64::from(tiles) * f64::from(pixels) * f64::from(channels)),
    }
}

/// Products that a block sums for an output, in thousands; of attention the keys that a strand walks.
fn deep(operator: &Operator) -> f64 {
    if let Some(keys) = attention::walked(operator) {
        return keys as f64 / 1e3;
    }
    let (channels, taps) = depth(operator).unwrap_or((0, 0));
    let all = f64::from(channels.next_multiple_of(BLOCK_K)) * f64::from(taps) / 1e3;
    // The blocks of a cluster share out the chains.
    let shared = match operator.tactic.kernel {
        Kernel::ConvWgmma => WgmmaTile::of(operator.tactic).is_some_and(|e| e.chains == Chains::Cluster),
        Kernel::StreamWgmma => true,
        _ => false,
    };
    if shared {
        all / f64::from(operator.class.split_k.max(1))
    } else {
        all
    }
}

#[cfg(test)]
mod tests {
    use super::room;

    #[test]
    fn clusters_find_the_room_that_was_measured() {
        assert_eq!([1, 2, 4, 8].map(|cluster| room(132, cluster) / cluster), [132, 66, 31, 15]);
        assert_eq!([1, 2, 4].map(|cluster| room(16, cluster) / cluster), [16, 8, 4]);
        assert_eq!(room(2, 4), 2, "a board with less than a cluster");
    }
}
