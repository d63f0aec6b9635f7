//! Convolution as an indirect matrix product over channels-last pixels.
//!
//! A tile is a block of output pixels by a block of output channels of one group. Rows of the left matrix are reached
//! through pointers into the input, so nothing is unfolded; taps in the padding point to zeros. Where a kernel row is
//! contiguous in the input (few channels, no dilation), it counts as one long tap: the order over K stays the same.

use super::packing::{Form, Packings, floats, room};
use super::parts::Parts;
use super::site::Pixels;
use super::tail::{self, Tail};
use super::{Context, unravel};
use crate::backend::cpu::arena::{Block, Memory};
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{Gemm, Igemm, Kernels, packed_len};
use crate::plan::format::{Operator, View};
use crate::primitive::{Primitive, Region, Window};
use std::ops::Range;
use std::sync::Arc;

/// Pixels of a full tile: a multiple of every table's tile height.
const BLOCK: usize = 48;
/// As many, where the input's pixels are the matrix and no table of pointers is filled: with few channels, what a call costs
/// is the more to share out.
const DIRECT_BLOCK: usize = 4 * BLOCK;
/// Fewer tiles than this are cut further along the channels, so that a team has something to share.
const ENOUGH_TILES: usize = 16;
/// Kernel rows up to this many floats are worth treating as one tap.
const LONGEST_FOLDED_ROW: usize = 128;

struct Conv {
    kernels: &'static Kernels,
    x: Pixels,
    out: Pixels,
    tail: Tail,
    weights: Arc<Block>,
    bias: Option<Vec<f32>>,
    window: Window,
    /// Input and output channels of one group.
    group: (usize, usize),
    groups: usize,
    /// A kernel row is one tap of `kw * cin` floats.
    folded: bool,
    /// One tap, no stride, no padding: the input's pixels are the matrix.
    direct: bool,
    /// Pixels run on across rows in every tensor that is walked pixel by pixel.
    merged: bool,
    /// Floats from the first tap to each, in the order of the taps.
    offsets: Vec<usize>,
    /// Rows and columns that a window spans.
    reach: (usize, usize),
    zeros: Block,
}

/// `[O, I, kh, kw]` in C order to `[O][tap][I]`, the order that panels are packed from; `None` if memory is short.
fn taps_inside(source: &[f32], outputs: usize, inputs: usize, taps: usize) -> Option<Vec<f32>> {
    let mut ordered = room(source.len())?;
    ordered.resize(source.len(), 0.0);
    for o in 0..outputs {
        for i in 0..inputs {
            for t in 0..taps {
                ordered[(o * taps + t) * inputs + i] = source[(o * inputs + i) * taps + t];
            }
        }
    }
    Some(ordered)
}

/// Compiles a convolution; see the module.
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
    let groups = groups as usize;
    let (cin, cout) = (x.c / groups, out.c / groups);
    let taps = window.taps() as usize;
    let weights = pack(context, weights, packings, groups, (cin, cout), taps)?;
    let folded = taps > 1
        && window.kernel[1] > 1
        && groups == 1
        && window.dilation[1] == 1
        && x.pixel == cin
        && window.kernel[1] as usize * cin <= LONGEST_FOLDED_ROW
        && window.kernel[1] as usize <= x.w;
    let plain = |a: usize| window.stride[a] == 1 && window.pad_begin[a] == 0 && window.pad_end[a] == 0;
    let direct = taps == 1 && plain(0) && plain(1);
    let merged = out.rows_merge() && tail.rows_merge() && (!direct || x.rows_merge());
    let longest = if folded { window.kernel[1] as usize * cin } else { cin };
    let zeros = Block::new(longest * 4)?;
    let [down, across] = [window.dilation[0] as usize * x.row, window.dilation[1] as usize * x.pixel];
    let columns = if folded { 1 } else { window.kernel[1] as usize };
    let offset = |t: usize| t / columns * down + t % columns * across;
    let offsets = (0..window.kernel[0] as usize * columns).map(offset).collect();
    let reach = (window.reach(0)? as usize, window.reach(1)? as usize);
    let kernels = context.kernels;
    let group = (cin, cout);
    Some(Box::new(Conv {
        kernels,
        x,
        out,
        tail,
        weights,
        bias,
        window,
        group,
        groups,
        folded,
        direct,
        merged,
        offsets,
        reach,
        zeros,
    }))
}

