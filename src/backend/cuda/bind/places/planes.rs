//! Samples by grids, of halves whose channels lie side by side, into planes or pixels: `kernels/sample_planes.cu`.

use super::super::views::{DeviceView, Divisor};
use super::super::{BindError, Launch, count};
use super::{PIECE, name};
use crate::primitive::{Region, Sampling};
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;
/// Places of a tile, and pieces of its channels.
const PLACES: u32 = 64;
const PIECES: u32 = 4;
/// Log2 of the most halves that leave at once.
const WIDEST: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: DeviceView,
    grid: DeviceView,
    y: DeviceView,
    columns: Divisor,
    lots: Divisor,
    runs: Divisor,
    first_batch: u32,
    first_row: u32,
    places: u32,
    tiles: u32,
    unit: u32,
    outside: u32,
    align_corners: u32,
    steps: [u32; 2],
    leaps: [u32; 2],
}

/// Fewest tiles that pixels are sampled in: fewer are bound by latency, which threads that wait for each other lengthen.
const MANY: u32 = 1024;

/// Where a tile's channels go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// The output has its places side by side.
    Planes,
    /// The output lies in pieces by channels, so many of them from column to column and from row to row.
    Pixels([u32; 2]),
}

/// A sampling whose input is [in pieces](DeviceView::in_pieces) by channels.
pub struct Planes {
    pub x: DeviceView,
    pub grid: DeviceView,
    pub y: DeviceView,
    /// Of the input ([`steps`]).
    pub steps: [u32; 2],
    pub sink: Sink,
    pub outside: u32,
    pub align_corners: bool,
}

/// Pieces from column to column and from row to row of a picture; `None` where its last one is too far from the first.
pub fn steps(x: &DeviceView) -> Option<[u32; 2]> {
    let step = |axis: usize| u32::try_from(x.strides[axis] / i64::from(PIECE)).ok();
    let steps = [step(3)?, step(2)?];
    let reach = |axis: usize, step: u32| u64::from(x.extents[axis] - 1) * u64::from(step);
    (reach(3, steps[0]) + reach(2, steps[1]) < 1 << 31).then_some(steps)
}

impl Planes {
    /// Log2 of the neighbouring halves that leave at once in a chunk of rows from `first_row` on.
    fn unit(&self, first_row: u32) -> u32 {
        let DeviceView {
            address, strides, extents, ..
        } = self.y;
        let columns = i64::from(extents[3]);
        // Rows that lie behind each other are one; of others a unit has places of one row.
        let joined = extents[2] == 1 || extents[3] == 1 || strides[2] == columns;
        let begin = i64::from(first_row) * strides[2];
        let within = if joined { [begin, 0] } else { [strides[2], columns] };
        let whole = |unit: u32| {
            let steps = [strides[0], strides[1], within[0], within[1]];
            steps.iter().all(|s| s % (1 << unit) == 0) && address.is_multiple_of(2 << unit)
        };
        (0..=WIDEST).rev().find(|&unit| whole(unit)).unwrap_or(0)
    }

    /// Tiles of a chunk: of all its pictures, of one's places, and of a place's channels.
    fn tiles(&self, region: &Region) -> Result<[u32; 3], BindError> {
        let places = count([region.rows.len() as u32, self.y.extents[3]], "a chunk")?;
        let (lots, runs) = (self.y.extents[1].div_ceil(PIECE * PIECES), places.div_ceil(PLACES));
        Ok([count([region.batch.len() as u32, runs, lots], "a chunk")?, runs, lots])
    }

    /// True if there is as much to do as makes the kernel worth it, whatever the chunk.
    pub fn pays(&self) -> bool {
        let rows = 0..self.y.extents[2];
        let whole = Region {
            batch: 0..self.y.extents[0],
            rows,
        };
        self.sink == Sink::Planes || self.tiles(&whole).is_ok_and(|[tiles, ..]| tiles >= MANY)
    }

    /// The launch of a chunk.
    pub fn launch(&self, sampling: Sampling, region: &Region, width: u16) -> Result<Launch, BindError> {
        let [tiles, runs, lots] = self.tiles(region)?;
        let (suffix, leaps) = match self.sink {
            Sink::Planes => ("planes", [0; 2]),
            Sink::Pixels(leaps) => ("pixels", leaps),
        };
        let params = Params {
            x: self.x,
            grid: self.grid,
            y: self.y,
            columns: Divisor::new(self.y.extents[3]),
            lots: Divisor::new(lots),
            runs: Divisor::new(runs),
            first_batch: region.batch.start,
            first_row: region.rows.start,
            places: region.rows.len() as u32 * self.y.extents[3],
            tiles,
            unit: self.unit(region.rows.start),
            outside: self.outside,
            align_corners: u32::from(self.align_corners),
            steps: self.steps,
            leaps,
        };
        let function = format!("sample_{}_{suffix}", name(sampling));
        Ok(Launch::new("sample_planes", function, tiles, width, THREADS, &params))
    }
}

#[cfg(test)]
mod tests;
