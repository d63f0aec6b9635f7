//! Operators of a plan each on its own: a plan in which every one of them reads tensors that are given and writes tensors
//! that are returned, so that a backend can be judged, or timed, operator by operator.
//!
//! An operator keeps its primitives, class, width and weights, its tactic and chunks unless others are asked for, and its views keep their strides, their
//! place inside their buffers and the buffers' sizes, which kernels choose by. Only the buffers are its own: a copy fills
//! each view it reads from an input of the plan, and another takes each view it writes to a result.

use super::schedule::Schedule;
use super::simulate::{self, Costs};
use super::{PlannerError, memory};
use crate::board::BoardRecord;
use crate::ids::{BufferId, CameraId, OperatorId, SegmentId, StreamId, TenantId};
use crate::plan::check;
use crate::plan::format::{
    ArithmeticClass, Buffer, Call, Digest, Family, FrameSchedule, Kernel, Operand, Operator, Plan, Port, Role, Rounding, Segment, Space,
    Step, Stream, Tactic, Tenant, View,
};
use crate::plan::tactic::{self, Target};
use crate::primitive::{Primitive, Region};
use crate::task::{Rate, ResultKind, Urgency};
use crate::tensor::Layout;
use std::collections::BTreeMap;

/// A plan of operators each on its own.
#[derive(Clone, Debug)]
pub struct Isolated {
    /// The plan, checked: one tenant fed with tensors.
    pub plan: Plan,
    /// The operators, in the order in which they run.
    pub operators: Vec<Ends>,
}

/// Where an operator's operands are among the tenant's inputs and results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The operator in the plan that it is from.
    pub operator: OperatorId,
    /// What it reads: index of the input, and the view in that plan (see [`stored`]).
    pub inputs: Vec<(usize, View)>,
    /// What it writes: index of the result, and the view in that plan.
    pub outputs: Vec<(usize, View)>,
    /// The segments that hold nothing but the operator: one for each tactic that was asked for, round after round.
    pub segments: Vec<SegmentId>,
}

/// An operator, and how it is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The operator.
    pub operator: OperatorId,
    /// The tactics to run it with, one after the other; the results are the last one's.
    pub tactics: Vec<Tactic>,
    /// How often each is run in a row, at least once; every time into memory of its own.
    pub repeats: u32,
    /// How often all of them take their turns, at least once.
    pub rounds: u32,
    /// The chunks that it runs in, which cover its output; empty for its own.
    pub chunks: Vec<Region>,
}

/// The elements that a view names, each once: axes that repeat one element (stride 0) have extent 1.
pub fn stored(view: &View) -> View {
    let mut shape = view.layout.shape;
    for axis in 0..shape.rank() {
        if view.layout.stride(axis) == 0 && shape.dim(axis) > 1 {
            shape = shape.with_dim(axis, 1).unwrap_or(shape);
        }
    }
    // A layout of the same rank with as many strides cannot be refused.
    let layout = Layout::new(shape, view.layout.strides()).unwrap_or(view.layout);
    View { layout, ..*view }
}

/// True for memory whose contents a frame brings with it: it stays where it is.
fn stays(space: Space) -> bool {
    matches!(space, Space::Camera(_) | Space::Weights(_))
}

/// The plan that runs operators of `plan`, each on its own, on a board.
///
/// # Errors
/// [`PlannerError::Check`] for an operator that reads one element through two places of a view, for a tactic that does not
/// fit, and for a plan that is not checked.
pub fn isolate(plan: &Plan, trials: &[Trial], board: &BoardRecord) -> Result<Isolated, PlannerError> {
    let mut builder = Builder::new(plan, board);
    for trial in trials {
        let operator = plan.operators.get(trial.operator.index());
        builder.add(trial, operator.ok_or(PlannerError::Limit("operators"))?);
    }
    builder.finish()
}

struct Builder<'a> {
    from: &'a Plan,
    board: &'a BoardRecord,
    plan: Plan,
    ends: Vec<Ends>,
    segments: Vec<Segment>,
    /// The next step begins a segment.
    fresh: bool,
    /// Buffers that stay, by their number in `from`.
    kept: BTreeMap<BufferId, BufferId>,
}

