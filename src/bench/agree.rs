//! A GPU against the processor, operator by operator: each reads the same values and must give the same results, or, on
//! tensor cores, results within stated bounds.
//!
//! The processor runs the plan once, in issue order, on noise from a fixed seed. What each operator read and wrote is kept;
//! the GPU then runs the operators each on its own (see [`isolate`]) on what the processor's read. So an error is found where
//! it is made, and does not grow on its way through a network.

use super::BenchError;
use super::profile::{Room, kernels, sections};
use crate::backend::cpu::arena::{Block, Memory, Span};
use crate::backend::cpu::kernel::Kernel;
use crate::board::BoardRecord;
use crate::ids::{CameraId, OperatorId, PlanId, SectionId, TenantId};
use crate::limits::MAX_BYTES;
use crate::plan::deployment::Deployment;
use crate::plan::format::{Family, Operand, Operator, Plan, Space, Step, View};
use crate::plan::table::{Entry, Table};
use crate::plan::weights::WeightFileBuilder;
use crate::planner::isolate::{Ends, Isolated, Trial, isolate, stored};
use crate::primitive::{Primitive, Region};
use crate::runtime::{Engine, Options};
use crate::tensor::DType;
use half::f16;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// Tensor cores and normalisations of halves add in another order than the processor, so that a value may round to a neighbour, and
/// the operator's tail rounds again: two units in the last place of f16, relative to the value.
const TENSOR_CORES_OF_VALUE: f64 = 1.0 / 512.0;
/// The same for values that are small beside what was added to make them: one unit of the tensor's largest value.
const TENSOR_CORES_OF_LARGEST: f64 = 1.0 / 1024.0;
/// Operands and results of the operators that one plan runs on the GPU, about.
const GROUP_BYTES: u64 = 256 << 20;
/// The range of noise in tensor inputs.
const RANGE: (f32, f32) = (-1.0, 1.0);

/// How far a GPU agrees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agreement {
    /// Operators compared.
    pub operators: usize,
    /// Of them, those with the same bits.
    pub same_bits: usize,
    /// The largest deviation within bounds, with its operator.
    pub worst: Option<Deviation>,
    /// What is out of bounds, in issue order: the first value of each operator.
    pub wrong: Vec<Deviation>,
}

/// A value that is not the processor's.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// The operator's tenant.
    pub tenant: String,
    /// Its name.
    pub operator: String,
    /// Its number in the plan.
    pub number: OperatorId,
    /// Its kernel, as the plan names it.
    pub kernel: String,
    /// Which of its outputs, and which element in C order.
    pub at: (usize, usize),
    /// The GPU's value.
    pub gpu: f64,
    /// The processor's.
    pub cpu: f64,
    /// The deviation divided by what is allowed; infinite where nothing is.
    pub of_allowed: f64,
}

/// Views of a plan with their elements' bytes in C order.
type Contents = Vec<(View, Vec<u8>)>;

/// What an operator read and wrote on the processor, a list of bytes for each distinct view.
struct Values {
    operator: OperatorId,
    inputs: Contents,
    outputs: Contents,
}

impl Values {
    fn bytes(&self) -> u64 {
        self.inputs.iter().chain(&self.outputs).map(|(_, b)| b.len() as u64).sum()
    }
}

/// Compares the operators of a plan of a deployment: every one that runs in some frame of the cycle. `options` say what runs
/// the other side; `progress` is told how many operators are done.
pub fn agree(deployment: &Deployment, plan: PlanId, options: &Options, progress: &mut dyn FnMut(usize)) -> Result<Agreement, BenchError> {
    let judge = Judge {
        deployment,
        plan: &deployment.plans[plan.index()],
        board: BoardRecord {
            memory_budget: MAX_BYTES,
            ..deployment.table.board.clone()
        },
        options,
    };
    let mut agreement = Agreement::default();
    let mut group: Vec<Values> = Vec::new();
    judge.reference(plan, &mut |values| {
        group.push(values);
        if group.iter().map(Values::bytes).sum::<u64>() >= GROUP_BYTES {
            judge.compare(&group, &mut agreement)?;
            group.clear();
            progress(agreement.operators);
        }
        Ok(())
    })?;
    if !group.is_empty() {
        judge.compare(&group, &mut agreement)?;
    }
    progress(agreement.operators);
    Ok(agreement)
}

struct Judge<'a> {
    deployment: &'a Deployment,
    plan: &'a Plan,
    board: BoardRecord,
    options: &'a Options,
}

