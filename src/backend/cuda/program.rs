//! A frame schedule of one slot as an ordered list of commands over lanes. Pure tables: no driver.
//!
//! The same list is captured into a graph or issued command by command. Lanes are streams: one root, where a frame begins
//! and ends, so that frames follow one another; one for each of the plan's streams; one beside each of them for marks, so
//! that nothing but the frame's end waits for a mark; one for each camera's image; one for each tenant's inputs and
//! results. The list is in an order in which every wait comes after the record that it waits for.

mod commands;
mod ends;

pub use commands::{Command, EventId, Lane, Lanes};

use super::bind::{Addresses, Area, BindError, Kernel, Launch};
use super::marks::{self, Mark};
use super::ports::{Stretch, inputs, outputs};
use super::words::Layout;
use crate::backend::progress::Places;
use crate::backend::{FaultPlace, InjectedFault, SegmentWords};
use crate::ids::{CameraId, OperatorId, SegmentId, StreamId, TenantId};
use crate::plan::format::{FrameSchedule, Operand, Operator, Plan, Space};
use ends::Ends;
use std::collections::BTreeMap;

/// A frame schedule of one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// What is issued, in order.
    pub commands: Vec<Command>,
    /// The launches.
    pub launches: Vec<Launch>,
    /// Events that the commands name.
    pub events: usize,
}

/// A slot's memory that the host writes and reads, by its device addresses.
#[derive(Clone, Copy)]
pub struct Pinned<'a> {
    /// The cameras' images.
    pub images: &'a [Area],
    /// The tensor inputs.
    pub input: Area,
    /// The results.
    pub output: Area,
}

/// What a program is made of.
pub struct Frame<'a> {
    /// The frame schedule.
    pub schedule: &'a FrameSchedule,
    /// Its place in the plan's cycle.
    pub index: usize,
    /// One kernel per operator of the plan.
    pub kernels: &'a [Box<dyn Kernel>],
    /// Where everything lies, with the slot's addresses; the workspace is replaced by that of each stream.
    pub at: Addresses<'a>,
    /// The workspaces of the streams.
    pub workspaces: &'a [Area],
    /// Device address of the slot's block as the host writes it.
    pub block: u64,
    /// The slot's pinned memory, as the device sees it.
    pub pinned: Pinned<'a>,
    /// True if the kernels read and write pinned memory directly, so that nothing is copied.
    pub mapped: bool,
    /// Device address of the slot's words.
    pub words: u64,
    /// Where each word is.
    pub layout: Layout,
    /// Where the start and the end of segments are marked.
    pub segment_words: SegmentWords,
    /// True if launches may begin before the one in front of them has ended.
    pub early: bool,
    /// Faults to inject.
    pub faults: &'a [InjectedFault],
}

impl Frame<'_> {
    /// The program of the frame.
    pub fn program(&self) -> Result<Program, (OperatorId, BindError)> {
        let mut builder = Builder::new(self);
        builder.begin();
        builder.images();
        builder.tensors();
        for index in 0..self.schedule.segments.len() {
            builder.segment(index)?;
        }
        builder.end();
        Ok(builder.program)
    }

    fn word(&self, place: usize) -> u64 {
        self.words + 8 * place as u64
    }

    fn plan(&self) -> &Plan {
        self.at.plan
    }

    fn stream(&self, segment: usize) -> StreamId {
        self.schedule.segments[segment].stream
    }
}

struct Builder<'a> {
    frame: &'a Frame<'a>,
    lanes: Lanes,
    ends: Ends,
    program: Program,
    /// The frame has begun.
    begun: EventId,
    /// What brings in each camera's image and each tenant's inputs.
    images: BTreeMap<CameraId, EventId>,
    tensors: BTreeMap<TenantId, EventId>,
    /// The end of each segment that has been recorded.
    ended: Vec<Option<EventId>>,
    /// Per lane, the events that it has waited for; empty before it is used.
    waited: Vec<Vec<EventId>>,
    /// Per stream, a segment whose end is not marked yet.
    unmarked: Vec<Option<usize>>,
    /// Lanes that the root waits for at the end.
    open: Vec<Lane>,
    /// Per lane: what comes next has nothing but the launch in front of it to wait for.
    follows: Vec<bool>,
}

