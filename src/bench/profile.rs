//! The time of each operator of a plan alone, on one worker.
//!
//! The operators of a frame run in issue order on the plan's own memory, with a clock read between them: each reads what
//! the ones before it wrote, as in a frame, and nothing runs beside it.

use super::BenchError;
use super::inputs::{self, Picture};
use super::measure::Samples;
use super::ours::deployment;
use crate::backend::cpu::arena::{Block, ImageParams, Memory, ReadSpan, Span};
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::kernels::Compiler;
use crate::backend::cpu::simd::Isa;
use crate::board::BoardRecord;
use crate::ids::{PlanId, SectionId};
use crate::plan::deployment::Deployment;
use crate::plan::format::{Operator, Plan, Step};
use crate::planner::{Compiled, cost};
use crate::units::Nanos;
use std::time::Instant;

/// What one operator took.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorTime {
    /// The tenant it belongs to.
    pub tenant: String,
    /// Its name in the plan.
    pub name: String,
    /// Its kernel, as the plan names it.
    pub kernel: String,
    /// Shape of its first output.
    pub shape: String,
    /// The median over all passes.
    pub time: Nanos,
    /// Multiply-adds, as the planner counts them.
    pub macs: u64,
    /// Bytes read and written, as the planner counts them.
    pub bytes: u64,
}

impl OperatorTime {
    /// Floating point operations a nanosecond, two for each multiply-add.
    pub fn gflops(&self) -> f64 {
        2.0 * self.macs as f64 / self.time.0.max(1) as f64
    }

    /// Bytes a nanosecond.
    pub fn gigabytes(&self) -> f64 {
        self.bytes as f64 / self.time.0.max(1) as f64
    }
}

/// Measures every operator of a compiled task set in `passes` passes: longest first. `ranges` has the input range of each
/// tenant that is fed with tensors.
pub fn profile(compiled: Compiled, ranges: &[(f32, f32)], board: &BoardRecord, passes: usize) -> Result<Vec<OperatorTime>, BenchError> {
    let deployment = deployment(vec![compiled], board)?;
    let plan: &Plan = &deployment.plans[0];
    let sections = sections(&deployment, PlanId(0), plan);
    let kernels = kernels(plan, &sections)?;
    let room = Room::new(plan, ranges)?;
    let scratch_bytes = kernels.iter().map(|k| k.scratch_bytes()).max().unwrap_or(0);
    let mut scratch = block(scratch_bytes as u64)?;
    let images: Vec<Span<'_>> = room.images.iter().map(Block::span).collect();
    let memory = Memory {
        arena: room.arena.span(),
        persistent: room.persistent.span(),
        input: room.input.span(),
        output: room.output.span(),
        images: &images,
        params: &room.params,
        weights: &sections,
    };
    let mut times = vec![Samples::default(); plan.operators.len()];
    // The first pass warms caches and is not counted.
    for pass in 0..=passes {
        for (samples, time) in times.iter_mut().zip(run(plan, &kernels, &memory, scratch.bytes_mut())) {
            samples.extend((pass > 0).then_some(time));
        }
    }
    let mut all: Vec<OperatorTime> = plan
        .operators
        .iter()
        .zip(&times)
        .map(|(o, t)| operator_time(plan, o, t.median()))
        .collect();
    all.sort_by_key(|o| std::cmp::Reverse(o.time));
    Ok(all)
}

fn operator_time(plan: &Plan, operator: &Operator, time: Nanos) -> OperatorTime {
    let (macs, bytes) = cost::work(operator);
    OperatorTime {
        tenant: plan.tenants[operator.tenant.index()].name.clone(),
        name: operator.name.clone(),
        kernel: format!("{:?}", operator.tactic.kernel),
        shape: operator.outputs.first().map_or(String::new(), |v| v.layout.shape.to_string()),
        time,
        macs,
        bytes,
    }
}

