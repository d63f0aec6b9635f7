//! Resizing of f16 between two pixels of either axis, whole rows at a time: `kernels/resize_rows.cu`.

use super::groups::Pixels;
use super::operands::{input, output};
use super::views::{Divisor, strides};
use super::{Addresses, BindError, Launch, count};
use crate::plan::format::Operator;
use crate::plan::tactic::resized::{MAX_PIXELS, PAIR_BYTES, PIECE, is_planes};
use crate::primitive::Region;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 256;
/// Most bytes of shared memory for pixels that are put together.
const SHARED: u32 = 96 << 10;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: u64,
    y: u64,
    x_batch: i64,
    x_row: i64,
    x_pixel: i64,
    y_batch: i64,
    y_row: i64,
    y_channel: i64,
    rows: u64,
    columns: u64,
    height: Divisor,
    pieces: Divisor,
    depth: Divisor,
    first_batch: u32,
    first_row: u32,
    width: u32,
    room: u32,
    count: u32,
    outside: f32,
    padding: u32,
}

/// Tables of two taps an output, and what an output outside a cropped input is.
pub struct Taps {
    /// Of the rows.
    pub rows: u64,
    /// Of the columns.
    pub columns: u64,
    /// Most input pixels of a row under a piece.
    pub reach: u32,
    /// True if an output lies outside of a cropped input.
    pub cropped: bool,
    /// What such outputs are.
    pub outside: f32,
}

/// Most input pixels of a row under a piece of outputs, by the positions of two taps of each output; -1 is outside.
pub fn reach(positions: &[i32]) -> u32 {
    let piece = |outputs: &[i32]| {
        let inside = || outputs.iter().copied().filter(|&p| p >= 0);
        inside().max().zip(inside().min()).map_or(0, |(high, low)| (high - low + 1) as u32)
    };
    positions.chunks(2 * PIECE as usize).map(piece).max().unwrap_or(0)
}

/// The launch of a chunk; `None` for what the kernel does not take.
pub fn launch(at: &Addresses<'_>, operator: &Operator, taps: &Taps, region: &Region, width: u16) -> Result<Option<Launch>, BindError> {
    let (from, view) = (input(operator, 0)?, output(operator, 0)?);
    let [_, channels, _, across] = [0, 1, 2, 3].map(|axis| view.layout.shape.dim(axis));
    let planes = is_planes(operator);
    let to = strides(view);
    let dense = to[1] == 1 || channels == 1;
    let together = operator.calls.len() == 1 && view.dtype == DType::F16 && dense && to[3] == i64::from(channels);
    if from.dtype != DType::F16 || !(planes || together) {
        return Ok(None);
    }
    let x = Pixels::new(at, from)?;
    // Neighbouring columns begin in different banks.
    let room = taps.reach.max(1) | 1;
    let pixels = channels.saturating_mul(room).saturating_mul(PAIR_BYTES);
    let made = if planes {
        0
    } else {
        channels.saturating_mul(PIECE.min(across) * 2) + 16
    };
    let shared = pixels.checked_next_multiple_of(16).and_then(|p| p.checked_add(made));
    let Some(shared) = shared.filter(|&s| pixels <= MAX_PIXELS && s <= SHARED) else {
        return Ok(None);
    };
    let (samples, rows, pieces) = (region.batch.len() as u32, region.rows.len() as u32, across.div_ceil(PIECE));
    let params = Params {
        x: x.address,
        y: at.view(view)?,
        x_batch: x.batch,
        x_row: x.row,
        x_pixel: x.pixel,
        y_batch: to[0],
        y_row: to[2],
        y_channel: to[1],
        rows: taps.rows,
        columns: taps.columns,
        height: Divisor::new(rows),
        pieces: Divisor::new(pieces),
        depth: Divisor::new(channels),
        first_batch: region.batch.start,
        first_row: region.rows.start,
        width: across,
        room,
        count: count([samples, rows, pieces], "a chunk")?,
        outside: taps.outside,
        padding: 0,
    };
    let function = match (planes, view.dtype) {
        (false, _) => "resize_rows",
        (true, DType::F16) => "resize_half_planes",
        (true, _) => "resize_planes",
    };
    let launch = Launch::new("resize_rows", function, params.count, width, THREADS, &params);
    Ok(Some(Launch { shared, ..launch }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 144);
        let source = include_str!("../kernels/resize_rows.cu");
        let line = |text: &str| assert!(source.contains(text), "{text}");
        line(&format!("THREADS = {THREADS};"));
        line(&format!("PIECE = {PIECE};"));
    }

    #[test]
    fn a_piece_reaches_over_the_pixels_under_it() {
        // An eighth of a pixel from output to output, in pieces of their own.
        let positions: Vec<i32> = (0..2 * PIECE as i32).flat_map(|o| [o / 8, o / 8 + 1]).collect();
        assert_eq!(reach(&positions), PIECE / 8 + 1);
        assert_eq!(reach(&[-1, -1, 5, 6, -1, -1, 3, 4]), 4);
        assert_eq!(reach(&[-1, -1]), 0);
    }
}
