//! Maxima of f16 under windows of 3 by 3 pixels: `kernels/pool_rows.cu`.

use super::groups::{PixelFrame, Pixels, THREADS, in_whole_groups, source};
use super::operands::output;
use super::views::Divisor;
use super::window::Window;
use super::{Addresses, BindError, Launch, count};
use crate::plan::format::Operator;
use crate::primitive::{self, Region};
use bytemuck::{Pod, Zeroable};

/// Taps along either axis.
const SIDE: u32 = 3;
/// Output rows of a thread, of which neighbours share input rows: with fewer, all taps of one output in flight are faster.
const ROWS: std::ops::RangeInclusive<u32> = 3..=7;
/// Threads that a multiprocessor should have, before they make more than one output each.
const BUSY: u32 = 768;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: PixelFrame,
    x: Pixels,
    window: Window,
    run: u32,
    row_end: u32,
}

/// True for windows that the kernel takes: of pixels side by side, one or two rows apart, of which each has a pixel of the input.
fn takes(window: &primitive::Window, from: [u32; 2], to: [u32; 2]) -> bool {
    let reaches = |a: usize| {
        let last = u64::from(to[a].saturating_sub(1)) * u64::from(window.stride[a]);
        window.kernel[a] == SIDE && window.pad_begin[a] < SIDE && last < u64::from(from[a]) + u64::from(window.pad_begin[a])
    };
    window.axes == 2 && window.dilation[..2] == [1, 1] && matches!(window.stride[0], 1 | 2) && (0..2).all(reaches)
}

/// Output rows of a thread: as many as leave all multiprocessors enough threads; `None` for too few.
fn run(rows: u32, threads: u32, multiprocessors: u32) -> Option<u32> {
    let each = threads / multiprocessors.max(1).saturating_mul(BUSY);
    let most = each.min(*ROWS.end()).min(rows);
    (most >= *ROWS.start()).then(|| rows.div_ceil(rows.div_ceil(most)))
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
    let [_, channels, height, across] = [0, 1, 2, 3].map(|axis| view.layout.shape.dim(axis));
    let frame = PixelFrame::new(at, operator, region, across)?;
    let whole = in_whole_groups(&x, channels) && in_whole_groups(&frame.y, channels);
    if !whole || operator.calls.len() != 1 || !takes(window, [x.height, x.width], [height, across]) {
        return Ok(None);
    }
    let rows = region.rows.len() as u32;
    let Some(run) = run(rows, frame.count, at.multiprocessors) else {
        return Ok(None);
    };
    let runs = rows.div_ceil(run);
    let count = count([region.batch.len() as u32, frame.groups.divisor, across, runs], "a chunk")?;
    let params = Params {
        frame: PixelFrame {
            rows: Divisor::new(runs),
            count,
            tiles: count.div_ceil(THREADS),
            ..frame
        },
        x,
        window: Window::new(window),
        run,
        row_end: region.rows.end,
    };
    let launch = Launch::new("pool_rows", "pool_rows", params.frame.tiles, width, THREADS, &params);
    Ok(Some(launch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<PixelFrame>() + 48 + 64 + 8);
    }

    #[test]
    fn windows_that_miss_the_input_are_left_to_others() {
        let window = |stride: u32, pad: u32| {
            let mut window = primitive::Window::new(&[3, 3]);
            (window.stride[0], window.stride[1]) = (stride, stride);
            (window.pad_begin[0], window.pad_begin[1]) = (pad, pad);
            window
        };
        assert!(takes(&window(2, 1), [112, 112], [56, 56]));
        assert!(takes(&window(1, 1), [28, 28], [28, 28]));
        assert!(!takes(&window(3, 0), [28, 28], [9, 9]));
        assert!(!takes(&window(2, 3), [28, 28], [15, 15]));
        assert!(takes(&window(2, 0), [28, 28], [14, 14]));
        assert!(!takes(&window(2, 0), [28, 28], [15, 15]));
        assert!(!takes(&primitive::Window::new(&[2, 3]), [28, 28], [27, 26]));
    }

    #[test]
    fn threads_make_several_rows_where_there_are_enough() {
        assert_eq!(run(56, 8 * 56 * 56 * 8, 132), None);
        assert_eq!(run(56, 8 * 56 * 56 * 8, 16), Some(7));
        assert_eq!(run(5, 1 << 20, 16), Some(5));
        assert_eq!(run(9, 1 << 20, 16), Some(5));
        assert_eq!(run(2, 1 << 20, 16), None);
        assert_eq!(run(28, 8, 0), None);
    }
}
