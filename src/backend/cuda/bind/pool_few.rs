//! Pooling of f16 of few channels side by side, in rows whose pixels lie at one distance: `kernels/pool_few.cu`.

use super::groups::Pixels;
use super::operands::{input, output};
use super::views::Divisor;
use super::window::Window;
use super::{Addresses, BindError, Launch, count};
use crate::plan::format::Operator;
use crate::primitive::{self, PoolKind, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;
/// Elements of an output row that a thread has.
const RUN: u32 = 4;
/// Channels from which on a thread has enough to do with a pixel's.
const CHANNELS: u32 = 8;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: u64,
    y: u64,
    x_batch: i64,
    x_row: i64,
    y_batch: i64,
    y_row: i64,
    x_pixel: i64,
    y_pixel: i64,
    window: Window,
    runs: Divisor,
    rows: Divisor,
    channels: Divisor,
    steps: [Divisor; 2],
    height: u32,
    width: u32,
    length: u32,
    first_batch: u32,
    first_row: u32,
    average: u32,
    count_pad: u32,
    count: u32,
    padding: u32,
}

/// Whether a window's places along both axes are counted in 31 bits, inside pictures of `from` and `to` positions and behind them.
fn is_counted(window: &primitive::Window, from: [u32; 2], to: [u32; 2]) -> bool {
    (0..2).all(|axis| {
        let [kernel, stride, step, begin, end] =
            [&window.kernel, &window.stride, &window.dilation, &window.pad_begin, &window.pad_end].map(|of| u64::from(of[axis]));
        let output = u64::from(to[axis]) * stride;
        let input = u64::from(from[axis]) + begin + end;
        output.max(input) + kernel * step <= i32::MAX as u64 / 2
    })
}

/// The launch of a chunk; `None` for what the kernel does not take.
pub fn launch(
    at: &Addresses<'_>,
    operator: &Operator,
    (kind, window): (&PoolKind, &primitive::Window),
    region: &Region,
    width: u16,
) -> Result<Option<Launch>, BindError> {
    let (from, to) = (input(operator, 0)?, output(operator, 0)?);
    let [_, channels, down, across] = [0, 1, 2, 3].map(|axis| to.layout.shape.dim(axis));
    let halves = from.dtype == DType::F16 && to.dtype == DType::F16;
    if operator.calls.len() != 1 || window.axes != 2 || channels >= CHANNELS || !halves {
        return Ok(None);
    }
    let [x, y] = [Pixels::new(at, from)?, Pixels::new(at, to)?];
    if !is_counted(window, [x.height, x.width], [down, across]) {
        return Ok(None);
    }
    let length = count([across, channels], "a row")?;
    let runs = length.div_ceil(RUN);
    let (samples, rows) = (region.batch.len() as u32, region.rows.len() as u32);
    let params = Params {
        x: x.address,
        y: y.address,
        x_batch: x.batch,
        x_row: x.row,
        y_batch: y.batch,
        y_row: y.row,
        x_pixel: x.pixel,
        y_pixel: y.pixel,
        window: Window::new(window),
        runs: Divisor::new(runs),
        rows: Divisor::new(rows),
        channels: Divisor::new(channels),
        steps: [0, 1].map(|axis| Divisor::new(window.dilation[axis])),
        height: x.height,
        width: x.width,
        length,
        first_batch: region.batch.start,
        first_row: region.rows.start,
        average: u32::from(matches!(kind, PoolKind::Average { .. })),
        count_pad: u32::from(matches!(kind, PoolKind::Average { count_pad: true })),
        count: count([samples, rows, runs], "a chunk")?,
        padding: 0,
    };
    let blocks = params.count.div_ceil(THREADS);
    Ok(Some(Launch::new("pool_few", "pool_few", blocks, width, THREADS, &params)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 224);
        let source = include_str!("../kernels/pool_few.cu");
        for line in [format!("THREADS = {THREADS};"), format!("RUN = {RUN};")] {
            assert!(source.contains(&line), "{line}");
        }
    }

    #[test]
    fn places_of_windows_have_31_bits() {
        let mut window = primitive::Window::new(&[3, 3]);
        window.stride[..2].copy_from_slice(&[2, 2]);
        assert!(is_counted(&window, [180, 320], [90, 160]));
        assert!(!is_counted(&window, [180, 1 << 30], [90, 1 << 29]), "wide pictures");
        window.dilation[1] = 1 << 29;
        assert!(!is_counted(&window, [180, 320], [90, 160]), "taps far apart");
    }
}