fn pack(
    context: &Context<'_>,
    w: &View,
    packings: &mut Packings,
    groups: usize,
    (cin, cout): (usize, usize),
    taps: usize,
) -> Option<Arc<Block>> {
    let k = taps * cin;
    let one = packed_len(k, cout);
    let form = Form::Panels { groups: groups as u32 };
    packings.get(context, w, form, one * groups, |source, packed| {
        let ordered = taps_inside(source, cout * groups, cin, taps)?;
        for g in 0..groups {
            let rows = &ordered[g * cout * k..(g + 1) * cout * k];
            context.kernels.pack(rows, k, cout, &mut packed[g * one..(g + 1) * one]);
        }
        Some(())
    })
}

/// How a region is cut into tiles: images, groups, pixel blocks, channel blocks.
struct Grid {
    extents: [u32; 4],
    block: usize,
    channels: usize,
}

/// One run of consecutive output pixels of one image and a block of channels of one group.
struct Run {
    image: usize,
    group: usize,
    pixels: Range<usize>,
    channels: Range<usize>,
}

impl Conv {
    fn grid(&self, region: &Region) -> Grid {
        let images = region.batch.len();
        let pixels = region.rows.len() * self.out.w;
        let most = if self.direct { DIRECT_BLOCK } else { BLOCK };
        let block = if pixels >= most * ENOUGH_TILES {
            most
        } else {
            pixels
                .div_ceil(ENOUGH_TILES)
                .next_multiple_of(self.kernels.mr())
                .clamp(self.kernels.mr(), most)
        };
        let blocks = pixels.div_ceil(block);
        let (nr, cout) = (self.kernels.nr(), self.group.1);
        let panels = cout.div_ceil(nr);
        let wanted = ENOUGH_TILES
            .div_ceil((images * self.groups * blocks).max(1))
            .clamp(1, panels.max(1));
        let channels = panels.div_ceil(wanted) * nr;
        let extents = [images, self.groups, blocks, cout.div_ceil(channels)].map(|e| e as u32);
        Grid { extents, block, channels }
    }

    /// Input row and column under tap 0 of an output pixel; may lie in the padding.
    fn corner(&self, y: usize, x: usize) -> (i64, i64) {
        let at = |o: usize, a: usize| o as i64 * i64::from(self.window.stride[a]) - i64::from(self.window.pad_begin[a]);
        (at(y, 0), at(x, 1))
    }

    fn run_direct(&self, memory: &Memory<'_>, run: &Run, out: *mut f32) {
        let (cin, cout) = self.group;
        let (y, x) = (run.pixels.start / self.out.w, run.pixels.start % self.out.w);
        let input = run.image * self.x.image + y * self.x.row + x * self.x.pixel + run.group * cin;
        let channel = run.group * cout + run.channels.start;
        let mut steps = tail::blank();
        let args = Gemm {
            a: self.x.site.pointer(memory).wrapping_add(input),
            a_stride: self.x.pixel,
            m: run.pixels.len(),
            k: cin,
            weights: self.panel(run.group, run.channels.start),
            bias: self.bias_at(channel),
            bias_stride: 0,
            n: run.channels.len(),
            out: out.wrapping_add(run.image * self.out.image + y * self.out.row + x * self.out.pixel + channel),
            out_stride: self.out.pixel,
            steps: self.tail.steps(memory, [run.image, y, x, channel], &mut steps),
        };
        // SAFETY: pixels and channels of the run lie in the views, whose memory the plan keeps apart; panels start at
        // multiples of `nr` and end at one or at the last channel.
        unsafe { self.kernels.gemm(&args) }
    }

