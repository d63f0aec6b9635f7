//! Elements at places that a frame computes: samples of pictures (`kernels/sample.cu`, `kernels/sample_planes.cu`), their sums
//! (`kernels/sample_sums.cu`) and the sources of what is scattered (`kernels/scatter.cu`).

mod planes;
mod sums;

use super::operands::{check, head, input, optional_input, output};
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch, count};
use crate::plan::format::Operator;
use crate::primitive::{Outside, Places, Primitive, Region, Sample, Sampling};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};
use planes::{Planes, Sink};

/// Threads of a block that samples.
const SAMPLE_THREADS: u32 = 256;
/// Halves of neighbouring channels that a thread samples at once; the most channels of a lot.
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

/// What a thread samples.
#[derive(Clone, Copy)]
enum Way {
    Elements,
    Pieces,
    Lots,
}

impl Way {
    fn suffix(self) -> &'static str {
        match self {
            Way::Elements => "",
            Way::Pieces => "_pieces",
            Way::Lots => "_lots",
        }
    }
}

fn name(sampling: Sampling) -> &'static str {
    match sampling {
        Sampling::Nearest => "nearest",
        Sampling::Linear => "linear",
        Sampling::Cubic => "cubic",
    }
}

/// The number in `kernels/sample.cuh`.
fn outside(outside: Outside) -> u32 {
    match outside {
        Outside::Zero => 0,
        Outside::Border => 1,
        Outside::Reflection => 2,
    }
}

/// True if the several pixels of a row lie side by side, or of a column where rows have one.
fn places_abreast(y: &DeviceView) -> bool {
    let axis = if y.extents[3] > 1 { 3 } else { 2 };
    y.extents[axis] > 1 && y.strides[axis] == 1
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
            Places::Sums { align_corners } => return sums::launch(at, &self.operator, sample, align_corners, region, width),
            Places::Grid { align_corners } => (true, align_corners, None, 1, 1),
            Places::Taps { window, groups, parts } => (false, false, Some(window), groups, parts),
        };
        let (together, moved) = (channels / parts, channels / groups);
        let halves = output(&self.operator, 0)?.dtype == DType::F16;
        let whole = together.is_multiple_of(PIECE) && moved.is_multiple_of(PIECE);
        let pieces = halves && whole && x.in_pieces(1);
        let places = places_abreast(&y);
        let sink = match y.in_pieces(1) {
            true => planes::steps(&y).map(Sink::Pixels),
            false => places.then_some(Sink::Planes),
        };
        if let (true, Some(steps), Some(sink)) = (grid && pieces, planes::steps(&x), sink) {
            let planes = Planes {
                x,
                grid: view(1)?,
                y,
                steps,
                sink,
                outside: outside(sample.outside),
                align_corners,
            };
            if planes.pays() {
                return planes.launch(sample.sampling, region, width);
            }
        }
        let way = if pieces && y.in_pieces(1) {
            Way::Pieces
        } else if grid && channels > 1 && (places || x.strides[1] != 1) {
            Way::Lots
        } else {
            Way::Elements
        };
        let function = format!("sample_{}{}", name(sample.sampling), way.suffix());
        let pieces = match way {
            Way::Elements => y.extents[1],
            Way::Pieces | Way::Lots => y.extents[1].div_ceil(PIECE),
        };
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
            outside: outside(sample.outside),
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
mod tests;