impl Judge<'_> {
    /// Runs the plan on the processor, giving `visit` every operator's values, each operator once.
    fn reference(&self, id: PlanId, visit: &mut dyn FnMut(Values) -> Result<(), BenchError>) -> Result<(), BenchError> {
        let plan = self.plan;
        let sections = sections(self.deployment, id, plan);
        let kernels = kernels(plan, &sections)?;
        let room = Room::new(plan, &vec![RANGE; plan.tenants.len()])?;
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
        let mut team = Team::new(&kernels)?;
        let mut seen = vec![false; plan.operators.len()];
        for schedule in &plan.cycle {
            let mut left: Vec<usize> = plan.operators.iter().map(|o| o.chunks.len()).collect();
            let mut read: Vec<Option<Contents>> = vec![None; left.len()];
            for Step { operator: id, chunk } in schedule.segments.iter().flat_map(|s| &s.steps) {
                let operator = &plan.operators[id.index()];
                // All chunks of an operator read what was complete before the first of them.
                let inputs = read[id.index()].take().unwrap_or_else(|| inputs(plan, operator, &memory));
                team.run(&*kernels[id.index()], &memory, &operator.chunks[usize::from(*chunk)]);
                left[id.index()] -= 1;
                if left[id.index()] > 0 || std::mem::replace(&mut seen[id.index()], true) {
                    read[id.index()] = Some(inputs);
                    continue;
                }
                visit(Values {
                    operator: *id,
                    inputs,
                    outputs: operator.outputs.iter().map(|v| (*v, gather(plan, v, &memory))).collect(),
                })?;
            }
        }
        Ok(())
    }

    /// Runs a group of operators on the other side, and compares.
    fn compare(&self, group: &[Values], agreement: &mut Agreement) -> Result<(), BenchError> {
        let once = |values: &Values| Trial {
            operator: values.operator,
            tactics: vec![self.plan.operators[values.operator.index()].tactic],
            repeats: 1,
            rounds: 1,
            chunks: Vec::new(),
        };
        let trials: Vec<Trial> = group.iter().map(once).collect();
        let refused = |error| BenchError::Plan {
            name: self.plan.task_set.clone(),
            error: Box::new(error),
        };
        let isolated = isolate(self.plan, &trials, &self.board).map_err(refused)?;
        for (values, results) in group.iter().zip(self.run(&isolated, group)?) {
            self.judge(values, &results, agreement);
        }
        Ok(())
    }

    /// The results of each operator of an isolated plan on the processor's operands.
    fn run(&self, isolated: &Isolated, group: &[Values]) -> Result<Vec<Vec<Vec<u8>>>, BenchError> {
        let mut engine = Engine::with(alone(self.deployment, self.plan, isolated, &self.board)?, self.options)?;
        let tenant = TenantId(0);
        let mut draft = engine.begin()?;
        for (camera, picture) in self.plan.cameras.iter().map(super::inputs::Picture::of).enumerate() {
            draft.copy_image(CameraId(camera as u16), &picture.image())?;
        }
        for (values, ends) in group.iter().zip(&isolated.operators) {
            for (port, view) in &ends.inputs {
                let known = values.inputs.iter().find(|(v, _)| v == view);
                draft.copy_input(tenant, *port, known.map_or(&[], |(_, bytes)| bytes))?;
            }
        }
        let ticket = draft.submit()?;
        engine.wait(&ticket, None)?;
        let result = engine.result(&ticket, tenant)?;
        let all: Vec<Vec<u8>> = result.tensors().map(|(_, bytes)| bytes.to_vec()).collect();
        let of = |ends: &Ends| ends.outputs.iter().map(|(port, _)| all[*port].clone()).collect();
        let results = isolated.operators.iter().map(of).collect();
        engine.release(ticket)?;
        engine.close();
        Ok(results)
    }

    fn judge(&self, values: &Values, results: &[Vec<u8>], agreement: &mut Agreement) {
        let operator = &self.plan.operators[values.operator.index()];
        agreement.operators += 1;
        let mut worst: Option<Found> = None;
        let mut same = true;
        for (index, ((view, expected), result)) in values.outputs.iter().zip(results).enumerate() {
            let meant = meaningful(operator, index, &values.outputs, view);
            let found = differences(view.dtype, keeps_order(operator), result, expected, meant);
            same &= found.same_bits;
            let deviation = found.first_wrong.or(found.worst).map(|v| Found { output: index, ..v });
            worst = match (worst, deviation) {
                (Some(a), Some(b)) if a.of_allowed >= b.of_allowed || a.of_allowed > 1.0 => Some(a),
                (a, b) => b.or(a),
            };
        }
        agreement.same_bits += usize::from(same);
        let Some(found) = worst else { return };
        let deviation = Deviation {
            tenant: self.plan.tenants[operator.tenant.index()].name.clone(),
            operator: operator.name.clone(),
            number: values.operator,
            kernel: format!("{:?}", operator.tactic.kernel),
            at: (found.output, found.element),
            gpu: found.gpu,
            cpu: found.cpu,
            of_allowed: found.of_allowed,
        };
        if deviation.of_allowed > 1.0 {
            agreement.wrong.push(deviation);
        } else if agreement.worst.as_ref().is_none_or(|w| w.of_allowed < deviation.of_allowed) {
            agreement.worst = Some(deviation);
        }
    }
}