    fn run_indirect(&self, memory: &Memory<'_>, run: &Run, out: *mut f32, scratch: &mut [u8]) {
        let (cin, cout) = self.group;
        let taps = self.offsets.len();
        let length = if self.folded { self.window.kernel[1] as usize * cin } else { cin };
        let channel = run.group * cout + run.channels.start;
        let input = self
            .x
            .site
            .pointer(memory)
            .wrapping_add(run.image * self.x.image + run.group * cin)
            .cast_const();
        let (tables, patches) = self.tables(scratch);
        let m = run.pixels.len();
        let (rows, outs) = tables.split_at_mut(self.kernels.row_slots(BLOCK, taps));
        let mut used = 0;
        let mr = self.kernels.mr();
        let (mut oy, mut ox) = (run.pixels.start / self.out.w, run.pixels.start % self.out.w);
        let mut p = 0;
        while p < m {
            let (top, left) = self.corner(oy, ox);
            let to = out
                .wrapping_add(run.image * self.out.image + oy * self.out.row + ox * self.out.pixel + channel)
                .cast_const();
            // Pixels up to the end of the tile and of the row.
            let together = (mr - p % mr).min(m - p).min(self.out.w - ox);
            let step = self.window.stride[1] as usize;
            let fits = |pixels: usize| left + ((pixels - 1) * step + self.reach.1) as i64 <= self.x.w as i64;
            let inside = top >= 0 && left >= 0 && top as usize + self.reach.0 <= self.x.h && fits(1);
            let corner = input.wrapping_add(top.max(0) as usize * self.x.row + left.max(0) as usize * self.x.pixel);
            // A pixel's taps lie `mr` slots apart.
            let slots = &mut rows[self.kernels.row_slot(p, 0, taps)..];
            let count = match (inside, mr) {
                // A tile in the middle of a row, with code of its own for its height.
                (true, 6) if together == 6 && fits(6) => self.interior::<6>(corner, step, slots),
                (true, 12) if together == 12 && fits(12) => self.interior::<12>(corner, step, slots),
                (true, _) => {
                    for (slot, &offset) in slots.iter_mut().step_by(mr).zip(&self.offsets) {
                        *slot = corner.wrapping_add(offset);
                    }
                    1
                }
                (false, _) => {
                    self.border(input, (top, left), slots, &mut patches[used..used + self.patch_floats() / BLOCK]);
                    used += self.patch_floats() / BLOCK;
                    1
                }
            };
            for (i, slot) in outs[p..p + count].iter_mut().enumerate() {
                *slot = to.wrapping_add(i * self.out.pixel);
            }
            p += count;
            ox += count;
            if ox == self.out.w {
                (oy, ox) = (oy + 1, 0);
            }
        }
        let (y, x) = (run.pixels.start / self.out.w, run.pixels.start % self.out.w);
        let mut steps = tail::blank();
        let args = Igemm {
            rows: rows.as_ptr(),
            m,
            taps,
            cin: length,
            weights: self.panel(run.group, run.channels.start),
            bias: self.bias_at(channel),
            n: run.channels.len(),
            out: outs.as_ptr().cast(),
            steps: self.tail.steps(memory, [run.image, y, x, channel], &mut steps),
        };
        // SAFETY: every slot of a valid pixel was filled above with a pointer to `length` floats of the input, of a
        // patch or of the zeros; outputs are the run's own pixels; panels as in `run_direct`.
        unsafe { self.kernels.igemm(&args) }
    }

    /// The taps of the `MR` pixels of a tile, `step` input pixels apart, whose windows lie inside the input; says how many.
    fn interior<const MR: usize>(&self, corner: *const f32, step: usize, slots: &mut [*const f32]) -> usize {
        let apart = step * self.x.pixel;
        for (slots, &offset) in slots.as_chunks_mut::<MR>().0.iter_mut().zip(&self.offsets) {
            for (i, slot) in slots.iter_mut().enumerate() {
                *slot = corner.wrapping_add(offset + i * apart);
            }
        }
        MR
    }

    /// The taps of a pixel whose window reaches into the padding, `mr` slots apart.
    fn border(&self, input: *const f32, (top, left): (i64, i64), slots: &mut [*const f32], patches: &mut [f32]) {
        let cin = self.group.0;
        let [kh, kw] = [self.window.kernel[0] as usize, self.window.kernel[1] as usize];
        let zeros = self.zeros.span().pointer::<f32>(0, self.zeros.bytes().len() / 4).cast_const();
        let mut slots = slots.iter_mut().step_by(self.kernels.mr());
        let mut patches = patches.chunks_exact_mut(kw * cin);
        for ky in 0..kh {
            let iy = top + ky as i64 * i64::from(self.window.dilation[0]);
            let inside = (0..self.x.h as i64).contains(&iy);
            let row = if inside {
                input.wrapping_add(iy as usize * self.x.row)
            } else {
                zeros
            };
            if self.folded {
                let whole = left >= 0 && left as usize + kw <= self.x.w;
                let (Some(slot), Some(patch)) = (slots.next(), patches.next()) else {
                    return;
                };
                *slot = match (inside, whole) {
                    (false, _) => zeros,
                    (true, true) => row.wrapping_add(left as usize * self.x.pixel),
                    (true, false) => {
                        self.patch(row, left, patch);
                        patch.as_ptr()
                    }
                };
                continue;
            }
            for (kx, slot) in (0..kw).zip(&mut slots) {
                let ix = left + kx as i64 * i64::from(self.window.dilation[1]);
                let hit = inside && (0..self.x.w as i64).contains(&ix);
                *slot = if hit { row.wrapping_add(ix as usize * self.x.pixel) } else { zeros };
            }
        }
    }

