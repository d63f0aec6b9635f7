//! Maxima of f16 under large windows: `kernels/pool_wide.cu`.

use super::groups::{PixelFrame, Pixels, in_whole_groups, source};
use super::operands::output;
use super::views::Divisor;
use super::window::Window;
use super::{Addresses, BindError, Launch, count};
use crate::plan::format::Operator;
use crate::primitive::{self, Region};
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 256;
/// Fewest taps for which runs of rows are worth keeping.
const FEWEST: u64 = 10;
/// Most rows and columns of a tile of outputs.
const SIDE: u32 = 20;
/// Most bytes of shared memory: a few blocks share a multiprocessor.
const SHARED: u32 = 48 << 10;
/// Bytes of a pixel's group of channels.
const GROUP_BYTES: u32 = 16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: PixelFrame,
    x: Pixels,
    window: Window,
    across: Divisor,
    down: Divisor,
    tile_rows: u32,
    tile_columns: u32,
    tiles: u32,
    padding: u32,
}

/// Rows and columns of a tile of outputs, and bytes of shared memory; `None` for windows that the kernel does not take. Of so many `maps`,
/// pictures by groups of channels, tiles have fewer rows where multiprocessors are left over, down to what threads run through at once.
fn form(window: &primitive::Window, rows: u32, columns: u32, maps: u32, multiprocessors: u32) -> Option<([u32; 2], u32)> {
    let plain = window.stride == [1; 3] && window.dilation == [1; 3] && window.axes == 2;
    if !plain || !(FEWEST..=u64::from(SHARED)).contains(&window.taps()) {
        return None;
    }
    let bytes = |[high, wide]: [u32; 2]| {
        let lines = high + window.kernel[0] - 1;
        lines.checked_mul(2 * wide + window.kernel[1] - 1)?.checked_mul(GROUP_BYTES)
    };
    let (mut high, mut wide) = (even(rows), even(columns));
    loop {
        match bytes([high, wide]) {
            Some(shared) if shared <= SHARED => {
                let tiles = maps.saturating_mul(rows.div_ceil(high)).saturating_mul(columns.div_ceil(wide));
                let long = (high + window.kernel[0] - 1) * wide > THREADS;
                if !long || high == 1 || tiles.saturating_mul(2) > multiprocessors {
                    return Some(([high, wide], shared));
                }
                high = high.div_ceil(2);
            }
            _ if high == 1 && wide == 1 => return None,
            _ => (high, wide) = (high.div_ceil(2), wide.div_ceil(2)),
        }
    }
}

/// The side of tiles that cut an extent evenly.
fn even(extent: u32) -> u32 {
    extent.div_ceil(extent.div_ceil(SIDE).max(1)).max(1)
}

/// The launch of a chunk of maxima; `None` for what the kernel does not take.
pub fn launch(
    at: &Addresses<'_>,
    operator: &Operator,
    window: &primitive::Window,
    region: &Region,
    width: u16,
) -> Result<Option<Launch>, BindError> {
    let (x, view) = (source(at, operator)?, output(operator, 0)?);
    let (rows, columns) = (region.rows.len() as u32, view.layout.shape.dim(3));
    if !in_whole_groups(&x, view.layout.shape.dim(1)) {
        return Ok(None);
    }
    let frame = PixelFrame::new(at, operator, region, 1)?;
    let maps = count([region.batch.len() as u32, frame.groups.divisor], "a chunk")?;
    let units = match u32::from(width) {
        0 => at.multiprocessors,
        width => width,
    };
    let Some(([tile_rows, tile_columns], shared)) = form(window, rows, columns, maps, units) else {
        return Ok(None);
    };
    let (across, down) = (columns.div_ceil(tile_columns), rows.div_ceil(tile_rows));
    let tiles = count([region.batch.len() as u32, frame.groups.divisor, across, down], "a chunk")?;
    let params = Params {
        frame,
        x,
        window: Window::new(window),
        across: Divisor::new(across),
        down: Divisor::new(down),
        tile_rows,
        tile_columns,
        tiles,
        padding: 0,
    };
    let launch = Launch::new("pool_wide", "pool_wide", tiles, width, THREADS, &params);
    Ok(Some(Launch { shared, ..launch }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<PixelFrame>() + 48 + 64 + 24 + 16);
        assert!(include_str!("../kernels/pool_wide.cu").contains(&format!("WIDE_THREADS = {THREADS};")));
    }

    #[test]
    fn tiles_cut_maps_evenly_and_have_room() {
        let window = |side: u32| primitive::Window::new(&[side, side]);
        // 25 lines of 25 pixels and of 13 runs.
        let tile = |side, rows, columns| form(&window(side), rows, columns, 64, 132).map(|(tile, _)| tile);
        assert_eq!(form(&window(13), 13, 13, 67, 132), Some(([13, 13], 25 * 38 * 16)));
        assert_eq!(tile(5, 40, 26), Some([20, 13]));
        assert_eq!(tile(3, 13, 13), None);
        let (large, shared) = form(&window(41), 100, 100, 64, 132).unwrap();
        assert!(large[0] >= 1 && shared <= SHARED);
        assert_eq!(tile(64, 13, 13), None);
    }

    #[test]
    fn few_maps_are_cut_into_tiles_of_fewer_rows() {
        let rows = |maps, units| form(&primitive::Window::new(&[5, 5]), 20, 20, maps, units).unwrap().0[0];
        // 16 maps of 128 channels: 14 lines of 20 are more than the threads, 9 are not.
        assert_eq!([16, 33, 34, 67].map(|maps| rows(maps, 132)), [5, 5, 10, 20]);
        assert_eq!(
            (rows(16, 16), rows(16, 0)),
            (20, 20),
            "where there is a map for each of them, or nothing is known"
        );
    }
}
