//! Resampling of channels-last images in both directions, bilinear or by the nearest pixel, an output row at a time.

use super::site::Pixels;
use super::{Context, unravel};
use crate::backend::cpu::arena::Memory;
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{BilinearRow, Kernels};
use crate::backend::taps::{Taps, is_identity, nearest, weighted};
use crate::plan::format::{Operand, Operator};
use crate::primitive::{self, Primitive, Region, ResizeMode};
use std::ops::Range;

struct Bilinear {
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

struct Nearest {
    x: Pixels,
    out: Pixels,
    /// The input row of each output row, and the input column of each output column.
    rows: Vec<u32>,
    columns: Vec<u32>,
}

/// Compiles a bilinear or nearest resize; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator) -> Option<Box<dyn Kernel>> {
    let [call] = operator.calls.as_slice() else { return None };
    let Primitive::Resize(resize) = call.primitive else { return None };
    let Operand::View(x) = call.inputs.first()? else { return None };
    let (x, out) = (
        Pixels::dense(context.plan, x)?,
        Pixels::dense(context.plan, operator.outputs.first()?)?,
    );
    match resize.mode {
        ResizeMode::Nearest(rounding) => {
            let places = |a: usize| -> Option<Vec<u32>> {
                nearest(&resize, rounding, a, x.site.shape.dim(a), out.site.shape.dim(a))
                    .into_iter()
                    .collect()
            };
            let (rows, columns) = (places(2)?, places(3)?);
            Some(Box::new(Nearest { x, out, rows, columns }))
        }
        _ => bilinear(context, &resize, x, out),
    }
}

fn bilinear(context: &Context<'_>, resize: &primitive::Resize, x: Pixels, out: Pixels) -> Option<Box<dyn Kernel>> {
    let extents = |a: usize| (x.site.shape.dim(a), out.site.shape.dim(a));
    let taps = |a: usize| -> Option<Taps> {
        let (from, to) = extents(a);
        let taps = weighted(resize, a, from, to).ok()?;
        (!is_identity(resize, a, from, to) && taps.count == 2).then_some(taps)
    };
    let (down, along) = (taps(2)?, taps(3)?);
    let (left, right) = pairs(&along).map(|(p, _)| (p[0], p[1])).unzip();
    let across = pairs(&along).map(|(_, w)| w).collect();
    Some(Box::new(Bilinear {
        kernels: context.kernels,
        x,
        out,
        rows: pairs(&down).collect(),
        left,
        right,
        across,
    }))
}

/// Image and row of an output row of a region, whose tiles its rows are.
fn row_of(region: &Region, tile: u32) -> (usize, usize) {
    let [n, y] = unravel(tile, [region.batch.len() as u32, region.rows.len() as u32]).map(|i| i as usize);
    (n + region.batch.start as usize, y + region.rows.start as usize)
}

impl Kernel for Nearest {
    fn tiles(&self, region: &Region) -> u32 {
        (region.batch.len() * region.rows.len()) as u32
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _: &mut [u8]) {
        let (x, out) = (self.x.site.pointer(memory).cast_const(), self.out.site.pointer(memory));
        for tile in tiles {
            let (n, y) = row_of(region, tile);
            let from = x.wrapping_add(n * self.x.image + self.rows[y] as usize * self.x.row);
            let to = out.wrapping_add(n * self.out.image + y * self.out.row);
            for (i, &column) in self.columns.iter().enumerate() {
                let (from, to) = (
                    from.wrapping_add(column as usize * self.x.pixel),
                    to.wrapping_add(i * self.out.pixel),
                );
                // SAFETY: positions lie inside the input, whose channels are contiguous, as the output's are; the output row is
                // this tile's alone (the plan).
                unsafe { to.copy_from(from, self.out.c) }
            }
        }
    }
}

impl Kernel for Bilinear {
    fn tiles(&self, region: &Region) -> u32 {
        (region.batch.len() * region.rows.len()) as u32
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _: &mut [u8]) {
        for tile in tiles {
            let (n, y) = row_of(region, tile);
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
