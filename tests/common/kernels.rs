//! Kernels of the hand-built plans, written as plainly as can be: one tile a row. They share nothing with the backend's
//! own kernels, so that the executor's tests stand on their own, and they panic when they meet a certain value.

use platoon::backend::cpu::KernelSource;
use platoon::backend::cpu::arena::{Memory, ReadSpan};
use platoon::backend::cpu::kernel::Kernel;
use platoon::plan::format::{Call, Operand, Operator, Plan, Space, View};
use platoon::primitive::{Binary, Primitive, Region, Unary};
use platoon::tensor::DType;
use std::ops::Range;

/// A first pixel at which kernels panic.
pub const POISON: u8 = 99;

/// Makes [`RowKernel`]s.
pub struct Rows;

impl KernelSource for Rows {
    fn compile(&mut self, plan: &Plan, operator: &Operator, _: &[ReadSpan<'_>]) -> Result<Box<dyn Kernel>, String> {
        Ok(Box::new(RowKernel {
            calls: operator.calls.clone(),
            output: operator.outputs[0],
            spaces: plan.buffers.iter().map(|b| (b.space, b.bytes)).collect(),
        }))
    }
}

/// The greater value, of equals the one that was there. `f32::max` leaves open which zero it returns, and processors differ.
fn greater(best: f32, value: f32) -> f32 {
    if value > best { value } else { best }
}

struct RowKernel {
    calls: Vec<Call>,
    output: View,
    spaces: Vec<(Space, u64)>,
}

impl RowKernel {
    fn pixel(&self, memory: &Memory<'_>, view: &View, row: usize, x: usize) -> f32 {
        let width = view.layout.shape.dim(3) as usize;
        let (space, bytes) = self.spaces[view.buffer.index()];
        let bytes = memory.buffer(space, bytes);
        match view.dtype {
            DType::U8 => {
                let value: u8 = bytes.read(row * width + x);
                assert!((row, x) != (0, 0) || value != POISON, "poisoned");
                f32::from(value)
            }
            _ => bytes.read(row * width + x),
        }
    }

    fn value(&self, memory: &Memory<'_>, call: usize, row: usize, x: usize) -> f32 {
        let Call { primitive, inputs, .. } = &self.calls[call];
        let input = |i: usize| match &inputs[i] {
            Operand::View(view) => self.pixel(memory, view, row, x),
            Operand::Inner(c) => self.value(memory, usize::from(*c), row, x),
        };
        match primitive {
            Primitive::Copy => input(0),
            Primitive::Unary(Unary::LeakyRelu(alpha)) => {
                let v = input(0);
                if v < 0.0 { alpha.0 * v } else { v }
            }
            Primitive::Unary(Unary::Clip(low, high)) => input(0).clamp(low.0, high.0),
            Primitive::Unary(Unary::HardSigmoid(alpha, beta)) => alpha.0.mul_add(input(0), beta.0).clamp(0.0, 1.0),
            Primitive::Binary(Binary::Add) => input(0) + input(1),
            Primitive::Binary(Binary::Sub) => input(0) - input(1),
            Primitive::Pool { .. } => {
                let Operand::View(view) = &inputs[0] else {
                    panic!("a pool of an inner value")
                };
                let last = view.layout.shape.dim(2) as usize - 1;
                let rows = row.saturating_sub(1)..=(row + 1).min(last);
                rows.map(|r| self.pixel(memory, view, r, x)).fold(f32::NEG_INFINITY, greater)
            }
            other => panic!("hand-built plans have no {other:?}"),
        }
    }
}

impl Kernel for RowKernel {
    fn tiles(&self, region: &Region) -> u32 {
        region.rows.len() as u32
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _: &mut [u8]) {
        let width = self.output.layout.shape.dim(3) as usize;
        let (space, bytes) = self.spaces[self.output.buffer.index()];
        let target = memory.buffer(space, bytes).writable();
        for row in tiles.map(|t| (region.rows.start + t) as usize) {
            for x in 0..width {
                target.write(row * width + x, self.value(memory, self.calls.len() - 1, row, x));
            }
        }
    }
}
