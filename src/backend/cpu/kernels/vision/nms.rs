//! Non-maximum suppression per class, and the way back to pixels of the source picture.
//!
//! Greedy: candidates in falling score, each kept unless a kept box of its class covers it by more than the bound. Equal
//! scores go by lower anchor, then lower class. NaN scores and boxes that are not finite are no candidates. Only the
//! [`CANDIDATES`] best are looked at: what lies below them has no part in the result, whatever was suppressed.

use super::operand::Place;
use super::topk::falling;
use crate::backend::cpu::arena::Memory;
use crate::backend::cpu::kernel::Kernel;
use crate::primitive::{Nms, Placement, Region};
use std::ops::Range;

/// Most candidates that take part.
pub(super) const CANDIDATES: usize = 4096;
/// Values of a detection: x0, y0, x1, y1, score, class.
const VALUES: u32 = 6;

/// Keeps the best boxes of a picture: boxes `[A, 4]` and scores `[A, C]` to detections `[max, 6]` and their count.
///
/// Detections stand in falling score, cut to the picture; rows from the count on are 0. Without a picture there are none.
pub(super) struct NonMaximum {
    nms: Nms,
    boxes: Place,
    scores: Place,
    detections: Place,
    count: Place,
}

/// A box: left, top, right, bottom in input pixels.
type Bounds = [f32; 4];

/// A box that was kept.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Kept {
    bounds: Bounds,
    class: u32,
}

impl NonMaximum {
    pub(super) fn new(nms: Nms, [boxes, scores]: [Place; 2], [detections, count]: [Place; 2]) -> NonMaximum {
        NonMaximum {
            nms,
            boxes,
            scores,
            detections,
            count,
        }
    }

    fn classes(&self) -> u32 {
        self.scores.shape().dim(1)
    }

    fn bounds(&self, memory: &Memory<'_>, anchor: u32) -> Bounds {
        let boxes = self.boxes.read(memory);
        std::array::from_fn(|i| boxes.read(self.boxes.at(&[anchor, i as u32])))
    }

    /// Writes the keys of the best candidates to the front of `keys`, best first, and gives their number.
    ///
    /// A key holds the falling score above the index `anchor * classes + class`, so keys are unique and their ascending order
    /// is the order of the candidates.
    fn candidates(&self, memory: &Memory<'_>, keys: &mut [u64]) -> usize {
        let scores = self.scores.read(memory);
        let classes = self.classes();
        let dense = self.scores.layout.stride(1) == 1;
        let mut found = 0;
        let mut take = |anchor: u32, class: u32, score: f32| {
            if score >= self.nms.score.0 {
                if found == keys.len() {
                    keys.select_nth_unstable(CANDIDATES);
                    found = CANDIDATES;
                }
                keys[found] = u64::from(falling(score)) << 32 | (u64::from(anchor) * u64::from(classes) + u64::from(class));
                found += 1;
            }
        };
        for anchor in 0..self.scores.shape().dim(0) {
            if dense {
                let row: &[f32] = scores.slice(self.scores.at(&[anchor, 0]), classes as usize);
                if row.iter().any(|&s| s >= self.nms.score.0) {
                    row.iter().zip(0..).for_each(|(&s, class)| take(anchor, class, s));
                }
            } else {
                (0..classes).for_each(|class| take(anchor, class, scores.read(self.scores.at(&[anchor, class]))));
            }
        }
        keys[..found].sort_unstable();
        found.min(CANDIDATES)
    }

    fn suppress(&self, memory: &Memory<'_>, picture: (u32, u32), scratch: &mut [u8]) -> usize {
        let (keys, kept) = scratch.split_at_mut(2 * CANDIDATES * size_of::<u64>());
        let keys: &mut [u64] = bytemuck::cast_slice_mut(keys);
        let max = self.detections.shape().dim(0) as usize;
        let kept: &mut [Kept] = bytemuck::cast_slice_mut(&mut kept[..max * size_of::<Kept>()]);
        let placement = self.nms.fit.place(picture, self.nms.input);
        let scores = self.scores.read(memory);
        let mut count = 0;
        let found = self.candidates(memory, keys);
        for key in &keys[..found] {
            if count == max {
                break;
            }
            let index = *key as u32;
            let (anchor, class) = (index / self.classes(), index % self.classes());
            let bounds = self.bounds(memory, anchor);
            let covered = |k: &Kept| k.class == class && overlap(&k.bounds, &bounds) > self.nms.iou.0;
            if bounds.iter().any(|e| !e.is_finite()) || kept[..count].iter().any(covered) {
                continue;
            }
            kept[count] = Kept { bounds, class };
            let [x0, y0, x1, y1] = to_source(&bounds, &placement, picture);
            let score = scores.read(self.scores.at(&[anchor, class]));
            self.write(memory, count as u32, [x0, y0, x1, y1, score, class as f32]);
            count += 1;
        }
        count
    }

    fn write(&self, memory: &Memory<'_>, row: u32, values: [f32; VALUES as usize]) {
        let out = self.detections.write(memory);
        for (i, value) in values.into_iter().enumerate() {
            out.write(self.detections.at(&[row, i as u32]), value);
        }
    }
}

/// Intersection over union; 0 for boxes without area.
fn overlap(a: &Bounds, b: &Bounds) -> f32 {
    let width = a[2].min(b[2]) - a[0].max(b[0]);
    let height = a[3].min(b[3]) - a[1].max(b[1]);
    if width <= 0.0 || height <= 0.0 {
        return 0.0;
    }
    let area = |r: &Bounds| (r[2] - r[0]) * (r[3] - r[1]);
    let both = width * height;
    both / (area(a) + area(b) - both)
}

/// From input pixels to pixels of the source picture, cut to it.
fn to_source(bounds: &Bounds, placement: &Placement, picture: (u32, u32)) -> Bounds {
    let x = |v: f32| ((v - placement.x as f32) / placement.scale_x).clamp(0.0, picture.0 as f32);
    let y = |v: f32| ((v - placement.y as f32) / placement.scale_y).clamp(0.0, picture.1 as f32);
    [x(bounds[0]), y(bounds[1]), x(bounds[2]), y(bounds[3])]
}

impl Kernel for NonMaximum {
    fn tiles(&self, _region: &Region) -> u32 {
        1
    }

    fn run(&self, memory: &Memory<'_>, _region: &Region, tiles: Range<u32>, scratch: &mut [u8]) {
        if tiles.is_empty() {
            return;
        }
        let params = memory.params.get(self.nms.camera.index()).copied().unwrap_or_default();
        let count = match params.format {
            Some(_) if params.width > 0 && params.height > 0 => self.suppress(memory, (params.width, params.height), scratch),
            _ => 0,
        };
        for row in count as u32..self.detections.shape().dim(0) {
            self.write(memory, row, [0.0; VALUES as usize]);
        }
        self.count.write(memory).write(self.count.at(&[0]), count as i32);
    }

    fn scratch_bytes(&self) -> usize {
        2 * CANDIDATES * size_of::<u64>() + self.detections.shape().dim(0) as usize * size_of::<Kept>()
    }
}