/// An isolated plan as a deployment of its own, with those sections of weights that its operators read.
pub(super) fn alone(deployment: &Deployment, from: &Plan, isolated: &Isolated, board: &BoardRecord) -> Result<Deployment, BenchError> {
    let mut plan = isolated.plan.clone();
    let mut builder = WeightFileBuilder::new(0);
    let mut kept: BTreeMap<SectionId, SectionId> = BTreeMap::new();
    plan.sections.clear();
    for buffer in &mut plan.buffers {
        let Space::Weights(section) = &mut buffer.space else { continue };
        if let Some(known) = kept.get(section) {
            *section = *known;
            continue;
        }
        let at = &from.sections[section.index()];
        let file = &from.weight_files[at.file as usize];
        let bytes = deployment.weights().section(&file.digest, at);
        let new = SectionId(plan.sections.len() as u32);
        plan.sections.push(builder.push(bytes.unwrap_or_default()));
        kept.insert(std::mem::replace(section, new), new);
    }
    let (record, bytes) = builder.finish();
    let files = if plan.sections.is_empty() { Vec::new() } else { vec![bytes] };
    plan.weight_files = if plan.sections.is_empty() { Vec::new() } else { vec![record] };
    let table = Table {
        board: board.clone(),
        backend: board.backend,
        default_task_set: plan.task_set.clone(),
        slots: 1,
        cameras: plan.cameras.clone(),
        entries: vec![Entry::of(&plan)],
    };
    Ok(Deployment::assemble(table, vec![plan], files)?)
}

/// Which elements of an output mean something: rows of detections behind their count, and crops of nothing, do not.
fn meaningful(operator: &Operator, index: usize, outputs: &[(View, Vec<u8>)], view: &View) -> Box<dyn Fn(usize) -> bool> {
    let integers = |bytes: &[u8]| -> Vec<i32> {
        bytes
            .chunks_exact(4)
            .map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    };
    let second = outputs.get(1).map(|(_, bytes)| integers(bytes)).unwrap_or_default();
    let row = (view.layout.shape.elements() / u64::from(view.layout.shape.batch()).max(1)).max(1) as usize;
    match operator.calls.last().map(|c| &c.primitive) {
        Some(Primitive::Nms(_)) if index == 0 => {
            let count = second.first().map_or(0, |&c| c.max(0) as usize);
            Box::new(move |element| element / row < count)
        }
        Some(Primitive::Crop(_)) if index == 0 => Box::new(move |element| second.get(element / row).is_some_and(|&r| r >= 0)),
        _ => Box::new(|_| true),
    }
}

/// A deviation inside one operator.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    output: usize,
    element: usize,
    gpu: f64,
    cpu: f64,
    of_allowed: f64,
}

struct Differences {
    same_bits: bool,
    first_wrong: Option<Found>,
    worst: Option<Found>,
}

/// True if the GPU computes the operator in the processor's order, so that every bit is the same. Tensor cores add in their own, and
/// so do normalisations of halves and sums in several ranges.
fn keeps_order(operator: &Operator) -> bool {
    let normalises = |p: &Primitive| {
        matches!(
            p,
            Primitive::Normalise { .. } | Primitive::RmsNormalise { .. } | Primitive::GroupNormalise { .. }
        )
    };
    let halves = operator.outputs.iter().any(|v| v.dtype == DType::F16);
    let one_range = operator.class.split_k <= 1;
    operator.class.family == Family::Fma && one_range && !(halves && operator.calls.iter().any(|c| normalises(&c.primitive)))
}

