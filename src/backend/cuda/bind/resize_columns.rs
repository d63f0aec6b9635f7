//! Resizing of f16 between two pixels of either axis, down the columns of the output: `kernels/resize_columns.cu`.

use super::groups::Pixels;
use super::operands::{input, output};
use super::resize_rows::Taps;
use super::views::Divisor;
use super::{Addresses, BindError, Launch, count};
use crate::plan::format::Operator;
use crate::primitive::Region;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;
/// Halves of a piece, and how many pieces a unit has: there is a kernel for each.
const PIECES: [(u32, u32); 4] = [(8, 1), (4, 2), (2, 4), (1, 4)];
/// Channels up to which pieces may be smaller than four halves.
const FEW_CHANNELS: u32 = 8;
/// Most output rows of a thread, of which neighbours lie between the same input rows.
const MOST_ROWS: u32 = 8;
/// Threads that a multiprocessor should have, before they make more rows each.
const BUSY: u32 = 2048;
/// Bytes of an f16.
const HALF: u32 = 2;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: u64,
    y: u64,
    rows: u64,
    columns: u64,
    x_batch: i64,
    y_batch: i64,
    y_row: i64,
    x_row: i32,
    x_pixel: i32,
    y_pixel: i32,
    length: u32,
    units: Divisor,
    runs: Divisor,
    parts: Divisor,
    run: u32,
    first_batch: u32,
    first_row: u32,
    row_end: u32,
    count: u32,
    whole: u32,
    padding: u32,
}

/// Halves of the pieces that pixels of both tensors fall into, and pieces of a unit; `None` where they are too small for so many channels.
fn cut(tensors: [&Pixels; 2], channels: u32) -> Option<(u32, u32)> {
    let lie_on = |t: &Pixels, halves: u32| {
        let steps = [t.batch, t.row, t.pixel].iter().all(|s| s % i64::from(halves) == 0);
        steps && t.address.is_multiple_of(u64::from(halves * HALF))
    };
    let fits = |&(halves, _): &(u32, u32)| channels.is_multiple_of(halves) && tensors.iter().all(|t| lie_on(t, halves));
    PIECES
        .into_iter()
        .find(fits)
        .filter(|&(halves, _)| halves >= 4 || channels <= FEW_CHANNELS)
}

/// Output rows of a thread, so that all multiprocessors have enough of them, and all threads about as many.
fn run(rows: u32, units: u32, multiprocessors: u32) -> u32 {
    let each = units / multiprocessors.max(1).saturating_mul(BUSY);
    let most = each.clamp(1, MOST_ROWS);
    rows.div_ceil(rows.div_ceil(most))
}

/// Bytes of a number of elements that a picture or a row has, if these are numbered in 31 bits.
fn numbered(extent: u32, stride: i64) -> Option<i32> {
    let bytes = stride.checked_mul(i64::from(HALF)).filter(|&b| b >= 0)?;
    let all = bytes.checked_mul(i64::from(extent))?;
    i32::try_from(all).ok().and(i32::try_from(bytes).ok())
}