/// One pass over the plan's first frame in issue order: the time of each operator, 0 of those that do not run in it.
fn run(plan: &Plan, kernels: &[Box<dyn Kernel>], memory: &Memory<'_>, scratch: &mut [u8]) -> Vec<Nanos> {
    let mut times = vec![Nanos(0); plan.operators.len()];
    for Step { operator, chunk } in plan.cycle.iter().take(1).flat_map(|c| &c.segments).flat_map(|s| &s.steps) {
        let region = &plan.operators[operator.index()].chunks[usize::from(*chunk)];
        let kernel = &kernels[operator.index()];
        let start = Instant::now();
        kernel.run(memory, region, 0..kernel.tiles(region), scratch);
        times[operator.index()].0 += u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    }
    times
}

/// The weight sections of a plan of a deployment.
pub(super) fn sections<'d>(deployment: &'d Deployment, id: PlanId, plan: &Plan) -> Vec<ReadSpan<'d>> {
    let section = |s: usize| ReadSpan::new(deployment.section(id, SectionId(s as u32)));
    (0..plan.sections.len()).map(section).collect()
}

/// Every operator of a plan, compiled for this processor.
pub(super) fn kernels(plan: &Plan, sections: &[ReadSpan<'_>]) -> Result<Vec<Box<dyn Kernel>>, BenchError> {
    let mut compiler = Compiler::new(Isa::detect());
    let compile = |operator: &Operator| {
        compiler.compile(plan, operator, sections).map_err(|error| BenchError::Kernel {
            name: operator.name.clone(),
            error,
        })
    };
    plan.operators.iter().map(compile).collect()
}

/// The memory of one frame, with its inputs in place.
pub(super) struct Room {
    pub(super) arena: Block,
    pub(super) persistent: Block,
    pub(super) input: Block,
    pub(super) output: Block,
    pub(super) images: Vec<Block>,
    pub(super) params: Vec<ImageParams>,
}

impl Room {
    pub(super) fn new(plan: &Plan, ranges: &[(f32, f32)]) -> Result<Room, BenchError> {
        let mut room = Room {
            arena: block(plan.arena_bytes)?,
            persistent: block(plan.persistent_bytes)?,
            input: block(plan.input_bytes)?,
            output: block(plan.output_bytes)?,
            images: Vec::new(),
            params: Vec::new(),
        };
        for camera in &plan.cameras {
            let (picture, mut bytes) = (Picture::of(camera), block(camera.bytes)?);
            let image = picture.image();
            bytes.bytes_mut()[..image.data.len()].copy_from_slice(image.data);
            room.images.push(bytes);
            room.params.push(ImageParams {
                frame: 0,
                width: image.width,
                height: image.height,
                stride: image.stride,
                format: Some(image.format),
            });
        }
        for (tenant, port, data) in inputs::tensors(plan, ranges) {
            let view = &plan.tenants[tenant].inputs[port].view;
            if let crate::plan::format::Space::Input { offset } = plan.buffers[view.buffer.index()].space {
                let start = offset as usize + (view.origin * view.dtype.bytes()) as usize;
                room.input.bytes_mut()[start..start + data.len()].copy_from_slice(&data);
            }
        }
        Ok(room)
    }
}

fn block(bytes: u64) -> Result<Block, BenchError> {
    let mut block = usize::try_from(bytes).ok().and_then(Block::new).ok_or(BenchError::Memory(bytes))?;
    // Pages are touched now, so that no operator pays for them.
    block.bytes_mut().fill(0);
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_count_two_operations_a_multiply_add() {
        let operator = OperatorTime {
            tenant: "t".into(),
            name: "conv".into(),
            kernel: "ConvIgemm".into(),
            shape: "[1]".into(),
            time: Nanos(1_000),
            macs: 20_000,
            bytes: 5_000,
        };
        assert_eq!((operator.gflops(), operator.gigabytes()), (40.0, 5.0));
        assert_eq!(
            OperatorTime {
                time: Nanos(0),
                ..operator
            }
            .gflops(),
            40_000.0,
            "a time below the clock's step"
        );
    }
}