/// Holds a tensor against the processor's: bit for bit where both keep one `order`, and integers always.
fn differences(dtype: DType, order: bool, gpu: &[u8], cpu: &[u8], meant: impl Fn(usize) -> bool) -> Differences {
    let (gpu, cpu) = (numbers(dtype, gpu), numbers(dtype, cpu));
    let finite = cpu.iter().enumerate().filter(|&(i, v)| v.is_finite() && meant(i));
    let largest = finite.map(|(_, v)| v.abs()).fold(0.0, f64::max);
    let exact = order || !dtype.is_float();
    let mut all = Differences {
        same_bits: gpu.len() == cpu.len(),
        first_wrong: None,
        worst: None,
    };
    for (element, (&g, &c)) in gpu.iter().zip(&cpu).enumerate() {
        if g == c || (g.is_nan() && c.is_nan()) || !meant(element) {
            continue;
        }
        all.same_bits = false;
        let allowed = match exact {
            true => 0.0,
            false => TENSOR_CORES_OF_VALUE * c.abs() + TENSOR_CORES_OF_LARGEST * largest,
        };
        let of_allowed = match (g - c).abs() / allowed {
            ratio if ratio.is_nan() => f64::INFINITY,
            ratio => ratio,
        };
        let found = Found {
            output: 0,
            element,
            gpu: g,
            cpu: c,
            of_allowed,
        };
        if of_allowed > 1.0 {
            all.first_wrong.get_or_insert(found);
        }
        if all.worst.is_none_or(|w| w.of_allowed < of_allowed) {
            all.worst = Some(found);
        }
    }
    all
}

fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let four = |b: &[u8]| [b[0], b[1], b[2], b[3]];
    match dtype {
        DType::F32 => bytes.chunks_exact(4).map(|b| f64::from(f32::from_ne_bytes(four(b)))).collect(),
        DType::F16 => bytes.chunks_exact(2).map(|b| f16::from_ne_bytes([b[0], b[1]]).to_f64()).collect(),
        DType::I32 => bytes.chunks_exact(4).map(|b| f64::from(i32::from_ne_bytes(four(b)))).collect(),
        DType::U8 | DType::Bool => bytes.iter().map(|&b| f64::from(b)).collect(),
    }
}

/// The distinct views that an operator reads from memory that a frame fills, with their elements.
fn inputs(plan: &Plan, operator: &Operator, memory: &Memory<'_>) -> Contents {
    let mut all: Contents = Vec::new();
    for input in operator.calls.iter().flat_map(|c| &c.inputs) {
        let Operand::View(view) = input else { continue };
        let space = plan.buffers[view.buffer.index()].space;
        let filled = !matches!(space, Space::Camera(_) | Space::Weights(_));
        if filled && !all.iter().any(|(known, _)| known == view) {
            all.push((*view, gather(plan, &stored(view), memory)));
        }
    }
    all
}

/// The elements of a view in C order.
fn gather(plan: &Plan, view: &View, memory: &Memory<'_>) -> Vec<u8> {
    let buffer = plan.buffers[view.buffer.index()];
    let bytes: &[u8] = memory.buffer(buffer.space, buffer.bytes).slice(0, buffer.bytes as usize);
    let (shape, size) = (view.layout.shape, view.dtype.bytes() as i64);
    let mut gathered = Vec::with_capacity((shape.elements() as i64 * size) as usize);
    let mut at = vec![0u32; shape.rank()];
    for _ in 0..shape.elements() {
        let steps = at.iter().zip(view.layout.strides()).map(|(&i, &stride)| i64::from(i) * stride);
        let first = (view.origin as i64 + steps.sum::<i64>()) * size;
        gathered.extend(&bytes[first as usize..(first + size) as usize]);
        for axis in (0..at.len()).rev() {
            at[axis] += 1;
            if at[axis] < shape.dim(axis) {
                break;
            }
            at[axis] = 0;
        }
    }
    gathered
}

/// Threads that share an operator's tiles, with the scratch of each.
struct Team {
    scratch: Vec<Block>,
}

impl Team {
    fn new(kernels: &[Box<dyn Kernel>]) -> Result<Team, BenchError> {
        let bytes = kernels.iter().map(|k| k.scratch_bytes()).max().unwrap_or(0);
        let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let scratch = (0..workers).map(|_| Block::new(bytes)).collect::<Option<Vec<_>>>();
        Ok(Team {
            scratch: scratch.ok_or(BenchError::Memory(bytes as u64))?,
        })
    }

    fn run(&mut self, kernel: &dyn Kernel, memory: &Memory<'_>, region: &Region) {
        let (tiles, workers) = (kernel.tiles(region), self.scratch.len() as u32);
        let first = |worker: u32| tiles / workers * worker + (tiles % workers).min(worker);
        std::thread::scope(|scope| {
            for (worker, scratch) in self.scratch.iter_mut().enumerate() {
                let share = first(worker as u32)..first(worker as u32 + 1);
                scope.spawn(|| kernel.run(memory, region, share, scratch.bytes_mut()));
            }
        });
    }
}

#[cfg(test)]
mod tests;
