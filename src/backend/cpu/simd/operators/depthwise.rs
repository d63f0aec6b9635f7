//! Depthwise convolution along channels-last output rows. Taps in the padding are skipped.

use super::packing::{Form, Packings, floats};
use super::parts::Parts;
use super::site::Pixels;
use super::tail::{self, Tail};
use super::{Context, unravel};
use crate::backend::cpu::arena::{Block, Memory};
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{self, Kernels, depthwise_packed_len, pack_depthwise};
use crate::plan::format::Operator;
use crate::primitive::{Primitive, Region, Window};
use std::ops::Range;
use std::sync::Arc;

/// Kernel rows a window may have here.
pub const MAX_ROWS: usize = 16;
/// Fewer rows than this are cut along the channels too.
const ENOUGH_TILES: usize = 16;
/// Channels of a tile are cut in multiples of this.
const CHANNELS: usize = 64;

struct Depthwise {
    kernels: &'static Kernels,
    x: Pixels,
    out: Pixels,
    tail: Tail,
    weights: Arc<Block>,
    bias: Option<Vec<f32>>,
    window: Window,
}

/// Compiles a depthwise convolution; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator, packings: &mut Packings) -> Option<Box<dyn Kernel>> {
    let call = operator.calls.first()?;
    let Primitive::Conv { window, groups } = call.primitive else {
        return None;
    };
    let Parts {
        x,
        out,
        weights,
        bias,
        tail,
    } = Parts::of(context, operator, &window)?;
    if x.c != out.c || groups as usize != x.c || window.kernel[0] as usize > MAX_ROWS {
        return None;
    }
    let taps = window.taps() as usize;
    let c = x.c;
    let weights = packings.get(
        context,
        weights,
        Form::Depthwise,
        depthwise_packed_len(taps, c),
        |source, packed| {
            pack_depthwise(source, taps, c, packed);
            Some(())
        },
    )?;
    Some(Box::new(Depthwise {
        kernels: context.kernels,
        x,
        out,
        tail,
        weights,
        bias,
        window,
    }))
}

/// The input rows under output row `y` of a window; null where they lie in the padding. Rows beyond the kernel stay null.
pub fn window_rows(window: &Window, x: &Pixels, base: *const f32, y: usize) -> [*const f32; MAX_ROWS] {
    let mut rows = [std::ptr::null(); MAX_ROWS];
    let top = y as i64 * i64::from(window.stride[0]) - i64::from(window.pad_begin[0]);
    for (ky, row) in rows.iter_mut().enumerate().take(window.kernel[0] as usize) {
        let iy = top + ky as i64 * i64::from(window.dilation[0]);
        if (0..x.h as i64).contains(&iy) {
            *row = base.wrapping_add(iy as usize * x.row);
        }
    }
    rows
}

/// The vector kernels' form of a window over rows.
pub fn window_of(window: &Window, x: &Pixels, rows: &[*const f32; MAX_ROWS]) -> simd::Window {
    simd::Window {
        rows: rows.as_ptr(),
        kh: window.kernel[0] as usize,
        kw: window.kernel[1] as usize,
        in_w: x.w,
        pixel_stride: x.pixel,
        stride: window.stride[1] as usize,
        dilation: window.dilation[1] as usize,
        pad_left: window.pad_begin[1] as usize,
    }
}

/// Images, rows and channel blocks of a region, and the channels of a block.
pub fn row_grid(region: &Region, channels: usize) -> ([u32; 3], usize) {
    let rows = region.batch.len() * region.rows.len();
    let most = channels.div_ceil(CHANNELS).max(1);
    let blocks = ENOUGH_TILES.div_ceil(rows.max(1)).clamp(1, most);
    let block = channels.div_ceil(blocks).next_multiple_of(CHANNELS).max(1);
    (
        [region.batch.len() as u32, region.rows.len() as u32, channels.div_ceil(block) as u32],
        block,
    )
}

impl Kernel for Depthwise {
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
        let pitch = self.x.c.next_multiple_of(16);
        for tile in tiles {
            let [n, y, c] = unravel(tile, extents).map(|i| i as usize);
            let (n, y, c) = (n + region.batch.start as usize, y + region.rows.start as usize, c * block);
            let rows = window_rows(&self.window, &self.x, x.wrapping_add(n * self.x.image + c), y);
            let mut steps = tail::blank();
            let args = simd::Depthwise {
                window: window_of(&self.window, &self.x, &rows),
                weights: floats(&self.weights)[c..].as_ptr(),
                weight_pitch: pitch,
                bias: self.bias.as_ref().map_or(std::ptr::null(), |b| b[c..].as_ptr()),
                c: block.min(self.x.c - c),
                ox: 0,
                n: self.out.w,
                out: out.wrapping_add(n * self.out.image + y * self.out.row + c),
                out_stride: self.out.pixel,
                steps: self.tail.steps(memory, [n, y, 0, c], &mut steps),
            };
            // SAFETY: rows that are not null lie inside the input, whose pixels have the block's channels; the output row
            // is this tile's alone (the plan); blocks start at multiples of sixteen, so packed weights reach far enough.
            unsafe { self.kernels.depthwise(&args) }
        }
    }
}
