//! Mean and sum over rows and columns of channels-last images (global average pooling), in pixel order.

use super::site::Pixels;
use super::{Context, unravel};
use crate::backend::cpu::arena::Memory;
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{self, Kernels};
use crate::plan::format::{Operand, Operator};
use crate::primitive::{Primitive, ReduceKind, Region};
use std::ops::Range;

/// Channels of a tile.
const CHANNELS: usize = 64;
/// The axes that are reduced: rows and columns.
pub const AXES: u8 = 0b1100;

struct Reduce {
    kernels: &'static Kernels,
    x: Pixels,
    out: Pixels,
    mean: bool,
}

/// Compiles a reduction; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator) -> Option<Box<dyn Kernel>> {
    let [call] = operator.calls.as_slice() else { return None };
    let Primitive::Reduce { kind, axes: AXES } = call.primitive else {
        return None;
    };
    let mean = match kind {
        ReduceKind::Mean => true,
        ReduceKind::Sum => false,
        ReduceKind::Max | ReduceKind::Norm => return None,
    };
    let Operand::View(x) = call.inputs.first()? else { return None };
    let (x, out) = (
        Pixels::dense(context.plan, x)?,
        Pixels::dense(context.plan, operator.outputs.first()?)?,
    );
    Some(Box::new(Reduce {
        kernels: context.kernels,
        x,
        out,
        mean,
    }))
}

impl Kernel for Reduce {
    fn tiles(&self, region: &Region) -> u32 {
        if region.is_empty() {
            0
        } else {
            (region.batch.len() * self.x.c.div_ceil(CHANNELS)) as u32
        }
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _: &mut [u8]) {
        let blocks = self.x.c.div_ceil(CHANNELS) as u32;
        for tile in tiles {
            let [n, block] = unravel(tile, [region.batch.len() as u32, blocks]).map(|i| i as usize);
            let n = n + region.batch.start as usize;
            let first = block * CHANNELS;
            let c = CHANNELS.min(self.x.c - first);
            let mut sums = [0.0f32; CHANNELS];
            for y in 0..self.x.h {
                let row = self.x.site.pointer(memory).wrapping_add(n * self.x.image + y * self.x.row + first);
                // SAFETY: the row's pixels have the block's channels; the sums are this call's own.
                unsafe { self.kernels.add_rows(row, self.x.pixel, self.x.w, c, sums.as_mut_ptr()) }
            }
            let out = self.out.site.pointer(memory).wrapping_add(n * self.out.image + first);
            // SAFETY: the output has these channels, contiguous, and they are this tile's alone (the plan).
            let out = unsafe { std::slice::from_raw_parts_mut(out, c) };
            if self.mean {
                self.kernels
                    .binary_scalar(simd::Binary::Div, &sums[..c], (self.x.h * self.x.w) as f32, false, out);
            } else {
                out.copy_from_slice(&sums[..c]);
            }
        }
    }
}
