//! The index of the largest element along an axis: label maps.
//!
//! The first of equals wins. In floats nothing wins over another but by being greater, so NaN never does, and the index is 0
//! where no element is above minus infinity.

use super::Bands;
use super::operand::Place;
use crate::backend::cpu::arena::{Bytes, Memory};
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::Kernels;
use crate::limits::MAX_RANK;
use crate::primitive::Region;
use crate::tensor::DType;
use half::f16;
use std::ops::Range;

/// Rows of a tile where the tactic leaves the choice.
const ROWS: u32 = 8;

/// Writes the index of the largest element along `axis`, as u8 or i32.
pub(super) struct ArgMax {
    axis: usize,
    input: Place,
    output: Place,
    bands: Bands,
}

impl ArgMax {
    pub(super) fn new(axis: usize, input: Place, output: Place, tile: u32) -> ArgMax {
        ArgMax {
            axis,
            input,
            output,
            bands: Bands::new(tile, ROWS),
        }
    }

    /// True if the classes of `[N, C, H, W]` lie beside each other, pixel after pixel, and so do the results.
    fn has_dense_pixels(&self) -> bool {
        let (x, y) = (&self.input.layout, &self.output.layout);
        let classes = i64::from(x.shape.dim(1));
        self.axis == 1
            && x.shape.rank() == 4
            && self.input.dtype == DType::F32
            && x.stride(1) == 1
            && x.stride(3) == classes
            && y.stride(3) == 1
    }

    fn dense_rows(&self, memory: &Memory<'_>, batch: u32, rows: Range<u32>) {
        let (x, y) = (self.input.read(memory), self.output.write(memory));
        let (classes, width) = (self.input.shape().dim(1) as usize, self.input.shape().dim(3) as usize);
        for row in rows {
            let source: &[f32] = x.slice(self.input.at(&[batch, 0, row, 0]), width * classes);
            let to = self.output.at(&[batch, 0, row, 0]);
            match self.output.dtype {
                DType::U8 => Kernels::get().argmax_u8(source, classes, y.slice_mut(to, width)),
                _ => Kernels::get().argmax(source, classes, y.slice_mut(to, width)),
            }
        }
    }

    /// Any rank, axis, type and layout: one batch position and a range of rows, in logical order.
    fn any(&self, memory: &Memory<'_>, batch: u32, rows: Range<u32>) {
        let (x, y) = (self.input.read(memory), self.output.write(memory));
        let shape = self.output.shape();
        let (rank, extent) = (shape.rank(), self.input.shape().dim(self.axis));
        let step = self.input.layout.stride(self.axis);
        let mut ranges: [Range<u32>; MAX_RANK] = std::array::from_fn(|a| 0..shape.dim(a));
        ranges[0] = batch..batch + 1;
        if let Some(axis) = shape.row_axis() {
            ranges[axis] = rows;
        }
        if ranges[..rank].iter().any(|r| r.is_empty()) {
            return;
        }
        let mut index: [u32; MAX_RANK] = std::array::from_fn(|a| ranges[a].start);
        loop {
            let first = self.input.at(&index[..rank]);
            let best = largest(x, self.input.dtype, first, step, extent);
            let to = self.output.at(&index[..rank]);
            match self.output.dtype {
                DType::U8 => y.write(to, best as u8),
                _ => y.write(to, best as i32),
            }
            // The last axis moves fastest.
            let Some(axis) = (0..rank).rev().find(|&a| index[a] + 1 < ranges[a].end) else {
                return;
            };
            index[axis] += 1;
            for a in axis + 1..rank {
                index[a] = ranges[a].start;
            }
        }
    }
}

/// The index of the largest of `extent` elements, `step` apart from element `first` on.
fn largest(bytes: Bytes<'_>, dtype: DType, first: usize, step: i64, extent: u32) -> u32 {
    let at = |i: u32| (first as i64 + i64::from(i) * step) as usize;
    match dtype {
        DType::F32 => first_greatest((0..extent).map(|i| bytes.read::<f32>(at(i))), f32::NEG_INFINITY),
        DType::F16 => first_greatest((0..extent).map(|i| bytes.read::<f16>(at(i)).to_f32()), f32::NEG_INFINITY),
        DType::I32 => first_greatest((0..extent).map(|i| bytes.read::<i32>(at(i))), i32::MIN),
        DType::U8 | DType::Bool => first_greatest((0..extent).map(|i| bytes.read::<u8>(at(i))), u8::MIN),
    }
}

/// The position of the first value that none exceeds, starting from `lowest`.
fn first_greatest<T: PartialOrd>(values: impl Iterator<Item = T>, lowest: T) -> u32 {
    let mut best = (0, lowest);
    for (i, value) in (0..).zip(values) {
        if value > best.1 {
            best = (i, value);
        }
    }
    best.0
}

impl Kernel for ArgMax {
    fn tiles(&self, region: &Region) -> u32 {
        self.bands.count(region)
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _scratch: &mut [u8]) {
        for tile in tiles {
            let (batch, rows) = self.bands.tile(region, tile);
            if self.has_dense_pixels() {
                self.dense_rows(memory, batch, rows);
            } else {
                self.any(memory, batch, rows);
            }
        }
    }
}
