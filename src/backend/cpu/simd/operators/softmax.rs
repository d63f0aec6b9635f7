//! Softmax along an axis whose elements are contiguous.

use super::Context;
use super::site::Site;
use crate::backend::cpu::arena::Memory;
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::Kernels;
use crate::limits::MAX_RANK;
use crate::plan::format::{Operand, Operator};
use crate::primitive::{Primitive, Region};
use std::ops::Range;

/// Elements of a tile, about.
const TILE: usize = 4096;

struct Softmax {
    kernels: &'static Kernels,
    x: Site,
    out: Site,
    axis: usize,
}

/// Compiles a softmax; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator) -> Option<Box<dyn Kernel>> {
    let [call] = operator.calls.as_slice() else { return None };
    let Primitive::Softmax { axis } = call.primitive else { return None };
    let axis = usize::from(axis);
    let x = Site::of_operand(
        context.plan,
        match call.inputs.first()? {
            Operand::Inner(_) => return None,
            view => view,
        },
    )?;
    let out = Site::of(context.plan, operator.outputs.first()?)?;
    let contiguous = |s: &Site| s.shape.dim(axis) <= 1 || s.stride(axis) == 1;
    (contiguous(&x) && contiguous(&out)).then(|| {
        Box::new(Softmax {
            kernels: context.kernels,
            x,
            out,
            axis,
        }) as _
    })
}

impl Softmax {
    /// The region as a range per axis, the softmax axis at one position.
    fn ranges(&self, region: &Region) -> [Range<u32>; MAX_RANK] {
        let shape = self.out.shape;
        let mut ranges: [Range<u32>; MAX_RANK] = std::array::from_fn(|a| 0..shape.dim(a));
        ranges[0] = region.batch.clone();
        if let Some(r) = shape.row_axis() {
            ranges[r] = region.rows.clone();
        }
        ranges[self.axis] = 0..1;
        ranges
    }

    fn rows(&self, ranges: &[Range<u32>; MAX_RANK]) -> (usize, usize) {
        let rows = ranges.iter().map(|r| r.len()).product();
        (rows, (TILE / self.out.shape.dim(self.axis).max(1) as usize).max(1))
    }
}

impl Kernel for Softmax {
    fn tiles(&self, region: &Region) -> u32 {
        let (rows, block) = self.rows(&self.ranges(region));
        if region.is_empty() { 0 } else { rows.div_ceil(block) as u32 }
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _: &mut [u8]) {
        let ranges = self.ranges(region);
        let (rows, block) = self.rows(&ranges);
        let n = self.out.shape.dim(self.axis) as usize;
        let (x, out) = (self.x.pointer(memory).cast_const(), self.out.pointer(memory));
        let rank = self.out.shape.rank();
        // Rows along the innermost other axis, if they lie alike in both, are taken together.
        let inner = (0..rank).rev().find(|&a| a != self.axis);
        let inner = inner.filter(|&a| self.x.stride(a) == self.out.stride(a) && self.x.stride(a) >= 0);
        let (mut row, end) = (tiles.start as usize * block, (tiles.end as usize * block).min(rows));
        while row < end {
            let (count, stride) = inner.map_or((1, n), |a| {
                let len = ranges[a].len();
                ((len - row % len).min(end - row), self.x.stride(a) as usize)
            });
            let (mut from, mut to, mut rest) = (0i64, 0i64, row);
            for a in (0..rank).rev() {
                let at = i64::from(ranges[a].start) + (rest % ranges[a].len()) as i64;
                rest /= ranges[a].len();
                from += at * self.x.stride(a);
                to += at * self.out.stride(a);
            }
            // SAFETY: rows of `n` contiguous elements inside each view; the output rows are this tile's alone (the plan).
            unsafe {
                self.kernels
                    .softmax_rows(x.wrapping_offset(from as isize), out.wrapping_offset(to as isize), count, n, stride)
            }
            row += count;
        }
    }
}
