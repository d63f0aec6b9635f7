//! Boxes out: decoding of a head (`kernels/decode.cu`) and non-maximum suppression (`kernels/nms.cu`).

use super::super::{Addresses, BindError, Kernel, Launch};
use super::source::{Matrix, entry, fit_number};
use super::suffix;
use crate::plan::format::View;
use crate::primitive::{self, Region};
use bytemuck::{Pod, Zeroable};

/// Threads of a block that decodes, or filters.
const THREADS: u32 = 256;
/// Anchors of a tile that decodes.
const ANCHORS: u32 = 32;
/// Scores of a tile that filters.
const FILTERED: u32 = 1024;
/// Threads of the block that picks boxes.
const PICKING: u32 = 1024;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DecodeParams {
    head: Matrix,
    boxes: Matrix,
    scores: Matrix,
    input: [u32; 2],
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) tiles: u32,
    padding: u32,
}

/// Decodes a head of shape `[1, A, 5 + C]` to boxes `[A, 4]` and scores `[A, C]`.
pub(super) struct DecodeYolox {
    pub(super) input: (u32, u32),
    pub(super) head: View,
    pub(super) boxes: View,
    pub(super) scores: View,
}

impl Kernel for DecodeYolox {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let tiles = (region.batch.end - region.batch.start).div_ceil(ANCHORS);
        let params = DecodeParams {
            head: Matrix::of_axes(at, &self.head, 1)?,
            boxes: Matrix::new(at, &self.boxes)?,
            scores: Matrix::new(at, &self.scores)?,
            input: [self.input.0, self.input.1],
            first: region.batch.start,
            end: region.batch.end,
            tiles,
            padding: 0,
        };
        let function = format!("decode_{}", suffix(self.head.dtype));
        Ok(vec![Launch::new("decode", function, tiles, width, THREADS, &params)])
    }
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct NmsParams {
    boxes: Matrix,
    scores: Matrix,
    detections: Matrix,
    count: u64,
    camera: u64,
    pub(super) found: u64,
    pub(super) kept: u64,
    pub(super) candidates: u64,
    input: [u32; 2],
    fit: u32,
    score: f32,
    iou: f32,
    pub(super) tiles: u32,
}

/// Bytes in front of the kept boxes: the number of candidates, alone in its sector.
const COUNTER: u64 = 64;
/// Bytes of the kept boxes: one entry for each candidate that takes part.
const KEPT: u64 = 4096 * 32;

/// Keeps the best boxes of a picture: boxes `[A, 4]` and scores `[A, C]` to detections `[max, 6]` and their count.
///
/// The workspace holds the number of candidates, the kept boxes, and an index for each score that could be a candidate.
pub(super) struct NonMaximum {
    pub(super) nms: primitive::Nms,
    pub(super) boxes: View,
    pub(super) scores: View,
    pub(super) detections: View,
    pub(super) count: View,
}

impl NonMaximum {
    /// Bytes of the candidates' indices.
    fn candidates(&self) -> u64 {
        self.scores.layout.shape.elements() * size_of::<u32>() as u64
    }
}

impl Kernel for NonMaximum {
    fn workspace(&self) -> u64 {
        COUNTER + KEPT + self.candidates()
    }

    fn launches(&self, at: &Addresses<'_>, _region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let part = |offset, bytes| at.workspace.part(offset, bytes).ok_or(BindError::Reference);
        let scores = u32::try_from(self.scores.layout.shape.elements()).map_err(|_| BindError::Large("the number of scores"))?;
        let tiles = scores.div_ceil(FILTERED);
        let params = NmsParams {
            boxes: Matrix::new(at, &self.boxes)?,
            scores: Matrix::new(at, &self.scores)?,
            detections: Matrix::new(at, &self.detections)?,
            count: at.view(&self.count)?,
            camera: entry(at, self.nms.camera)?,
            found: part(0, COUNTER)?.address,
            kept: part(COUNTER, KEPT)?.address,
            candidates: part(COUNTER + KEPT, self.candidates())?.address,
            input: [self.nms.input.0, self.nms.input.1],
            fit: fit_number(self.nms.fit),
            score: self.nms.score.0,
            iou: self.nms.iou.0,
            tiles,
        };
        Ok(vec![
            Launch::new("nms", "nms_filter", tiles, width, THREADS, &params),
            Launch::new("nms", "nms_pick", 1, width, PICKING, &params),
        ])
    }
}
