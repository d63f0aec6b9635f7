//! Recurrent layers: for each step a product of the rows' h with the packed recurrent weights, then the cells.
//!
//! The product starts from the step's pre-activations, so each gate's sum is that value and then one fused multiply-add for
//! each hidden unit, in order: what the primitive says. Tiles are blocks of rows of the batch, which walk all steps.

use super::Context;
use super::packing::{Form, Packings, floats};
use super::site::Site;
use crate::backend::cpu::arena::{Block, Memory};
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{Gemm, Kernels, RecurrentCell, packed_len};
use crate::plan::format::{Operand, Operator};
use crate::primitive::{Cell, Region};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a tile: as many as the widest product takes at once.
const ROWS: usize = 12;

struct Recurrent {
    kernels: &'static Kernels,
    cell: Cell,
    reverse: bool,
    steps: usize,
    hidden: usize,
    gates: Site,
    y: Site,
    /// Initial h, and what the cells begin with: c, or h again.
    initial: Option<[Site; 2]>,
    /// c after the last step.
    last: Option<Site>,
    weights: Arc<Block>,
}

/// Compiles a layer; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator, packings: &mut Packings) -> Option<Box<dyn Kernel>> {
    let plan = context.plan;
    let [call] = operator.calls.as_slice() else { return None };
    let (cell, reverse) = call.primitive.recurrence()?;
    let site = |i: usize| Site::of_operand(plan, call.inputs.get(i)?);
    let (gates, y) = (site(0)?, Site::of(plan, operator.outputs.first()?)?);
    let (steps, hidden) = (y.shape.dim(0) as usize, y.shape.dim(2) as usize);
    let initial = match call.inputs.len() {
        2 => None,
        _ => Some([site(2)?, site(1 + cell.states())?]),
    };
    let last = match operator.outputs.get(1) {
        Some(view) => Some(Site::of(plan, view)?),
        None => None,
    };
    let contiguous = |s: &Site, axis: usize| s.shape.dim(axis) <= 1 || s.stride(axis) == 1;
    let dense = contiguous(&gates, 2) && contiguous(&y, 2);
    if !dense || initial.is_some_and(|[h, _]| !contiguous(&h, 1)) {
        return None;
    }
    let Operand::View(recurrence) = call.inputs.get(1)? else {
        return None;
    };
    let (k, n) = (hidden, 4 * hidden);
    let weights = packings.get(context, recurrence, Form::Recurrence, packed_len(k, n), |source, packed| {
        context.kernels.pack_b(source, (1, k), (k, n), 0..n, packed);
        Some(())
    })?;
    Some(Box::new(Recurrent {
        kernels: context.kernels,
        cell,
        reverse,
        steps,
        hidden,
        gates,
        y,
        initial,
        last,
        weights,
    }))
}

/// Copies `n` floats, `from` and `to` of which lie the given strides apart.
///
/// # Safety
/// The floats are valid for reading and writing, and do not overlap.
unsafe fn copy((from, apart): (*const f32, i64), (to, gap): (*mut f32, i64), n: usize) {
    for i in 0..n as i64 {
        // SAFETY: as the caller vouches.
        unsafe {
            to.wrapping_offset((i * gap) as isize)
                .write(from.wrapping_offset((i * apart) as isize).read());
        }
    }
}

impl Recurrent {
    /// Row `row` of step `t` of a `[T, B, N]` site.
    fn at(site: &Site, memory: &Memory<'_>, t: usize, row: usize) -> *mut f32 {
        let offset = t as i64 * site.stride(0) + row as i64 * site.stride(1);
        site.pointer(memory).wrapping_offset(offset as isize)
    }

    /// Row `row` of a state `[B, H]`.
    fn state(site: &Site, memory: &Memory<'_>, row: usize) -> *mut f32 {
        site.pointer(memory).wrapping_offset(row as isize * site.stride(0) as isize)
    }

    /// All steps of `rows`, at most [`ROWS`] of them.
    fn walk(&self, memory: &Memory<'_>, rows: Range<usize>, scratch: &mut [f32]) {
        let n = self.hidden;
        let (sums, rest) = scratch.split_at_mut(ROWS * 4 * n);
        let (states, zeros) = rest.split_at_mut(ROWS * n);
        zeros.fill(0.0);
        match &self.initial {
            None => states.fill(0.0),
            Some([_, initial]) => {
                for (state, row) in states.chunks_exact_mut(n).zip(rows.clone()) {
                    let from = Self::state(initial, memory, row).cast_const();
                    // SAFETY: a row of the view's `n` elements (the plan), into scratch.
                    unsafe { copy((from, initial.stride(1)), (state.as_mut_ptr(), 1), n) }
                }
            }
        }
        let mut h = match &self.initial {
            None => (zeros.as_ptr(), 0),
            Some([initial, _]) => (Self::state(initial, memory, rows.start).cast_const(), initial.stride(0) as usize),
        };
        for step in 0..self.steps {
            let t = if self.reverse { self.steps - 1 - step } else { step };
            let args = Gemm {
                a: h.0,
                a_stride: h.1,
                m: rows.len(),
                k: n,
                weights: floats(&self.weights).as_ptr(),
                bias: Self::at(&self.gates, memory, t, rows.start).cast_const(),
                bias_stride: self.gates.stride(1) as usize,
                n: 4 * n,
                out: sums.as_mut_ptr(),
                out_stride: 4 * n,
                steps: &[],
            };
            // SAFETY: h is one row or one for each of `rows`, of `n` floats; the pre-activations have `4 n` for each, as has
            // the scratch (the plan; views do not walk backwards).
            unsafe { self.kernels.gemm(&args) }
            for (i, row) in rows.clone().enumerate() {
                let cell = RecurrentCell {
                    gates: sums[4 * n * i..].as_ptr(),
                    state: states[n * i..].as_mut_ptr(),
                    h: Self::at(&self.y, memory, t, row),
                    n,
                };
                // SAFETY: sums and state of a row in scratch; the row of the output is this tile's alone (the plan).
                unsafe {
                    match self.cell {
                        Cell::Lstm => self.kernels.lstm_cell(&cell),
                        Cell::Gru => self.kernels.gru_cell(&cell),
                    }
                }
            }
            h = (Self::at(&self.y, memory, t, rows.start).cast_const(), self.y.stride(1) as usize);
        }
        if let Some(last) = &self.last {
            for (c, row) in states.chunks_exact(n).zip(rows) {
                // SAFETY: a row of the output, which is this tile's alone (the plan), from scratch.
                unsafe { copy((c.as_ptr(), 1), (Self::state(last, memory, row), last.stride(1)), n) }
            }
        }
    }
}

impl Kernel for Recurrent {
    fn tiles(&self, region: &Region) -> u32 {
        if region.is_empty() {
            0
        } else {
            region.rows.len().div_ceil(ROWS) as u32
        }
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, scratch: &mut [u8]) {
        let scratch: &mut [f32] = bytemuck::cast_slice_mut(&mut scratch[..self.scratch_bytes()]);
        for tile in tiles {
            let start = region.rows.start as usize + tile as usize * ROWS;
            self.walk(memory, start..(start + ROWS).min(region.rows.end as usize), scratch);
        }
    }

    fn scratch_bytes(&self) -> usize {
        // Sums and states of all rows, and one row of zeros.
        (5 * ROWS + 1) * self.hidden * 4
    }
}