impl<'a> Builder<'a> {
    fn new(frame: &'a Frame<'a>) -> Builder<'a> {
        let lanes = Lanes::of(frame.plan());
        Builder {
            frame,
            lanes,
            ends: Ends::of(frame.schedule),
            program: Program::default(),
            begun: EventId(0),
            images: BTreeMap::new(),
            tensors: BTreeMap::new(),
            ended: vec![None; frame.schedule.segments.len()],
            waited: vec![Vec::new(); lanes.count()],
            unmarked: vec![None; frame.plan().streams.len()],
            open: Vec::new(),
            follows: vec![false; lanes.count()],
        }
    }

    fn launch(&mut self, lane: Lane, operator: Option<OperatorId>, launch: Launch) {
        self.program.commands.push(Command::Launch {
            lane,
            launch: self.program.launches.len(),
            operator,
            early: self.frame.early && self.follows[lane.0],
        });
        self.follows[lane.0] = true;
        self.program.launches.push(launch);
    }

    /// A record leaves the order of the lane's launches as it is: who waits for it waits for the whole launch in front.
    fn record(&mut self, lane: Lane) -> EventId {
        let event = EventId(self.program.events);
        self.program.events += 1;
        self.program.commands.push(Command::Record { lane, event });
        event
    }

    fn wait(&mut self, lane: Lane, event: EventId) {
        if !self.waited[lane.0].contains(&event) {
            self.waited[lane.0].push(event);
            self.follows[lane.0] = false;
            self.program.commands.push(Command::Wait { lane, event });
        }
    }

    /// A lane that nothing has made part of the frame yet waits for the frame's beginning.
    fn enter(&mut self, lane: Lane) {
        if self.waited[lane.0].is_empty() {
            self.wait(lane, self.begun);
        }
    }

    fn begin(&mut self) {
        let frame = self.frame;
        let stamp = frame.word(frame.layout.begin());
        self.launch(Lanes::ROOT, None, marks::begin(frame.block, frame.at.slot, stamp));
        self.begun = self.record(Lanes::ROOT);
    }

    /// Images of the cameras that some step reads.
    fn images(&mut self) {
        if self.frame.mapped {
            return;
        }
        let frame = self.frame;
        let steps = frame.schedule.segments.iter().flat_map(|s| &s.steps);
        let mut cameras: Vec<CameraId> = steps.flat_map(|s| reads(frame.plan(), s.operator).0).collect();
        cameras.sort_unstable();
        cameras.dedup();
        for camera in cameras {
            let (Some(source), Some(&target)) = (frame.pinned.images.get(camera.index()), frame.at.images.get(camera.index())) else {
                continue;
            };
            let lane = self.lanes.camera(camera);
            self.enter(lane);
            self.launch(
                lane,
                None,
                marks::upload(frame.at.slot, u32::from(camera.0), source.address, target),
            );
            let event = self.record(lane);
            self.images.insert(camera, event);
        }
    }

    /// Tensor inputs of the tenants that run.
    fn tensors(&mut self) {
        if self.frame.mapped {
            return;
        }
        for &tenant in &self.frame.schedule.tenants {
            let stretches = inputs(self.frame.plan(), tenant);
            // Without segments nobody would wait for them.
            if stretches.is_empty() || !self.ends.tenants.contains_key(&tenant) {
                continue;
            }
            let lane = self.lanes.tenant(tenant);
            self.enter(lane);
            for stretch in stretches {
                self.transfer(
                    lane,
                    stretch,
                    self.frame.pinned.input,
                    self.frame.at.input,
                    Some((self.frame.at.slot, tenant)),
                );
            }
            let event = self.record(lane);
            self.tensors.insert(tenant, event);
        }
    }

    /// Carries bytes across the bus: a tenant's results, or its inputs where the block at the address says so.
    fn transfer(&mut self, lane: Lane, stretch: Stretch, source: Area, target: Area, inputs_of: Option<(u64, TenantId)>) {
        let part = |area: Area| area.part(stretch.offset, stretch.bytes);
        if let (Some(source), Some(target)) = (part(source), part(target)) {
            self.launch(lane, None, marks::transfer(source, target, inputs_of));
        }
    }

    fn segment(&mut self, index: usize) -> Result<(), (OperatorId, BindError)> {
        let frame = self.frame;
        let segment = &frame.schedule.segments[index];
        let lane = self.lanes.stream(segment.stream);
        let before = self.program.commands.len();
        let brought = self.brought(index);
        if frame.segment_words == SegmentWords::Between
            && !brought.is_empty()
            && let Some(ended) = self.unmarked[segment.stream.index()].take()
        {
            self.mark_end(segment.stream, ended, &[]);
        }
        brought.into_iter().for_each(|event| self.wait(lane, event));
        self.enter(lane);
        let waited = self.program.commands.len() > before;
        self.mark_start(index, waited);
        self.inject(index, lane);
        for step in &segment.steps {
            let operator = &frame.plan().operators[step.operator.index()];
            let region = &operator.chunks[usize::from(step.chunk)];
            let at = self.on(segment.stream);
            let launches = frame.kernels[step.operator.index()].launches(&at, region, operator.width);
            for launch in launches.map_err(|e| (step.operator, e))? {
                self.launch(lane, Some(step.operator), launch);
            }
        }
        let marked = frame.segment_words != SegmentWords::None;
        if marked || self.ends.awaited[index] {
            self.ended[index] = Some(self.record(lane));
        }
        if marked {
            self.unmarked[segment.stream.index()] = Some(index);
        }
        if self.ends.finishes(segment.tenant, index) {
            self.finish(segment.tenant);
        }
        Ok(())
    }

    /// Where a stream's launches find everything, and how many multiprocessors: one that is confined has fewer. No cluster has more blocks
    /// than a parcel of them.
    fn on(&self, stream: StreamId) -> Addresses<'a> {
        let at = self.frame.at;
        let workspace = self.frame.workspaces.get(stream.index()).copied().unwrap_or_default();
        let multiprocessors = match self.frame.plan().streams[stream.index()].units {
            0 => at.multiprocessors,
            units => units.into(),
        };
        Addresses {
            workspace,
            multiprocessors,
            ..at
        }
    }

    /// What other lanes bring, by the events that say so: images, tensors, and the segments of other streams that a segment is to wait for.
    fn brought(&self, index: usize) -> Vec<EventId> {
        let mut events = Vec::new();
        for step in &self.frame.schedule.segments[index].steps {
            let (cameras, tensors) = reads(self.frame.plan(), step.operator);
            events.extend(cameras.iter().filter_map(|camera| self.images.get(camera)));
            events.extend(tensors.and_then(|tenant| self.tensors.get(&tenant)));
        }
        events.extend(self.ends.waits[index].iter().filter_map(|&other| self.ended[other]));
        events
    }

    /// Where a stream's segments are marked.
    fn marks(&self, stream: StreamId) -> Lane {
        match self.frame.segment_words {
            SegmentWords::Between => self.lanes.stream(stream),
            _ => self.lanes.marks(stream),
        }
    }

    /// The word of the segment's start. Where the segment follows another of its stream at once, one launch writes the end
    /// of that one and the start of this one.
    fn mark_start(&mut self, index: usize, waited: bool) {
        if self.frame.segment_words == SegmentWords::None {
            return;
        }
        let stream = self.frame.stream(index);
        let start = self.start_mark(index);
        match self.unmarked[stream.index()].take() {
            Some(ended) if !waited => self.mark_end(stream, ended, &[start]),
            ended => {
                if let Some(ended) = ended {
                    self.mark_end(stream, ended, &[]);
                }
                let lane = self.marks(stream);
                if lane != self.lanes.stream(stream) {
                    let event = self.record(self.lanes.stream(stream));
                    self.wait(lane, event);
                }
                self.launch(lane, None, marks::mark(self.frame.at.slot, &[start]));
                self.keep_open(lane);
            }
        }
    }

    fn mark_end(&mut self, stream: StreamId, ended: usize, and: &[Mark]) {
        let Some(event) = self.ended[ended] else { return };
        let lane = self.marks(stream);
        let words: Vec<Mark> = std::iter::once(self.end_mark(ended)).chain(and.iter().copied()).collect();
        if lane != self.lanes.stream(stream) {
            self.wait(lane, event);
        }
        self.launch(lane, None, marks::mark(self.frame.at.slot, &words));
        self.keep_open(lane);
    }

    fn start_mark(&self, index: usize) -> Mark {
        let segment = SegmentId(index as u32);
        let layout = self.frame.layout;
        Mark {
            word: self.frame.word(layout.places.started(segment)),
            time: if layout.trace { self.frame.word(layout.times(segment)) } else { 0 },
        }
    }

    fn end_mark(&self, index: usize) -> Mark {
        let segment = SegmentId(index as u32);
        let layout = self.frame.layout;
        Mark {
            word: self.frame.word(layout.places.ended(segment)),
            time: if layout.trace {
                self.frame.word(layout.times(segment) + 1)
            } else {
                0
            },
        }
    }

    fn inject(&mut self, index: usize, lane: Lane) {
        let frame = self.frame;
        let tenant = frame.schedule.segments[index].tenant;
        let first = frame.schedule.segments.iter().position(|s| s.tenant == tenant) == Some(index);
        let cycle = frame.plan().cycle.len().max(1) as u64;
        for fault in frame.faults {
            let here = match fault.at {
                FaultPlace::Segment(segment) => segment.index() == index,
                FaultPlace::Tenant(at) => at == tenant && first,
            };
            if here && fault.frame % cycle == frame.index as u64 {
                let release = frame.word(frame.layout.release());
                self.launch(lane, None, marks::fault(frame.at.slot, fault.frame, fault.kind, release));
            }
        }
    }

    /// The tenant's results go to the host, then its done word.
    fn finish(&mut self, tenant: TenantId) {
        let frame = self.frame;
        let lane = self.lanes.tenant(tenant);
        let ends: Vec<usize> = self.ends.tenants[&tenant].values().copied().collect();
        for end in ends {
            if let Some(event) = self.ended[end] {
                self.wait(lane, event);
            }
        }
        if !frame.mapped {
            for stretch in outputs(frame.plan(), tenant) {
                if stretch.bytes <= marks::LARGEST_RESULT {
                    self.transfer(lane, stretch, frame.at.output, frame.pinned.output, None);
                } else {
                    self.program.commands.push(Command::Download { lane, bytes: stretch });
                    self.follows[lane.0] = false;
                }
            }
        }
        let place = frame.layout.places.tenant(tenant);
        let word = Mark {
            word: frame.word(place),
            time: frame.word(place + 1),
        };
        self.launch(lane, None, marks::mark(frame.at.slot, &[word]));
        self.keep_open(lane);
    }

    fn keep_open(&mut self, lane: Lane) {
        if !self.open.contains(&lane) {
            self.open.push(lane);
        }
    }

    /// All lanes meet again in the root, and the frame's word is the last thing that is written.
    fn end(&mut self) {
        let frame = self.frame;
        for stream in 0..self.unmarked.len() {
            if let (Some(ended), Some(id)) = (self.unmarked[stream].take(), StreamId::from_index(stream)) {
                self.mark_end(id, ended, &[]);
            }
        }
        for lane in std::mem::take(&mut self.open) {
            let event = self.record(lane);
            self.wait(Lanes::ROOT, event);
        }
        let word = Mark {
            word: frame.word(Places::FRAME),
            time: frame.word(Places::FRAME + 1),
        };
        self.launch(Lanes::ROOT, None, marks::mark(frame.at.slot, &[word]));
    }
}

/// The cameras that an operator reads, and whose tensor inputs, if any.
fn reads(plan: &Plan, operator: OperatorId) -> (Vec<CameraId>, Option<TenantId>) {
    let operator: &Operator = &plan.operators[operator.index()];
    let views = operator.calls.iter().flat_map(|c| &c.inputs).filter_map(|o| match o {
        Operand::View(view) => Some(view),
        Operand::Inner(_) => None,
    });
    let (mut cameras, mut tensors) = (Vec::new(), None);
    for view in views {
        match plan.buffers[view.buffer.index()].space {
            Space::Camera(camera) => cameras.push(camera),
            Space::Input { .. } => tensors = Some(operator.tenant),
            _ => {}
        }
    }
    (cameras, tensors)
}

#[cfg(test)]
mod tests;
