//! A frame schedule in flat tables, which the simulator walks without a look at the plan. Built again and again in the same
//! memory: a search builds one for each candidate.

use super::costs::{Cost, Costs};
use crate::ids::{SegmentId, StreamId, TenantId};
use crate::plan::format::{FrameSchedule, Operator, Step, Stream};

/// No index.
pub(super) const NONE: u32 = u32::MAX;

/// A launch of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Index into the costs that belong to the frame.
    pub cost: u32,
    /// The chunk of the operator.
    pub step: Step,
}

/// Consecutive launches on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The tenant.
    pub tenant: TenantId,
    /// The stream.
    pub stream: StreamId,
    /// First launch, and the one behind the last; at least one.
    pub launches: (u32, u32),
    /// Segments of other streams that it waits for.
    pub(super) waits: u32,
    /// Next segment of the stream.
    pub(super) next: u32,
    /// First entry of the list of those that wait for it.
    pub(super) followers: u32,
}

/// A frame.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The streams: their ranks, and the units that they are confined to.
    pub(super) lanes: Vec<Stream>,
    pub(super) launches: Vec<Launch>,
    pub(super) segments: Vec<Part>,
    /// Linked lists of followers: the next entry, the segment that waits.
    pub(super) links: Vec<(u32, u32)>,
    /// First and last segment of each stream.
    pub(super) streams: Vec<(u32, u32)>,
}

impl Frame {
    /// Empties the tables for a frame on these streams.
    pub fn begin(&mut self, streams: impl Iterator<Item = Stream>) {
        self.launches.clear();
        self.segments.clear();
        self.links.clear();
        self.lanes.clear();
        self.lanes.extend(streams);
        self.streams.clear();
        self.streams.resize(self.lanes.len(), (NONE, NONE));
    }

    /// Opens a segment, the next in issue order; launches that follow are its.
    pub fn segment(&mut self, tenant: TenantId, stream: StreamId) {
        let (index, at) = (self.segments.len() as u32, self.launches.len() as u32);
        self.segments.push(Part {
            tenant,
            stream,
            launches: (at, at),
            waits: 0,
            next: NONE,
            followers: NONE,
        });
        let ends = &mut self.streams[stream.index()];
        match ends.1 {
            NONE => ends.0 = index,
            last => self.segments[last as usize].next = index,
        }
        ends.1 = index;
    }

    /// Adds a launch to the open segment.
    pub fn launch(&mut self, cost: u32, step: Step) {
        self.launches.push(Launch { cost, step });
        if let Some(open) = self.segments.last_mut() {
            open.launches.1 += 1;
        }
    }

    /// Lets segment `before` wait for segment `after`; of one stream they do so anyway.
    pub fn wait(&mut self, after: u32, before: u32) {
        if self.segments[after as usize].stream == self.segments[before as usize].stream {
            return;
        }
        self.links.push((self.segments[after as usize].followers, before));
        self.segments[after as usize].followers = self.links.len() as u32 - 1;
        self.segments[before as usize].waits += 1;
    }

    /// The segments in issue order.
    pub fn segments(&self) -> &[Part] {
        &self.segments
    }

    /// The launches in issue order.
    pub fn launches(&self) -> &[Launch] {
        &self.launches
    }

    /// The frame of a legal schedule, with the costs of its launches.
    pub fn of(schedule: &FrameSchedule, streams: &[Stream], operators: &[Operator], costs: &Costs<'_>) -> (Frame, Vec<Cost>) {
        let mut frame = Frame::default();
        frame.begin(streams.iter().copied());
        let mut own: Vec<Vec<Cost>> = vec![Vec::new(); operators.len()];
        let mut table = Vec::new();
        for segment in &schedule.segments {
            frame.segment(segment.tenant, segment.stream);
            for &step in &segment.steps {
                let index = step.operator.index();
                if own[index].is_empty() {
                    let it = &operators[index];
                    let apart = match u32::from(streams[segment.stream.index()].units) {
                        units @ 1.. if it.width == 0 => costs.apart(index, &it.chunks, it.tactic, units),
                        _ => None,
                    };
                    own[index] = apart.unwrap_or_else(|| costs.chunks(index, &it.chunks, it.tactic, it.width));
                }
                table.push(own[index][usize::from(step.chunk)]);
                frame.launch(table.len() as u32 - 1, step);
            }
        }
        for sync in &schedule.syncs {
            let pairs = sync.before.iter().flat_map(|&b| sync.after.iter().map(move |&a| (a, b)));
            pairs.for_each(|(SegmentId(a), SegmentId(b))| frame.wait(a, b));
        }
        (frame, table)
    }
}
