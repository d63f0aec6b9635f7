//! Pooling along channels-last output rows. Only elements inside the input take part.

use super::depthwise::{MAX_ROWS, row_grid, window_of, window_rows};
use super::site::Pixels;
use super::tail::{self, Tail};
use super::{Context, unravel};
use crate::backend::cpu::arena::Memory;
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{self, Kernels};
use crate::plan::format::{Operand, Operator};
use crate::primitive::{PoolKind, Primitive, Region, Window};
use std::ops::Range;

struct Pool {
    kernels: &'static Kernels,
    x: Pixels,
    out: Pixels,
    tail: Tail,
    kind: simd::PoolKind,
    window: Window,
}

/// Compiles a pooling; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator) -> Option<Box<dyn Kernel>> {
    let plan = context.plan;
    let call = operator.calls.first()?;
    let Primitive::Pool { kind, window } = call.primitive else {
        return None;
    };
    let Operand::View(x) = call.inputs.first()? else { return None };
    let [out] = operator.outputs.as_slice() else { return None };
    let (x, out) = (Pixels::dense(plan, x)?, Pixels::dense(plan, out)?);
    if window.axes != 2 || window.kernel[0] as usize > MAX_ROWS {
        return None;
    }
    let padded = (0..2).any(|a| window.pad_begin[a] > 0 || window.pad_end[a] > 0);
    let whole = |a: usize, input: usize, output: usize| {
        let last = (output as u64).saturating_sub(1) * u64::from(window.stride[a]) + u64::from(window.reach(a).unwrap_or(u32::MAX));
        last <= input as u64 + u64::from(window.pad_begin[a]) + u64::from(window.pad_end[a])
    };
    let kind = match kind {
        PoolKind::Max { .. } => simd::PoolKind::Max,
        PoolKind::Average { count_pad: true } if padded => {
            // Every window counts all its taps only where none reaches past the declared padding.
            if !(whole(0, x.h, out.h) && whole(1, x.w, out.w)) {
                return None;
            }
            simd::PoolKind::AverageOver(window.taps() as f32)
        }
        PoolKind::Average { .. } => simd::PoolKind::AverageInside,
    };
    Some(Box::new(Pool {
        kernels: context.kernels,
        x,
        out,
        tail: Tail::of(plan, operator)?,
        kind,
        window,
    }))
}

impl Kernel for Pool {
    fn tiles(&self, region: &Region) -> u32 {
        if region.is_empty() {
            0
        } else {
            row_grid(region, self.x.c).0.iter().product()
        }
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _: &mut [u8]) {
        let (extents, block) = row_grid(region, self.x.c);
        let (x, out) = (self.x.site.pointer(memory).cast_const(), self.out.site.pointer(memory));
        for tile in tiles {
            let [n, y, c] = unravel(tile, extents).map(|i| i as usize);
            let (n, y, c) = (n + region.batch.start as usize, y + region.rows.start as usize, c * block);
            let rows = window_rows(&self.window, &self.x, x.wrapping_add(n * self.x.image + c), y);
            let mut steps = tail::blank();
            let args = simd::Pool {
                window: window_of(&self.window, &self.x, &rows),
                kind: self.kind,
                c: block.min(self.x.c - c),
                ox: 0,
                n: self.out.w,
                out: out.wrapping_add(n * self.out.image + y * self.out.row + c),
                out_stride: self.out.pixel,
                steps: self.tail.steps(memory, [n, y, 0, c], &mut steps),
            };
            // SAFETY: as for depthwise convolution: rows inside the input, an output row of this tile's own.
            unsafe { self.kernels.pool(&args) }
        }
    }
}