/// The launch of a chunk; `None` for what the kernel does not take.
pub fn launch(at: &Addresses<'_>, operator: &Operator, taps: &Taps, region: &Region, width: u16) -> Result<Option<Launch>, BindError> {
    let (from, to) = (input(operator, 0)?, output(operator, 0)?);
    let [_, channels, _, across] = [0, 1, 2, 3].map(|axis| to.layout.shape.dim(axis));
    if operator.calls.len() != 1 || [from.dtype, to.dtype] != [DType::F16; 2] || taps.cropped {
        return Ok(None);
    }
    let (x, y) = (Pixels::new(at, from)?, Pixels::new(at, to)?);
    let Some((halves, pieces)) = cut([&x, &y], channels) else {
        return Ok(None);
    };
    let steps = (numbered(x.height, x.row), numbered(x.width, x.pixel), numbered(across, y.pixel));
    let (Some(x_row), Some(x_pixel), Some(y_pixel)) = steps else {
        return Ok(None);
    };
    let parts = channels / halves;
    let length = count([across, parts], "a row")?;
    let (samples, rows, units) = (region.batch.len() as u32, region.rows.len() as u32, length.div_ceil(pieces));
    let run = run(rows, count([samples, rows, units], "a chunk")?, at.multiprocessors);
    let runs = rows.div_ceil(run);
    let unit = i64::from(halves * pieces);
    let dense = y.pixel == i64::from(channels) || across == 1;
    let whole = dense && [y.batch, y.row].iter().all(|s| s % unit == 0) && y.address.is_multiple_of(unit as u64 * u64::from(HALF));
    let params = Params {
        x: x.address,
        y: y.address,
        rows: taps.rows,
        columns: taps.columns,
        x_batch: x.batch * i64::from(HALF),
        y_batch: y.batch * i64::from(HALF),
        y_row: y.row * i64::from(HALF),
        x_row,
        x_pixel,
        y_pixel,
        length,
        units: Divisor::new(units),
        runs: Divisor::new(runs),
        parts: Divisor::new(parts),
        run,
        first_batch: region.batch.start,
        first_row: region.rows.start,
        row_end: region.rows.end,
        count: count([samples, runs, units], "a chunk")?,
        whole: u32::from(whole),
        padding: 0,
    };
    let (tiles, function) = (params.count.div_ceil(THREADS), format!("resize_columns_{halves}"));
    Ok(Some(Launch::new("resize_columns", function, tiles, width, THREADS, &params)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::bind::views::dtype_number;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 56 + 16 + 36 + 28);
        let source = include_str!("../kernels/resize_columns.cu");
        assert!(source.contains(&format!("THREADS = {THREADS};")));
        for (halves, pieces) in PIECES {
            let line = format!("RESIZE_COLUMNS(resize_columns_{halves}, {halves}, {pieces})");
            assert!(source.contains(&line), "{line}");
        }
    }

    #[test]
    fn pieces_lie_on_their_size_in_both_tensors() {
        let pixels = |address: u64, pixel: i64| Pixels {
            address,
            batch: pixel * 960,
            row: pixel * 40,
            pixel,
            dtype: dtype_number(DType::F16),
            height: 24,
            width: 40,
            padding: 0,
        };
        let of = |x, y, channels| cut([&x, &y], channels).map(|(halves, _)| halves);
        assert_eq!(of(pixels(64, 16), pixels(96, 16), 16), Some(8));
        assert_eq!(of(pixels(72, 16), pixels(96, 16), 16), Some(4), "between 16 bytes");
        assert_eq!(of(pixels(64, 4), pixels(96, 8), 4), Some(4), "pixels apart");
        assert_eq!(of(pixels(64, 6), pixels(96, 6), 6), Some(2));
        assert_eq!(of(pixels(64, 3), pixels(96, 3), 3), Some(1));
        assert_eq!(of(pixels(64, 1), pixels(98, 1), 1), Some(1));
        assert_eq!(of(pixels(64, 12), pixels(96, 12), 12), Some(4));
        assert_eq!(of(pixels(64, 10), pixels(96, 10), 10), None, "many small ones");
    }

    #[test]
    fn threads_walk_down_where_there_are_enough_of_them() {
        // 512 rows of 448 units, on 16 multiprocessors, on 132 and where nothing is known of them.
        assert_eq!([16, 132, 0].map(|m| run(512, 512 * 448, m)), [7, 1, 8]);
        assert_eq!(run(5, 5 << 16, 16), 5, "no more than there are");
        assert_eq!(run(9, 9 << 16, 16), 5, "all about as many");
    }

    #[test]
    fn bytes_of_rows_and_pictures_have_31_bits() {
        assert_eq!(numbered(896, 4), Some(8));
        assert_eq!(numbered(1 << 20, 1 << 10), None);
        assert_eq!(numbered(4, -8), None);
    }
}