impl<'a> Builder<'a> {
    fn new(from: &'a Plan, board: &'a BoardRecord) -> Builder<'a> {
        let tenant = Tenant {
            name: "operators".into(),
            model: from.task_set.clone(),
            cameras: (0..from.cameras.len()).map(|c| CameraId(c as u16)).collect(),
            rate: Rate::EVERY_FRAME,
            urgency: Urgency {
                priority: 0,
                deadline: None,
            },
            kind: ResultKind::Tensors,
            sources: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let plan = Plan {
            task_set: "operators".into(),
            tenants: vec![tenant],
            buffers: Vec::new(),
            operators: Vec::new(),
            streams: vec![Stream { priority: 0, units: 0 }],
            cycle: Vec::new(),
            ..from.clone()
        };
        Builder {
            from,
            board,
            plan,
            ends: Vec::new(),
            segments: Vec::new(),
            fresh: true,
            kept: BTreeMap::new(),
        }
    }

    fn buffer(&mut self, space: Space, bytes: u64) -> BufferId {
        self.plan.buffers.push(Buffer { space, bytes });
        BufferId(self.plan.buffers.len() as u32 - 1)
    }

    /// Appends an operator; all its chunks become steps of the segment at hand.
    fn step(&mut self, operator: Operator) {
        if std::mem::take(&mut self.fresh) {
            self.segments.push(Segment {
                tenant: TenantId(0),
                stream: StreamId(0),
                steps: Vec::new(),
            });
        }
        let id = OperatorId(self.plan.operators.len() as u32);
        let steps = (0..operator.chunks.len()).map(|chunk| Step {
            operator: id,
            chunk: chunk as u16,
        });
        if let Some(segment) = self.segments.last_mut() {
            segment.steps.extend(steps);
        }
        self.plan.operators.push(operator);
    }

    fn add(&mut self, trial: &Trial, operator: &Operator) {
        let mut ends = Ends {
            operator: trial.operator,
            inputs: Vec::new(),
            outputs: Vec::new(),
            segments: Vec::new(),
        };
        self.fresh = true;
        let mut own = operator.clone();
        own.tenant = TenantId(0);
        if !trial.chunks.is_empty() {
            own.chunks.clone_from(&trial.chunks);
        }
        let mut read: Vec<(View, BufferId)> = Vec::new();
        for call in &mut own.calls {
            for input in &mut call.inputs {
                let Operand::View(view) = input else { continue };
                let known = read.iter().find(|(known, _)| known == view).map(|(_, buffer)| *buffer);
                let buffer = known.unwrap_or_else(|| self.read(view, &mut ends));
                read.push((*view, buffer));
                view.buffer = buffer;
            }
        }
        let mut written = own.outputs.clone();
        let rounds = trial.rounds.max(1) as usize;
        for &tactic in trial.tactics.iter().cycle().take(trial.tactics.len() * rounds) {
            self.fresh = true;
            own.tactic = tactic;
            for _ in 0..trial.repeats.max(1) {
                written = self.room(&operator.outputs);
                own.outputs = written.clone();
                self.step(own.clone());
            }
            ends.segments.push(SegmentId(self.segments.len() as u32 - 1));
        }
        self.fresh = true;
        for (original, view) in operator.outputs.iter().zip(written) {
            let port = self.port(&view, Space::Output { offset: 0 });
            self.copy(view, port.view);
            let outputs = &mut self.plan.tenants[0].outputs;
            ends.outputs.push((outputs.len(), *original));
            outputs.push(port);
        }
        self.ends.push(ends);
    }

