//! Boxes out: decoding of a head (`kernels/decode.cu`) and non-maximum suppression
//! (`kernels/nms_choose.cu`, `kernels/nms.cu`).

use super::super::{Addresses, BindError, COUNTER_BYTES, Kernel, Launch};
use super::source::{Matrix, entry, fit_number};
use super::suffix;
use crate::plan::format::View;
use crate::primitive::{self, Region};
use bytemuck::{Pod, Zeroable};

/// Threads of a block that decodes, or compares boxes.
const THREADS: u32 = 256;
/// Anchors of a tile that decodes.
const ANCHORS: u32 = 32;
/// Threads of a block that reads scores, and of the one that picks boxes.
const MANY: u32 = 1024;
/// Threads of a block that ranks.
const RANKING: u32 = 512;
/// Scores of a tile.
const TILE_SCORES: u32 = 4096;
/// Most candidates that take part, and most that are ranked.
const CHOSEN: u64 = 4096;
const RANKED: u64 = 2 * CHOSEN;
/// Candidates of a word of the covering matrix.
const WORD: u64 = 64;
/// Candidates that a block ranks in a turn.
const RANK_TILE: u64 = 32;
/// Most blocks of a launch whose work is known on the device only: as many as large GPUs run at once.
const WIDE: u32 = 264;
/// The same of small blocks.
const COMPARING: u32 = 4 * WIDE;

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
    pub(super) counters: u64,
    pub(super) listed: u64,
    taken: u64,
    sorted: u64,
    pub(super) covers: u64,
    input: [u32; 2],
    fit: u32,
    score: f32,
    iou: f32,
    pub(super) tiles: u32,
}

/// Bytes of the counters and of the histogram behind them, at the head of a workspace's.
const COUNTERS: u64 = 64 + 4 * 1024;
const _: () = assert!(COUNTERS <= COUNTER_BYTES);
/// Bytes of a sorted candidate.
const CANDIDATE: u64 = 32;

/// Keeps the best boxes of a picture: boxes `[A, 4]` and scores `[A, C]` to detections `[max, 6]` and their count.
///
/// The workspace holds counters, keys of candidates before and after they are narrowed down, the best of them in order, and
/// a bit for each pair of these.
pub(super) struct NonMaximum {
    pub(super) nms: primitive::Nms,
    pub(super) boxes: View,
    pub(super) scores: View,
    pub(super) detections: View,
    pub(super) count: View,
}

/// Bytes of the parts of the workspace, in their order.
struct Parts {
    listed: u64,
    taken: u64,
    sorted: u64,
    covers: u64,
}

impl Parts {
    fn bytes(&self) -> u64 {
        self.listed + self.taken + self.sorted + self.covers
    }
}

impl NonMaximum {
    fn parts(&self) -> Parts {
        let scores = self.scores.layout.shape.elements();
        let words = scores.min(CHOSEN).div_ceil(WORD);
        let key = size_of::<u64>() as u64;
        Parts {
            listed: words * WORD * key,
            taken: if scores > CHOSEN { RANKED * key } else { 0 },
            sorted: words * WORD * CANDIDATE,
            covers: words * (words + 1) / 2 * WORD * key,
        }
    }
}

impl Kernel for NonMaximum {
    fn workspace(&self) -> u64 {
        COUNTER_BYTES + self.parts().bytes()
    }

    fn launches(&self, at: &Addresses<'_>, _region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let parts = self.parts();
        let scratch = at.scratch(parts.bytes())?;
        let mut offset = 0;
        let mut part = |bytes| {
            let area = scratch.part(offset, bytes).ok_or(BindError::Reference)?;
            offset += bytes;
            Ok::<u64, BindError>(area.address)
        };
        let scores = u32::try_from(self.scores.layout.shape.elements()).map_err(|_| BindError::Large("the number of scores"))?;
        let tiles = scores.div_ceil(TILE_SCORES);
        let params = NmsParams {
            boxes: Matrix::new(at, &self.boxes)?,
            scores: Matrix::new(at, &self.scores)?,
            detections: Matrix::new(at, &self.detections)?,
            count: at.view(&self.count)?,
            camera: entry(at, self.nms.camera)?,
            counters: at.counters(COUNTERS)?.address,
            listed: part(parts.listed)?,
            taken: part(parts.taken)?,
            sorted: part(parts.sorted)?,
            covers: part(parts.covers)?,
            input: [self.nms.input.0, self.nms.input.1],
            fit: fit_number(self.nms.fit),
            score: self.nms.score.0,
            iou: self.nms.iou.0,
            tiles,
        };
        let ranked = u64::from(scores).min(RANKED).div_ceil(RANK_TILE) as u32;
        let reading = tiles.min(WIDE);
        let mut launches = vec![Launch::new("nms_choose", "nms_filter", reading, width, MANY, &params)];
        if u64::from(scores) > CHOSEN {
            launches.push(Launch::new("nms_choose", "nms_narrow", reading, width, MANY, &params));
        }
        launches.push(Launch::new("nms_choose", "nms_rank", ranked, width, RANKING, &params));
        let words = u64::from(scores).min(CHOSEN).div_ceil(WORD);
        let compared = (words * (words + 1) / 2).min(u64::from(COMPARING)) as u32;
        launches.push(Launch::new("nms", "nms_cover", compared, width, THREADS, &params));
        launches.push(Launch::new("nms", "nms_pick", 1, width, MANY, &params));
        Ok(launches)
    }
}
