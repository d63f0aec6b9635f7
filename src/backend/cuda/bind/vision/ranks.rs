//! Ranks out: the best classes (`kernels/topk.cu`) and label maps (`kernels/argmax.cu`).

use super::super::{Addresses, BindError, Kernel, Launch};
use super::source::Matrix;
use super::suffix;
use crate::limits::MAX_RANK;
use crate::plan::format::View;
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Threads of the block that ranks a row.
const RANKING: u32 = 1024;
/// Warps of a block that rank a row each, and the most elements of such a row; a lane keeps one at the most.
const ROWS: u32 = 8;
const LANES_HELD: u32 = 4 * WARP;
/// Threads of a block that makes a label map, and results of its tile.
const LABELLING: u32 = 128;
/// Most bytes of shared memory that the pixels of a tile take.
const STAGED: u64 = 32 << 10;
/// Threads that run in step: a tile of pixels keeps whole groups of them busy.
const WARP: u32 = 32;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TopKParams {
    input: Matrix,
    values: Matrix,
    indices: Matrix,
    pub(super) first: u32,
    pub(super) tiles: u32,
}

/// Keeps the k largest along the last axis: `[B, C]` to values `[B, k]` and indices `[B, k]`.
pub(super) struct TopK {
    pub(super) input: View,
    pub(super) values: View,
    pub(super) indices: View,
}

impl Kernel for TopK {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let tiles = region.batch.end - region.batch.start;
        let params = TopKParams {
            input: Matrix::new(at, &self.input)?,
            values: Matrix::new(at, &self.values)?,
            indices: Matrix::new(at, &self.indices)?,
            first: region.batch.start,
            tiles,
        };
        let suffix = suffix(self.input.dtype);
        let last = |view: &View| view.layout.shape.dims().last().copied().unwrap_or(1);
        let few = last(&self.input) <= LANES_HELD && last(&self.values) <= WARP;
        let launch = if few {
            Launch::new(
                "topk",
                format!("topk_lanes_{suffix}"),
                tiles.div_ceil(ROWS),
                width,
                ROWS * WARP,
                &params,
            )
        } else {
            Launch::new("topk", format!("topk_{suffix}"), tiles, width, RANKING, &params)
        };
        Ok(vec![launch])
    }
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct ArgMaxParams {
    input: u64,
    output: u64,
    input_strides: [i64; MAX_RANK],
    output_strides: [i64; MAX_RANK],
    step: i64,
    pub(super) start: [u32; MAX_RANK],
    pub(super) size: [u32; MAX_RANK],
    extent: u32,
    total: u32,
    pub(super) tiles: u32,
    tile_runs: u32,
    tile_pixels: u32,
    padding: u32,
}

/// Writes the index of the largest element along an axis.
pub(super) struct ArgMax {
    pub(super) axis: usize,
    pub(super) input: View,
    pub(super) output: View,
}

impl ArgMax {
    /// Pixels of a tile where the elements of the axis lie beside each other, floats, pixel after pixel along the last axis;
    /// `None` where they do not, or where a tile would not fill a warp.
    fn tile_pixels(&self) -> Option<u32> {
        let layout = &self.input.layout;
        let last = layout.shape.rank().checked_sub(1).filter(|&last| last != self.axis)?;
        let extent = layout.shape.dim(self.axis);
        let dense = layout.stride(self.axis) == 1 && layout.stride(last) == i64::from(extent);
        let pixels = (STAGED / (u64::from(extent) * self.input.dtype.bytes())).min(u64::from(LABELLING)) as u32 / WARP * WARP;
        (dense && self.input.dtype.is_float() && layout.shape.dim(last) >= WARP && pixels >= WARP).then_some(pixels)
    }
}

impl Kernel for ArgMax {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (x, y) = (&self.input.layout, &self.output.layout);
        let rank = y.shape.rank();
        // The axes stand at the end of the kernel's, so that the last is the last.
        let missing = MAX_RANK - rank;
        let axis = |slot: usize| slot.checked_sub(missing);
        let range = |slot: usize| match axis(slot) {
            None => 0..1,
            Some(0) => region.batch.clone(),
            Some(a) if y.shape.row_axis() == Some(a) => region.rows.clone(),
            Some(a) => 0..y.shape.dim(a),
        };
        let size: [u32; MAX_RANK] = std::array::from_fn(|slot| range(slot).end - range(slot).start);
        let total: u32 = size.iter().product();
        let mut params = ArgMaxParams {
            input: at.view(&self.input)?,
            output: at.view(&self.output)?,
            input_strides: std::array::from_fn(|slot| axis(slot).map_or(0, |a| x.stride(a))),
            output_strides: std::array::from_fn(|slot| axis(slot).map_or(0, |a| y.stride(a))),
            step: x.stride(self.axis),
            start: std::array::from_fn(|slot| range(slot).start),
            size,
            extent: x.shape.dim(self.axis),
            total,
            tiles: total.div_ceil(LABELLING),
            tile_runs: 0,
            tile_pixels: 0,
            padding: 0,
        };
        if total == 0 {
            return Ok(Vec::new());
        }
        let types = format!("{}_{}", suffix(self.input.dtype), suffix(self.output.dtype));
        let Some(pixels) = self.tile_pixels() else {
            let function = format!("argmax_{types}");
            return Ok(vec![Launch::new("argmax", function, params.tiles, width, LABELLING, &params)]);
        };
        let run = size[MAX_RANK - 1];
        params.tile_pixels = pixels;
        params.tile_runs = run.div_ceil(pixels);
        params.tiles = total / run * params.tile_runs;
        let mut launch = Launch::new("argmax", format!("argmax_pixels_{types}"), params.tiles, width, LABELLING, &params);
        launch.shared = (u64::from(pixels * params.extent) * self.input.dtype.bytes()) as u32;
        Ok(vec![launch])
    }
}
