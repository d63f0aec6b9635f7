//! Depthwise convolution of f16 under large windows: `kernels/depthwise_wide.cu`.
//!
//! The bits are those of [`depthwise`](super::depthwise), which packs weights and bias.

use super::groups::{GROUP, PixelFrame, Pixels, in_whole_groups, source};
use super::operands::output;
use super::views::Divisor;
use super::window::Window;
use super::{Addresses, BindError, Launch, count};
use crate::plan::format::Operator;
use crate::primitive::{self, Region};
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;
/// Channels of a block, and rows and pixels of its tile of outputs.
const LOT: u32 = 16;
const TILE_ROWS: u32 = 8;
const TILE_COLUMNS: u32 = 14;
/// Taps of a row that are met at once.
const TAPS: u32 = 7;
/// Fewest taps for which a tile's pixels are worth the way through shared memory.
const FEWEST: u64 = 26;
/// Most bytes of shared memory, which every GPU has.
const SHARED: u32 = 96 << 10;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: PixelFrame,
    x: Pixels,
    window: Window,
    weights: u64,
    bias: u64,
    pitch: u32,
    line: u32,
    tiles: u32,
    lots: Divisor,
    across: Divisor,
    down: Divisor,
}

/// The step of the outputs, pixels of a line in shared memory, and bytes of it, for windows that the kernels take.
fn form(window: &primitive::Window) -> Option<(u32, u32, u32)> {
    let step = match (window.stride, window.dilation) {
        ([1, 1, 1], [1, 1, 1]) => 1,
        ([2, 2, 1], [1, 1, 1]) => 2,
        _ => return None,
    };
    let [rows, columns, _] = window.kernel;
    if window.axes != 2 || !(FEWEST..=u64::from(SHARED)).contains(&window.taps()) {
        return None;
    }
    // Odd, so that the rows of a warp lie in different banks.
    let line = ((TILE_COLUMNS - 1) * step + columns) | 1;
    let lines = (TILE_ROWS - 1) * step + rows;
    let sums = TILE_ROWS * TILE_COLUMNS * LOT * 4;
    let shared = lines
        .checked_mul(line)?
        .checked_add(TAPS + rows * columns)?
        .checked_mul(LOT * 2)?
        .max(sums);
    (shared <= SHARED).then_some((step, line, shared))
}

/// The launch of a chunk by addresses of packed weights and bias; `None` for what the kernels do not take.
pub fn launch(
    at: &Addresses<'_>,
    operator: &Operator,
    window: &primitive::Window,
    [weights, bias]: [u64; 2],
    region: &Region,
    width: u16,
) -> Result<Option<Launch>, BindError> {
    let Some((step, line, shared)) = form(window) else {
        return Ok(None);
    };
    let (x, view) = (source(at, operator)?, output(operator, 0)?);
    let channels = view.layout.shape.dim(1);
    if !in_whole_groups(&x, channels) {
        return Ok(None);
    }
    let frame = PixelFrame::new(at, operator, region, 1)?;
    let lots = channels.div_ceil(LOT);
    let (across, down) = (
        view.layout.shape.dim(3).div_ceil(TILE_COLUMNS),
        (region.rows.len() as u32).div_ceil(TILE_ROWS),
    );
    let tiles = count([region.batch.len() as u32, lots, across, down], "a chunk")?;
    let params = Params {
        frame,
        x,
        window: Window::new(window),
        weights,
        bias,
        pitch: channels.next_multiple_of(GROUP),
        line,
        tiles,
        lots: Divisor::new(lots),
        across: Divisor::new(across),
        down: Divisor::new(down),
    };
    let launch = Launch::new("depthwise_wide", format!("depthwise_wide_{step}"), tiles, width, THREADS, &params);
    Ok(Some(Launch { shared, ..launch }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_and_numbers_are_the_sources() {
        assert_eq!(size_of::<Params>(), size_of::<PixelFrame>() + 48 + 64 + 16 + 12 + 36);
        let source = include_str!("../kernels/depthwise_wide.cu");
        for line in [
            "WIDE_THREADS = 128;",
            "LOT = 16;",
            "TILE_ROWS = 8;",
            "TILE_RUNS = 2;",
            "RUN = 7;",
            "TAPS = 7;",
        ] {
            assert!(source.contains(line), "{line}");
        }
        assert_eq!((THREADS, LOT, TILE_ROWS, TILE_COLUMNS, TAPS), (128, 16, 8, 2 * 7, 7));
    }

    #[test]
    fn large_windows_have_room() {
        let window = |side: u32, stride: u32| primitive::Window {
            stride: [stride, stride, 1],
            ..primitive::Window::new(&[side, side])
        };
        // 14 lines of 21 pixels, 7 pixels more and 49 taps, of 32 bytes each.
        assert_eq!(form(&window(7, 1)), Some((1, 21, (14 * 21 + 7 + 49) * 32)));
        assert_eq!(form(&window(7, 2)).map(|(step, line, _)| (step, line)), Some((2, 33)));
        assert!(form(&window(31, 1)).is_some());
        assert_eq!([window(5, 1), window(7, 3), window(63, 1)].map(|w| form(&w)), [None; 3]);
    }
}
