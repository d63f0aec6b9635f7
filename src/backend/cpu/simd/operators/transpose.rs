//! Transposed convolution as one indirect matrix product per phase.
//!
//! Outputs whose position plus padding leaves the same remainder by the stride meet the same taps: a phase. A tile is an
//! output row of an image and group; its phases across are products of their own with weights packed per phase.

use super::packing::{Form, Packings, floats, room};
use super::parts::Parts;
use super::site::Pixels;
use super::tail::{self, Tail};
use super::{Context, conv, unravel};
use crate::backend::cpu::arena::{Block, Memory};
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{Igemm, Kernels, packed_len};
use crate::plan::format::Operator;
use crate::primitive::{Primitive, Region, Window};
use std::ops::Range;
use std::sync::Arc;

/// Pixels of one product call.
const BLOCK: usize = 48;

/// The taps of one phase, row-major, and where its panels begin.
struct Phase {
    taps: Vec<(u32, u32)>,
    first: usize,
}

struct Transposed {
    kernels: &'static Kernels,
    x: Pixels,
    out: Pixels,
    tail: Tail,
    weights: Arc<Block>,
    bias: Option<Vec<f32>>,
    window: Window,
    groups: usize,
    group: (usize, usize),
    phases: Vec<Phase>,
    zeros: Block,
}

/// Taps along `axis` that an output of phase `phase` (its position modulo the stride) meets.
fn met(window: &Window, axis: usize, phase: u32) -> Vec<u32> {
    let stride = i64::from(window.stride[axis]);
    let lands = |tap: u32| i64::from(phase) + i64::from(window.pad_begin[axis]) - i64::from(tap) * i64::from(window.dilation[axis]);
    (0..window.kernel[axis]).filter(|&t| lands(t).rem_euclid(stride) == 0).collect()
}

/// Compiles a transposed convolution; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator, packings: &mut Packings) -> Option<Box<dyn Kernel>> {
    let call = operator.calls.first()?;
    let Primitive::ConvTranspose { window, groups } = call.primitive else {
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
    let mut phases = Vec::new();
    let mut total = 0;
    for py in 0..window.stride[0] {
        for px in 0..window.stride[1] {
            let (down, across) = (met(&window, 0, py), met(&window, 1, px));
            let taps: Vec<(u32, u32)> = down.iter().flat_map(|&y| across.iter().map(move |&x| (y, x))).collect();
            let floats = packed_len(taps.len() * cin, cout) * groups;
            phases.push(Phase { taps, first: total });
            total += floats;
        }
    }
    let form = Form::Phases {
        stride: (window.stride[0], window.stride[1]),
        pad: (window.pad_begin[0], window.pad_begin[1]),
        dilation: (window.dilation[0], window.dilation[1]),
        groups: groups as u32,
    };
    let [kh, kw] = [window.kernel[0] as usize, window.kernel[1] as usize];
    let weights = packings.get(context, weights, form, total, |source, packed| {
        for phase in &phases {
            let k = phase.taps.len() * cin;
            let one = packed_len(k, cout);
            for g in 0..groups {
                // `[C, O/g, kh, kw]` to `[O/g][tap][C/g]`.
                let mut ordered = room(cout * k)?;
                for o in 0..cout {
                    for &(ky, kx) in &phase.taps {
                        ordered.extend((0..cin).map(|i| source[(((g * cin + i) * cout + o) * kh + ky as usize) * kw + kx as usize]));
                    }
                }
                let first = phase.first + g * one;
                context.kernels.pack(&ordered, k, cout, &mut packed[first..first + one]);
            }
        }
        Some(())
    })?;
    let zeros = Block::new(cin * 4)?;
    let group = (cin, cout);
    Some(Box::new(Transposed {
        kernels: context.kernels,
        x,
        out,
        tail,
        weights,
        bias,
        window,
        groups,
        group,
        phases,
        zeros,
    }))
}

impl Transposed {
    fn most_taps(&self) -> usize {
        self.phases.iter().map(|p| p.taps.len()).max().unwrap_or(0)
    }

    fn slots(&self) -> usize {
        self.kernels.row_slots(BLOCK, self.most_taps()) + BLOCK
    }

