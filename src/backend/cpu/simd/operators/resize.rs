//! Bilinear resampling of channels-last images in both directions, an output row at a time.

use super::site::Pixels;
use super::{Context, unravel};
use crate::backend::cpu::arena::Memory;
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{BilinearRow, Kernels};
use crate::backend::taps::{Taps, is_identity, weighted};
use crate::plan::format::{Operand, Operator};
use crate::primitive::{Primitive, Region};
use std::ops::Range;

struct Resize {
    kernels: &'static Kernels,
    x: Pixels,
    out: Pixels,
    /// Upper and lower input row per output row, and their weights.
    rows: Vec<([u32; 2], [f32; 2])>,
    left: Vec<u32>,
    right: Vec<u32>,
    across: Vec<[f32; 2]>,
}

/// The two taps of each output along an axis.
fn pairs(taps: &Taps) -> impl Iterator<Item = ([u32; 2], [f32; 2])> {
    let positions = taps.positions.chunks_exact(2).map(|p| [p[0], p[1]]);
    positions.zip(taps.weights.chunks_exact(2).map(|w| [w[0], w[1]]))
}

/// Compiles a bilinear resize; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator) -> Option<Box<dyn Kernel>> {
    let [call] = operator.calls.as_slice() else { return None };
    let Primitive::Resize(resize) = call.primitive else { return None };
    let Operand::View(x) = call.inputs.first()? else { return None };
    let (x, out) = (
        Pixels::dense(context.plan, x)?,
        Pixels::dense(context.plan, operator.outputs.first()?)?,
    );
    let extents = |a: usize| (x.site.shape.dim(a), out.site.shape.dim(a));
    let taps = |a: usize| -> Option<Taps> {
        let (from, to) = extents(a);
        let taps = weighted(&resize, a, from, to).ok()?;
        (!is_identity(&resize, a, from, to) && taps.count == 2).then_some(taps)
    };
    let (down, along) = (taps(2)?, taps(3)?);
    let (left, right) = pairs(&along).map(|(p, _)| (p[0], p[1])).unzip();
    let across = pairs(&along).map(|(_, w)| w).collect();
    Some(Box::new(Resize {
        kernels: context.kernels,
        x,
        out,
        rows: pairs(&down).collect(),
        left,
        right,
        across,
    }))
}

impl Kernel for Resize {
    fn tiles(&self, region: &Region) -> u32 {
        (region.batch.len() * region.rows.len()) as u32
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _: &mut [u8]) {
        for tile in tiles {
            let [n, y] = unravel(tile, [region.batch.len() as u32, region.rows.len() as u32]).map(|i| i as usize);
            let (n, y) = (n + region.batch.start as usize, y + region.rows.start as usize);
            let ([top, bottom], down) = self.rows[y];
            let x = self.x.site.pointer(memory).wrapping_add(n * self.x.image).cast_const();
            let args = BilinearRow {
                top: x.wrapping_add(top as usize * self.x.row),
                bottom: x.wrapping_add(bottom as usize * self.x.row),
                down,
                left: &self.left,
                right: &self.right,
                across: &self.across,
                pixel_stride: self.x.pixel,
                c: self.x.c,
                out: self.out.site.pointer(memory).wrapping_add(n * self.out.image + y * self.out.row),
                out_stride: self.out.pixel,
            };
            // SAFETY: tap positions lie inside the input; the output row is this tile's alone (the plan).
            unsafe { self.kernels.bilinear_row(&args) }
        }
    }
}
