//! Pictures in: image preparation (`kernels/prepare.cu`) and crops of detections (`kernels/crop.cu`).

use super::super::{Addresses, BindError, Kernel, Launch};
use super::source::{Matrix, Source, fit_number};
use super::suffix;
use crate::plan::format::View;
use crate::primitive::{self, ColorOrder, Region};
use bytemuck::{Pod, Zeroable};

/// Output columns and rows of a tile of the preparation.
const TILE: (u32, u32) = (64, 8);
/// Threads of a block that prepares, and pixels of a tile that cuts.
const THREADS: u32 = 256;
/// Threads of the block that chooses detections.
const CHOOSING: u32 = 1024;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct PrepareParams {
    source: Source,
    output: u64,
    strides: [i64; 3],
    mean: [f32; 3],
    std: [f32; 3],
    width: u32,
    height: u32,
    pub(super) first_row: u32,
    pub(super) end_row: u32,
    fit: u32,
    fill: u32,
    blue_first: u32,
    channels_last: u32,
    pub(super) tiles: u32,
    pub(super) tile_columns: u32,
}

/// Fills rows of a network's input from a camera's newest image.
pub(super) struct Prepare {
    pub(super) prepare: primitive::Prepare,
    pub(super) output: View,
}

impl Kernel for Prepare {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (p, layout) = (&self.prepare, &self.output.layout);
        let (columns, rows) = (layout.shape.dim(3).div_ceil(TILE.0), region.rows.end - region.rows.start);
        let tiles = columns * rows.div_ceil(TILE.1);
        let params = PrepareParams {
            source: Source::new(at, p.camera)?,
            output: at.view(&self.output)?,
            strides: [layout.stride(1), layout.stride(2), layout.stride(3)],
            mean: p.mean.map(|m| m.0),
            std: p.std.map(|s| s.0),
            width: layout.shape.dim(3),
            height: layout.shape.dim(2),
            first_row: region.rows.start,
            end_row: region.rows.end,
            fit: fit_number(p.fit),
            fill: u32::from(p.fill),
            blue_first: u32::from(p.order == ColorOrder::Bgr),
            channels_last: u32::from(layout.stride(1).unsigned_abs() < layout.stride(3).unsigned_abs()),
            tiles,
            tile_columns: columns,
        };
        let function = format!("prepare_{}", suffix(self.output.dtype));
        Ok(vec![Launch::new("prepare", function, tiles, width, THREADS, &params)])
    }
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct CropParams {
    source: Source,
    detections: Matrix,
    count: u64,
    shown: u64,
    shown_stride: i64,
    crops: u64,
    strides: [i64; 4],
    classes: u64,
    mean: [f32; 3],
    std: [f32; 3],
    margin: f32,
    width: u32,
    height: u32,
    pub(super) first: u32,
    pub(super) end: u32,
    blue_first: u32,
    pub(super) tiles: u32,
    pub(super) tiles_each: u32,
}

/// Fills crops of a batch from a camera's newest image: one launch says which detections they show, one cuts them out.
pub(super) struct Crops {
    pub(super) crop: primitive::Crop,
    pub(super) detections: View,
    pub(super) count: View,
    pub(super) crops: View,
    pub(super) rows: View,
}

impl Kernel for Crops {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (c, layout) = (&self.crop, &self.crops.layout);
        let size = (layout.shape.dim(3), layout.shape.dim(2));
        let tiles_each = (size.0 * size.1).div_ceil(THREADS);
        let tiles = (region.batch.end - region.batch.start)
            .checked_mul(tiles_each)
            .ok_or(BindError::Large("a batch of crops"))?;
        let params = CropParams {
            source: Source::new(at, c.camera)?,
            detections: Matrix::new(at, &self.detections)?,
            count: at.view(&self.count)?,
            shown: at.view(&self.rows)?,
            shown_stride: self.rows.layout.stride(0),
            crops: at.view(&self.crops)?,
            strides: std::array::from_fn(|axis| layout.stride(axis)),
            classes: c.classes,
            mean: c.mean.map(|m| m.0),
            std: c.std.map(|s| s.0),
            margin: c.margin.0,
            width: size.0,
            height: size.1,
            first: region.batch.start,
            end: region.batch.end,
            blue_first: u32::from(c.order == ColorOrder::Bgr),
            tiles,
            tiles_each,
        };
        let cut = format!("crop_cut_{}", suffix(self.crops.dtype));
        Ok(vec![
            Launch::new("crop", "crop_choose", 1, width, CHOOSING, &params),
            Launch::new("crop", cut, tiles, width, THREADS, &params),
        ])
    }
}