    /// Where the tap along `axis` of the output at `at` lands in the input; outside it may be anywhere.
    fn lands(&self, axis: usize, at: usize, tap: u32) -> i64 {
        let w = &self.window;
        let reach = i64::from(tap) * i64::from(w.dilation[axis]);
        (at as i64 + i64::from(w.pad_begin[axis]) - reach).div_euclid(i64::from(w.stride[axis]))
    }

    fn row(&self, memory: &Memory<'_>, [n, y, g]: [usize; 3], scratch: &mut [*const f32]) {
        let (cin, cout) = self.group;
        let (down, across) = (self.window.stride[0] as usize, self.window.stride[1] as usize);
        let input = self.x.site.pointer(memory).wrapping_add(n * self.x.image + g * cin).cast_const();
        let out = self
            .out
            .site
            .pointer(memory)
            .wrapping_add(n * self.out.image + y * self.out.row + g * cout);
        let zeros = self.zeros.span().pointer::<f32>(0, cin).cast_const();
        for px in 0..across.min(self.out.w) {
            let phase = &self.phases[(y % down) * across + px];
            let taps = phase.taps.len();
            let pixels = (self.out.w - px).div_ceil(across);
            let (rows, outs) = scratch.split_at_mut(self.kernels.row_slots(BLOCK, self.most_taps()));
            for first in (0..pixels).step_by(BLOCK) {
                let m = BLOCK.min(pixels - first);
                for (p, to) in outs[..m].iter_mut().enumerate() {
                    *to = out.wrapping_add((px + (first + p) * across) * self.out.pixel).cast_const();
                }
                let mr = self.kernels.mr();
                for (t, &(ky, kx)) in phase.taps.iter().enumerate() {
                    // Outputs of a phase lie a stride apart, so where their taps land is an input pixel apart.
                    let (iy, mut ix) = (self.lands(0, y, ky), self.lands(1, px + first * across, kx));
                    let above = (0..self.x.h as i64).contains(&iy);
                    let row = input.wrapping_add(if above { iy as usize * self.x.row } else { 0 });
                    // A tile's pixels lie side by side, the tiles `taps * mr` apart.
                    for tile in rows.chunks_mut(taps * mr).take(m.div_ceil(mr)) {
                        for slot in &mut tile[t * mr..(t + 1) * mr] {
                            let inside = above && (0..self.x.w as i64).contains(&ix);
                            *slot = if inside {
                                row.wrapping_add(ix as usize * self.x.pixel)
                            } else {
                                zeros
                            };
                            ix += 1;
                        }
                    }
                }
                let mut steps = tail::blank();
                let one = packed_len(taps * cin, cout);
                let args = Igemm {
                    rows: rows.as_ptr(),
                    m,
                    taps,
                    cin,
                    weights: floats(&self.weights)[phase.first + g * one..].as_ptr(),
                    bias: self.bias.as_ref().map_or(std::ptr::null(), |b| b[g * cout..].as_ptr()),
                    n: cout,
                    out: outs.as_ptr().cast(),
                    steps: self
                        .tail
                        .steps_every(memory, [n, y, px + first * across, g * cout], across, &mut steps),
                };
                // SAFETY: every slot of a valid pixel was filled with a pointer to `cin` floats of the input or the zeros;
                // outputs are pixels of this tile's row (the plan); the panels are the phase's own.
                unsafe { self.kernels.igemm(&args) }
            }
        }
    }
}

impl Kernel for Transposed {
    fn tiles(&self, region: &Region) -> u32 {
        if region.is_empty() {
            0
        } else {
            (region.batch.len() * region.rows.len() * self.groups) as u32
        }
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, scratch: &mut [u8]) {
        let slots = conv::pointers(scratch, self.slots()).0;
        let extents = [region.batch.len() as u32, region.rows.len() as u32, self.groups as u32];
        for tile in tiles {
            let [n, y, g] = unravel(tile, extents).map(|i| i as usize);
            self.row(memory, [n + region.batch.start as usize, y + region.rows.start as usize, g], slots);
        }
    }

    fn scratch_bytes(&self) -> usize {
        self.slots() * size_of::<*const f32>()
    }
}
