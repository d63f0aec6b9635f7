//! Elements at places that a frame computes: samples of pictures (`kernels/sample.cu`) and the sources of what is scattered
//! (`kernels/scatter.cu`).

use super::operands::{check, head, input, optional_input, output};
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch, count};
use crate::plan::format::Operator;
use crate::primitive::{Outside, Places, Primitive, Region, Sample, Sampling};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block that samples.
const SAMPLE_THREADS: u32 = 256;
/// Halves of neighbouring channels that a thread samples at once.
const PIECE: u32 = 8;
/// Threads of a block that looks for sources, and the rows it has.
const SCATTER_THREADS: u32 = 512;
const SCATTER_ROWS: u32 = 1024;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct SampleParams {
    x: DeviceView,
    places: DeviceView,
    factors: DeviceView,
    y: DeviceView,
    pieces: Divisor,
    columns: Divisor,
    rows: Divisor,
    together: Divisor,
    taps: Divisor,
    moved: Divisor,
    wide: Divisor,
    first_batch: u32,
    first_row: u32,
    count: u32,
    tiles: u32,
    grid: u32,
    outside: u32,
    align_corners: u32,
    stride: [u32; 2],
    pad: [u32; 2],
    dilation: [u32; 2],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ScatterParams {
    places: DeviceView,
    y: DeviceView,
    rows: u32,
    count: u32,
    common: u32,
    tiles: u32,
}

enum Body {
    Sample(Sample),
    Sources { common: bool },
}

struct Placed {
    operator: Operator,
    body: Body,
}

/// Compiles a sampling, or a search for sources.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let body = match head(operator)?.primitive {
        Primitive::Sample(sample) => Body::Sample(sample),
        Primitive::Sources { common } => Body::Sources { common },
        _ => return Err(BindError::Tactic("it samples nothing and scatters nothing")),
    };
    Ok(Box::new(Placed {
        operator: operator.clone(),
        body,
    }))
}

impl Placed {
    fn sample(&self, sample: Sample, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Launch, BindError> {
        let view = |index| DeviceView::new(at, input(&self.operator, index)?);
        let (x, y) = (view(0)?, DeviceView::new(at, output(&self.operator, 0)?)?);
        let channels = x.extents[1];
        let (grid, align_corners, window, groups, parts) = match sample.places {
            Places::Grid { align_corners } => (true, align_corners, None, 1, 1),
            Places::Taps { window, groups, parts } => (false, false, Some(window), groups, parts),
        };
        let (together, moved) = (channels / parts, channels / groups);
        let halves = output(&self.operator, 0)?.dtype == DType::F16;
        let whole = together.is_multiple_of(PIECE) && moved.is_multiple_of(PIECE);
        let in_pieces = halves && whole && x.in_pieces(1) && y.in_pieces(1);
        let piece = if in_pieces { PIECE } else { 1 };
        let function = match (sample.sampling, in_pieces) {
            (Sampling::Nearest, false) => "sample_nearest",
            (Sampling::Linear, false) => "sample_linear",
            (Sampling::Cubic, false) => "sample_cubic",
            (Sampling::Nearest, true) => "sample_nearest_pieces",
            (Sampling::Linear, true) => "sample_linear_pieces",
            (Sampling::Cubic, true) => "sample_cubic_pieces",
        };
        let pieces = y.extents[1] / piece;
        let rows = region.rows.len() as u32;
        let items = count([region.batch.len() as u32, rows, y.extents[3], pieces], "a chunk")?;
        let of = |pick: fn(&crate::primitive::Window) -> [u32; 3], otherwise: u32| {
            window.as_ref().map_or([otherwise; 2], |w| [pick(w)[0], pick(w)[1]])
        };
        let params = SampleParams {
            x,
            places: view(1)?,
            factors: match optional_input(&self.operator, 2) {
                Some(_) => view(2)?,
                None => DeviceView::default(),
            },
            y,
            pieces: Divisor::new(pieces),
            columns: Divisor::new(y.extents[3]),
            rows: Divisor::new(rows),
            together: Divisor::new(together),
            taps: Divisor::new(window.map_or(1, |w| w.taps() as u32)),
            moved: Divisor::new(moved),
            wide: Divisor::new(window.map_or(1, |w| w.kernel[1])),
            first_batch: region.batch.start,
            first_row: region.rows.start,
            count: items,
            tiles: items.div_ceil(SAMPLE_THREADS),
            grid: u32::from(grid),
            outside: match sample.outside {
                Outside::Zero => 0,
                Outside::Border => 1,
                Outside::Reflection => 2,
            },
            align_corners: u32::from(align_corners),
            stride: of(|w| [w.stride[0], w.stride[1], 0], 1),
            pad: of(|w| [w.pad_begin[0], w.pad_begin[1], 0], 0),
            dilation: of(|w| [w.dilation[0], w.dilation[1], 0], 1),
        };
        Ok(Launch::new("sample", function, params.tiles, width, SAMPLE_THREADS, &params))
    }

    fn sources(&self, common: bool, at: &Addresses<'_>, width: u16) -> Result<Launch, BindError> {
        let places = DeviceView::new(at, input(&self.operator, 0)?)?;
        let y = DeviceView::new(at, output(&self.operator, 0)?)?;
        let tiles = y.extents[0].div_ceil(SCATTER_ROWS);
        let params = ScatterParams {
            places,
            y,
            rows: y.extents[0],
            count: places.extents[0],
            common: u32::from(common),
            tiles,
        };
        Ok(Launch::new("scatter", "scatter_sources", tiles, width, SCATTER_THREADS, &params))
    }
}

impl Kernel for Placed {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let empty = output(&self.operator, 0)?.layout.shape.elements() == 0;
        if empty || region.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![match self.body {
            Body::Sample(sample) => self.sample(sample, at, region, width)?,
            Body::Sources { common } => self.sources(common, at, width)?,
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!(
            (size_of::<SampleParams>(), offset_of!(SampleParams, first_batch)),
            (4 * 88 + 7 * 12 + 13 * 4, 4 * 88 + 7 * 12)
        );
        assert_eq!(size_of::<ScatterParams>(), 2 * 88 + 16);
        let (sample, scatter) = (include_str!("../kernels/sample.cu"), include_str!("../kernels/scatter.cu"));
        assert!(sample.contains(&format!("SAMPLE_THREADS = {SAMPLE_THREADS};")) && sample.contains(&format!("SAMPLE_PIECE = {PIECE};")));
        assert!(scatter.contains(&format!("SCATTER_THREADS = {SCATTER_THREADS};")));
        assert!(scatter.contains(&format!("SCATTER_ROWS = {SCATTER_ROWS};")));
    }
}
