//! Decoding of an anchor-free YOLOX head: Ge et al., "YOLOX: Exceeding YOLO Series in 2021", section 2.1.
//!
//! Rows of the head stand for the cells of the grids of stride 8, 16 and 32, row by row. A row `(x, y, w, h, object, class..)`
//! in cell `(i, j)` of stride `s` is a box of centre `((x + i) s, (y + j) s)` and size `(exp(w) s, exp(h) s)` with the scores
//! `object * class`; object and class come through their sigmoid already.

use super::operand::{Place, read_f32};
use crate::backend::cpu::arena::Memory;
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{Kernels, Unary};
use crate::primitive::Region;
use crate::tensor::DType;
use std::ops::Range;

/// Anchors of a tile.
const ANCHORS: u32 = 64;
/// Values of a head row before the classes.
const BEFORE_CLASSES: u32 = 5;

/// Decodes a head of shape `[1, A, 5 + C]` to boxes `[A, 4]` (x0, y0, x1, y1 in input pixels) and scores `[A, C]`.
pub(super) struct DecodeYolox {
    input: (u32, u32),
    head: Place,
    boxes: Place,
    scores: Place,
}

impl DecodeYolox {
    pub(super) fn new(input: (u32, u32), head: Place, [boxes, scores]: [Place; 2]) -> DecodeYolox {
        DecodeYolox {
            input,
            head,
            boxes,
            scores,
        }
    }

    /// Stride and grid position of an anchor.
    fn cell(&self, anchor: u32) -> (f32, f32, f32) {
        let mut rest = anchor;
        for stride in [8, 16] {
            let (columns, rows) = (self.input.0 / stride, self.input.1 / stride);
            if rest < columns * rows {
                return (stride as f32, (rest % columns) as f32, (rest / columns) as f32);
            }
            rest -= columns * rows;
        }
        let columns = self.input.0 / 32;
        (32.0, (rest % columns) as f32, (rest / columns) as f32)
    }

    /// True if an anchor's classes lie beside each other, in f32.
    fn has_dense_rows(&self) -> bool {
        self.head.dtype == DType::F32 && self.head.layout.stride(2) == 1 && self.scores.layout.stride(1) == 1
    }

    fn decode(&self, memory: &Memory<'_>, anchors: Range<u32>) {
        let head = self.head.read(memory);
        let value = |a: u32, i: u32| read_f32(head, self.head.dtype, self.head.at(&[0, a, i]));
        let mut sizes = [[0.0; 2]; ANCHORS as usize];
        let sizes = &mut sizes[..anchors.len()];
        for (a, size) in anchors.clone().zip(sizes.iter_mut()) {
            *size = [value(a, 2), value(a, 3)];
        }
        Kernels::get().unary_in_place(Unary::Exp, sizes.as_flattened_mut());
        let (boxes, scores) = (self.boxes.write(memory), self.scores.write(memory));
        for (a, size) in anchors.zip(sizes) {
            let (stride, column, row) = self.cell(a);
            let (x, y) = ((value(a, 0) + column) * stride, (value(a, 1) + row) * stride);
            let (w, h) = (size[0] * stride * 0.5, size[1] * stride * 0.5);
            for (i, edge) in [x - w, y - h, x + w, y + h].into_iter().enumerate() {
                boxes.write(self.boxes.at(&[a, i as u32]), edge);
            }
            let object = value(a, 4);
            let classes = self.scores.shape().dim(1);
            if self.has_dense_rows() {
                let from: &[f32] = head.slice(self.head.at(&[0, a, BEFORE_CLASSES]), classes as usize);
                let to = scores.slice_mut(self.scores.at(&[a, 0]), classes as usize);
                to.iter_mut()
                    .zip(from)
                    .for_each(|(score, class): (&mut f32, _)| *score = object * class);
            } else {
                for class in 0..classes {
                    scores.write(self.scores.at(&[a, class]), object * value(a, BEFORE_CLASSES + class));
                }
            }
        }
    }
}

impl Kernel for DecodeYolox {
    fn tiles(&self, region: &Region) -> u32 {
        (region.batch.len() as u32).div_ceil(ANCHORS)
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _scratch: &mut [u8]) {
        for tile in tiles {
            let start = region.batch.start + tile * ANCHORS;
            self.decode(memory, start..(start + ANCHORS).min(region.batch.end));
        }
    }
}