    /// A kernel row that reaches into the padding, as floats with zeros.
    fn patch(&self, row: *const f32, left: i64, patch: &mut [f32]) {
        let cin = self.group.0;
        for (kx, pixel) in patch.chunks_exact_mut(cin).enumerate() {
            let ix = left + kx as i64;
            if (0..self.x.w as i64).contains(&ix) {
                let from = row.wrapping_add(ix as usize * self.x.pixel);
                for (i, value) in pixel.iter_mut().enumerate() {
                    // SAFETY: the pixel is inside the input row and has `cin` channels.
                    *value = unsafe { from.wrapping_add(i).read() };
                }
            } else {
                pixel.fill(0.0);
            }
        }
    }

    /// The packed panel of a group's channel (a multiple of the panel width).
    fn panel(&self, group: usize, channel: usize) -> *const f32 {
        let (cin, cout) = self.group;
        let k = self.window.taps() as usize * cin;
        floats(&self.weights)[group * packed_len(k, cout) + channel * k..].as_ptr()
    }

    fn bias_at(&self, channel: usize) -> *const f32 {
        self.bias.as_ref().map_or(std::ptr::null(), |b| b[channel..].as_ptr())
    }

    fn table_slots(&self) -> usize {
        let [kh, kw] = [self.window.kernel[0] as usize, self.window.kernel[1] as usize];
        self.kernels.row_slots(BLOCK, if self.folded { kh } else { kh * kw }) + BLOCK
    }

    fn patch_floats(&self) -> usize {
        if self.folded {
            BLOCK * self.window.taps() as usize * self.group.0
        } else {
            0
        }
    }

    /// The pointer tables and the patch floats in a worker's scratch.
    fn tables<'s>(&self, scratch: &'s mut [u8]) -> (&'s mut [*const f32], &'s mut [f32]) {
        let (tables, patches) = pointers(scratch, self.table_slots());
        (tables, &mut bytemuck::cast_slice_mut(patches)[..self.patch_floats()])
    }
}

/// A table of `slots` pointers at the start of a worker's scratch, to be filled, and the bytes behind it.
pub fn pointers(scratch: &mut [u8], slots: usize) -> (&mut [*const f32], &mut [u8]) {
    let (bytes, rest) = scratch.split_at_mut(slots * size_of::<*const f32>());
    assert!(bytes.as_ptr().cast::<*const f32>().is_aligned());
    // SAFETY: the bytes are exclusive, long enough, aligned by the check above, and whatever they hold is the address of a
    // pointer, though not of one that may be followed.
    let table = unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), slots) };
    (table, rest)
}

impl Kernel for Conv {
    fn tiles(&self, region: &Region) -> u32 {
        if region.is_empty() {
            0
        } else {
            self.grid(region).extents.iter().product()
        }
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, scratch: &mut [u8]) {
        let grid = self.grid(region);
        let out = self.out.site.pointer(memory);
        let first = region.rows.start as usize * self.out.w;
        let end = region.rows.end as usize * self.out.w;
        for tile in tiles {
            let [n, g, b, c] = unravel(tile, grid.extents).map(|i| i as usize);
            let channels = c * grid.channels..((c + 1) * grid.channels).min(self.group.1);
            let mut start = first + b * grid.block;
            let stop = (start + grid.block).min(end);
            while start < stop {
                let run_end = if self.merged {
                    stop
                } else {
                    stop.min((start / self.out.w + 1) * self.out.w)
                };
                let run = Run {
                    image: region.batch.start as usize + n,
                    group: g,
                    pixels: start..run_end,
                    channels: channels.clone(),
                };
                if self.direct {
                    self.run_direct(memory, &run, out);
                } else {
                    self.run_indirect(memory, &run, out, scratch);
                }
                start = run_end;
            }
        }
    }

    fn scratch_bytes(&self) -> usize {
        if self.direct {
            0
        } else {
            self.table_slots() * size_of::<*const f32>() + self.patch_floats() * 4
        }
    }
}
