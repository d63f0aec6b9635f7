//! Sums of weighed samples, a level of deformable attention: `kernels/sample_sums.cu`.

use super::super::operands::{input, optional_input, output};
use super::super::views::{DeviceView, Divisor};
use super::super::{Addresses, BindError, Launch, count};
use super::planes::steps;
use super::{PIECE, name, outside};
use crate::plan::format::Operator;
use crate::primitive::{Region, Sample};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;
/// Most pieces of a tile.
const LANES: u32 = 8;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: DeviceView,
    places: DeviceView,
    factors: DeviceView,
    start: DeviceView,
    y: DeviceView,
    lots: Divisor,
    runs: Divisor,
    first_batch: u32,
    first_query: u32,
    queries: u32,
    points: u32,
    count: u32,
    lanes: u32,
    outside: u32,
    align_corners: u32,
    steps: [u32; 2],
}

/// The launch of a chunk of an operator that begins with sums of samples.
pub fn launch(
    at: &Addresses<'_>,
    operator: &Operator,
    sample: Sample,
    align_corners: bool,
    region: &Region,
    width: u16,
) -> Result<Launch, BindError> {
    let view = |index| DeviceView::new(at, input(operator, index)?);
    let (x, places, y) = (view(0)?, view(1)?, DeviceView::new(at, output(operator, 0)?)?);
    let channels = y.extents[1];
    let halves = input(operator, 0)?.dtype == DType::F16;
    let in_pieces = halves && channels.is_multiple_of(PIECE) && x.in_pieces(1);
    let steps = in_pieces.then(|| steps(&x)).flatten();
    let queries = region.rows.len() as u32;
    // Of a tile: its pieces, and as many queries as leave each thread a piece of one.
    let lanes = previous_power(channels / PIECE).min(LANES);
    let (lots, runs) = match steps {
        Some(_) => (channels.div_ceil(PIECE * lanes), queries.div_ceil(THREADS / lanes)),
        None => (channels, queries),
    };
    let items = count([region.batch.len() as u32, lots, runs], "a chunk")?;
    let params = Params {
        x,
        places,
        factors: view(2)?,
        start: match optional_input(operator, 3) {
            Some(_) => view(3)?,
            None => DeviceView::default(),
        },
        y,
        lots: Divisor::new(lots),
        runs: Divisor::new(runs),
        first_batch: region.batch.start,
        first_query: region.rows.start,
        queries,
        points: places.extents[2],
        count: items,
        lanes: lanes.ilog2(),
        outside: outside(sample.outside),
        align_corners: u32::from(align_corners),
        steps: steps.unwrap_or_default(),
    };
    let (suffix, blocks) = match steps {
        Some(_) => ("_pieces", items),
        None => ("", items.div_ceil(THREADS)),
    };
    let function = format!("sample_sums_{}{suffix}", name(sample.sampling));
    Ok(Launch::new("sample_sums", function, blocks, width, THREADS, &params))
}

/// The largest power of two that is no more than `count`, and 1 at least.
fn previous_power(count: u32) -> u32 {
    1 << count.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_have_a_power_of_two_of_pieces() {
        assert_eq!([0, 1, 3, 4, 7, 9].map(previous_power), [1, 1, 2, 4, 4, 8]);
    }

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 5 * 88 + 2 * 12 + 10 * 4);
        let source = include_str!("../../kernels/sample_sums.cu");
        assert!(source.contains(&format!("SUMS_THREADS = {THREADS};")));
        let shared = include_str!("../../kernels/sample_pieces.cuh");
        assert!(shared.contains(&format!("PIECE = {PIECE};")));
    }
}