    /// The same views in new buffers of the same sizes.
    fn room(&mut self, views: &[View]) -> Vec<View> {
        let mut new: BTreeMap<BufferId, BufferId> = BTreeMap::new();
        let mut moved = Vec::with_capacity(views.len());
        for view in views {
            let bytes = self.from.buffers[view.buffer.index()].bytes;
            let known = new.get(&view.buffer).copied();
            let buffer = known.unwrap_or_else(|| self.buffer(Space::Arena { offset: 0 }, bytes));
            new.insert(view.buffer, buffer);
            moved.push(View { buffer, ..*view });
        }
        moved
    }

    /// The buffer that an operator reads a view from, filled from a new input unless its contents come with the frame.
    fn read(&mut self, view: &View, ends: &mut Ends) -> BufferId {
        let from = self.from.buffers[view.buffer.index()];
        if stays(from.space) {
            let known = self.kept.get(&view.buffer).copied();
            let buffer = known.unwrap_or_else(|| self.buffer(from.space, from.bytes));
            self.kept.insert(view.buffer, buffer);
            return buffer;
        }
        let buffer = self.buffer(Space::Arena { offset: 0 }, from.bytes);
        let place = View { buffer, ..stored(view) };
        let port = self.port(&place, Space::Input { offset: 0 });
        self.copy(port.view, place);
        let inputs = &mut self.plan.tenants[0].inputs;
        ends.inputs.push((inputs.len(), *view));
        inputs.push(port);
        buffer
    }

    /// A port of a view's elements in C order.
    fn port(&mut self, view: &View, space: Space) -> Port {
        let shape = view.layout.shape;
        let bytes = shape.elements() * view.dtype.bytes();
        Port {
            name: format!("operand {}", self.plan.buffers.len()),
            image: 0,
            view: View {
                buffer: self.buffer(space, bytes),
                origin: 0,
                dtype: view.dtype,
                layout: Layout::contiguous(shape),
            },
            role: Role::Tensor,
            labels: Vec::new(),
            fit: None,
            widened: false,
        }
    }

    /// Appends an operator that copies a view to another of its shape.
    fn copy(&mut self, from: View, to: View) {
        let shape = to.layout.shape;
        let call = Call {
            primitive: Primitive::Copy,
            inputs: vec![Operand::View(from)],
            dtype: to.dtype,
            shape,
            rounding: Rounding::Rounded,
        };
        let mut copy = Operator {
            tenant: TenantId(0),
            name: "copy".into(),
            calls: vec![call],
            outputs: vec![to],
            class: ArithmeticClass {
                family: Family::Fma,
                split_k: 1,
            },
            tactic: Tactic::of(Kernel::Generic),
            width: 0,
            chunks: vec![Region::whole(shape)],
        };
        copy.class = tactic::arithmetic_class_on(&self.plan, &copy, self.board);
        if let Some(best) = tactic::menu(&self.plan, &copy, Target::of(self.board)).into_iter().next() {
            copy.tactic = best;
        }
        self.step(copy);
    }

    fn finish(mut self) -> Result<Isolated, PlannerError> {
        let schedule = Schedule {
            operators: std::mem::take(&mut self.plan.operators),
            streams: self.plan.streams.clone(),
            cycle: vec![FrameSchedule {
                tenants: vec![TenantId(0)],
                segments: self.segments,
                syncs: Vec::new(),
            }],
        };
        let mut plan = self.plan;
        let estimated = |_: &Operator| None;
        plan.prediction = simulate::predict(
            &plan.tenants,
            &schedule,
            &Costs::of(&schedule.operators, self.board, &estimated),
            true,
        )?;
        let placement = memory::place(&schedule.operators, &mut plan.buffers, schedule.streams.len(), &schedule.cycle)?;
        (plan.operators, plan.cycle) = (schedule.operators, schedule.cycle);
        (plan.arena_bytes, plan.persistent_bytes) = (placement.arena_bytes, placement.persistent_bytes);
        (plan.input_bytes, plan.output_bytes) = (placement.input_bytes, placement.output_bytes);
        plan.board = Digest::of_board(self.board);
        let plan = check::check(plan).map_err(|e| PlannerError::Check(Box::new(e)))?.into_inner();
        Ok(Isolated {
            plan,
            operators: self.ends,
        })
    }
}
