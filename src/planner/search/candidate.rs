//! A candidate: everything a searcher decides, in a form that is quick to change and to simulate.
//!
//! Places in a tenant's work are counted in operators and chunks: operator `p` of the tenant, chunk `c` of it.

use super::auxiliary::Auxiliary;
use super::menu::Menu;
use crate::board::Division;
use crate::ids::{OperatorId, SegmentId, StreamId, TenantId};
use crate::plan::format::{Segment, Step, Stream, SyncPoint};
use crate::planner::schedule::{Decisions, Issue, Problem};
use crate::planner::simulate::Frame;

/// A place in a tenant's work: before chunk `chunk` of its operator number `operator`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Among the tenant's operators; their number is the end.
    pub operator: u32,
    /// Among its chunks; where it has fewer, behind the last.
    pub chunk: u32,
}

impl Place {
    /// Before all of an operator.
    pub fn before(operator: u32) -> Place {
        Place { operator, chunk: 0 }
    }
}

/// A wait between two tenants: what stands before a place of one is complete before what follows a place of the other begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Who is waited for, as a member of the set: its place in [`Set::members`].
    pub after: (u8, Place),
    /// Who waits.
    pub before: (u8, Place),
}

/// Tenants that run in the same frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// In issue order: sources first, then by priority.
    pub members: Vec<TenantId>,
    /// The frames of the cycle.
    pub frames: Vec<usize>,
    /// Waits that data needs.
    data: Vec<Edge>,
}

/// What is to be decided on: the problem, sorted for quick access.
#[derive(Clone, Debug)]
pub struct Field {
    /// The operators of each tenant.
    pub operators: Vec<Vec<OperatorId>>,
    /// The sets of tenants that meet in some frame.
    pub sets: Vec<Set>,
    /// Frames of the cycle.
    pub cycle: usize,
    /// How the board's units can be divided between streams.
    pub division: Division,
}

impl Field {
    /// The field of a problem, whose rates must repeat within the limits.
    pub fn of(problem: &Problem<'_>) -> Field {
        let tenants = 0..problem.tenants.len() as u16;
        let operators: Vec<Vec<OperatorId>> = tenants.map(|t| problem.operators_of(TenantId(t)).collect()).collect();
        let cycle = problem.cycle_length().unwrap_or(1);
        let mut sets: Vec<Set> = Vec::new();
        for frame in 0..cycle {
            let mut members = problem.issue_order(frame);
            members.retain(|t| !operators[t.index()].is_empty());
            match sets.iter_mut().find(|s| s.members == members) {
                Some(set) => set.frames.push(frame),
                None => sets.push(Set {
                    data: data(problem, &operators, &members),
                    members,
                    frames: vec![frame],
                }),
            }
        }
        Field {
            operators,
            sets,
            cycle,
            division: problem.division,
        }
    }

    /// Operators of a member of a set.
    pub fn length(&self, set: usize, member: usize) -> u32 {
        self.operators[self.sets[set].members[member].index()].len() as u32
    }
}

/// For every operator that reads what another tenant wrote, an edge from the last that it reads of each.
fn data(problem: &Problem<'_>, operators: &[Vec<OperatorId>], members: &[TenantId]) -> Vec<Edge> {
    let member = |t: TenantId| members.iter().position(|&m| m == t);
    let place = |o: OperatorId| {
        let tenant = problem.operators[o.index()].tenant;
        let at = operators[tenant.index()].iter().position(|&own| own == o)?;
        Some((member(tenant)? as u8, at as u32))
    };
    let mut edges = Vec::new();
    for (own, &tenant) in members.iter().enumerate() {
        for (at, operator) in operators[tenant.index()].iter().enumerate() {
            for (source, last) in problem.needs[operator.index()].iter().filter_map(|&n| place(n)) {
                if usize::from(source) != own {
                    edges.push(Edge {
                        after: (source, Place::before(last + 1)),
                        before: (own as u8, Place::before(at as u32)),
                    });
                }
            }
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// How the tenants of one set meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meeting {
    /// For each member its pointers, ascending: as many for all. Between two pointers lies a segment; segments of one number
    /// form a cluster, and clusters run one after another.
    pub pointers: Vec<Vec<Place>>,
    /// Waits between two tenants.
    pub edges: Vec<Edge>,
}

/// Everything that is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// For each operator its way to be cut.
    pub cuts: Vec<u8>,
    /// For each operator its tactic and launch width.
    pub ways: Vec<u16>,
    /// For each tenant its stream.
    pub streams: Vec<u8>,
    /// The streams.
    pub lanes: Vec<Stream>,
    /// For each set.
    pub meetings: Vec<Meeting>,
    /// The auxiliary streams that are given to what is decided here; searches neither see nor change them.
    pub auxiliary: Option<Auxiliary>,
}

/// What a candidate is told to, segment by segment in issue order.
trait Listener {
    fn segment(&mut self, tenant: TenantId, stream: StreamId);
    fn step(&mut self, step: Step, cost: u32);
    fn sync(&mut self, after: &[u32], before: &[u32]);
}

impl Listener for Frame {
    fn segment(&mut self, tenant: TenantId, stream: StreamId) {
        Frame::segment(self, tenant, stream);
    }

    fn step(&mut self, step: Step, cost: u32) {
        self.launch(cost, step);
    }

    fn sync(&mut self, after: &[u32], before: &[u32]) {
        let pairs = before.iter().flat_map(|&b| after.iter().map(move |&a| (a, b)));
        pairs.for_each(|(a, b)| self.wait(a, b));
    }
}

impl Listener for Issue {
    fn segment(&mut self, tenant: TenantId, stream: StreamId) {
        self.segments.push(Segment {
            tenant,
            stream,
            steps: Vec::new(),
        });
    }

    fn step(&mut self, step: Step, _: u32) {
        if let Some(open) = self.segments.last_mut() {
            open.steps.push(step);
        }
    }

    fn sync(&mut self, after: &[u32], before: &[u32]) {
        let ids = |list: &[u32]| list.iter().map(|&s| SegmentId(s)).collect();
        self.barriers.push(SyncPoint {
            after: ids(after),
            before: ids(before),
        });
    }
}

/// Memory that telling a candidate uses over and over: one entry a member.
#[derive(Clone, Debug, Default)]
pub struct Teller {
    /// Where it is.
    at: Vec<Place>,
    /// Its segments so far: where each ends, and its number.
    told: Vec<Vec<(Place, u32)>>,
    /// Its first segment in the cluster, or [`NONE`].
    first: Vec<u32>,
    /// Segments that something waits for, and that wait.
    after: Vec<u32>,
    before: Vec<u32>,
    /// The last segments of the newest cluster that has any.
    latest: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Teller {
    fn begin(&mut self, members: usize) {
        self.at.clear();
        self.at.resize(members, Place::default());
        self.told.resize(members.max(self.told.len()), Vec::new());
        self.told.iter_mut().for_each(Vec::clear);
        self.latest.clear();
    }

    /// The segment of a member that ends at a place or, if none does, behind it; `None` if there is none yet.
    fn ending(&self, member: usize, place: Place) -> Option<u32> {
        let told = &self.told[member];
        let at = told.partition_point(|(end, _)| *end < place);
        told.get(at).map(|(_, segment)| *segment)
    }
}

impl Candidate {
    /// Every operator whole and at full width, no sync points; each tenant on a stream of its own, or all on one.
    pub fn plain(problem: &Problem<'_>, field: &Field, together: bool) -> Candidate {
        let operators = problem.operators.len();
        let lane = |priority| Stream { priority, units: 0 };
        let own = problem.tenants.iter().map(|t| lane(t.urgency.priority));
        let meeting = |set: &Set| Meeting {
            pointers: vec![Vec::new(); set.members.len()],
            edges: Vec::new(),
        };
        Candidate {
            cuts: vec![0; operators],
            ways: vec![0; operators],
            streams: (0..problem.tenants.len()).map(|t| if together { 0 } else { t as u8 }).collect(),
            lanes: if together { vec![lane(0)] } else { own.collect() },
            meetings: field.sets.iter().map(meeting).collect(),
            auxiliary: None,
        }
    }

    /// The streams that have tenants, ascending.
    fn used(&self) -> Vec<u8> {
        let mut used = self.streams.clone();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Whether some stream has units of its own.
    pub fn is_confined(&self) -> bool {
        self.lanes.iter().any(|l| l.units > 0)
    }

    /// Whether two put the tenants onto the same streams, which have units of their own in both or in none.
    pub fn is_like(&self, other: &Candidate) -> bool {
        self.streams == other.streams && self.is_confined() == other.is_confined()
    }

    /// Whether the board can divide its units as the streams that have tenants are confined: all of them or none. Blocks of a stream on all
    /// units go where they find room first, and that is often where another stream has nothing else: such plans were measured
    /// at nearly twice what was predicted.
    fn divides(&self, field: &Field) -> bool {
        if !self.is_confined() {
            return true;
        }
        let used = self.used().into_iter().map(|s| self.lanes[usize::from(s)].units);
        let confined = used.clone().filter(|&units| units > 0).count();
        confined == 0 || confined == used.len() && field.division.allows(used)
    }

    /// Builds the frame of a set. False if its waits go in a circle, or if the board cannot be divided so.
    pub fn frame(&self, field: &Field, set: usize, menu: &Menu, teller: &mut Teller, frame: &mut Frame) -> bool {
        if !self.divides(field) {
            return false;
        }
        // Streams without tenants hold no units.
        let lane = |(stream, lane): (usize, &Stream)| match self.streams.contains(&(stream as u8)) {
            true => *lane,
            false => Stream { units: 0, ..*lane },
        };
        frame.begin(self.lanes.iter().enumerate().map(lane));
        self.tell(field, set, menu, teller, frame)
    }

    /// The candidate as decisions for the gate, but for its auxiliary streams; `None` if its waits go in a circle, or if the board cannot be divided so.
    pub fn decisions(&self, field: &Field, menu: &Menu) -> Option<Decisions> {
        let choice = |(o, (&cut, &way)): (usize, (&u8, &u16))| menu.decision(o, cut, way);
        if !self.divides(field) {
            return None;
        }
        let used = self.used();
        let mut frames = vec![Issue::default(); field.cycle];
        for (index, set) in field.sets.iter().enumerate() {
            let mut issue = Issue::default();
            if !self.tell(field, index, menu, &mut Teller::default(), &mut issue) {
                return None;
            }
            for segment in &mut issue.segments {
                // Streams are numbered without gaps.
                let stream = used.iter().position(|&s| u16::from(s) == segment.stream.0).unwrap_or(0);
                segment.stream = StreamId(stream as u16);
            }
            let streams: Vec<StreamId> = issue.segments.iter().map(|s| s.stream).collect();
            let own = |ids: &[SegmentId]| ids.iter().map(|s| streams[s.index()]).collect::<Vec<_>>();
            issue
                .barriers
                .retain(|b| own(&b.after).iter().any(|a| own(&b.before).iter().any(|b| a != b)));
            set.frames.iter().for_each(|&f| frames[f] = issue.clone());
        }
        Some(Decisions {
            cuts: self.cuts.iter().zip(&self.ways).enumerate().map(choice).collect(),
            streams: used.iter().map(|&s| self.lanes[usize::from(s)]).collect(),
            frames,
        })
    }

    /// Tells the segments, their steps and their waits; false if the waits go in a circle.
    fn tell<L: Listener>(&self, field: &Field, set: usize, menu: &Menu, teller: &mut Teller, to: &mut L) -> bool {
        let (own, meeting) = (&field.sets[set], &self.meetings[set]);
        let members = own.members.len();
        let operators = |member: usize| &field.operators[own.members[member].index()];
        let stream = |member: usize| self.streams[own.members[member].index()];
        let edges = || own.data.iter().chain(&meeting.edges);
        teller.begin(members);
        let clusters = 1 + meeting.pointers.first().map_or(0, Vec::len);
        let mut segments = 0u32;
        for cluster in 0..clusters {
            teller.first.clear();
            teller.first.resize(members, NONE);
            let end_of = |member: usize| {
                let all = Place::before(operators(member).len() as u32);
                meeting.pointers[member]
                    .get(cluster)
                    .map_or(all, |&p| self.normal(operators(member), menu, p))
            };
            // Members take turns; one that must wait for a segment that is not told yet stands back.
            loop {
                let (told, mut open) = (segments, false);
                for member in 0..members {
                    let (at, end) = (teller.at[member], end_of(member));
                    if at >= end {
                        continue;
                    }
                    open = true;
                    teller.after.clear();
                    let (mut next, mut held) = (end, false);
                    for edge in edges() {
                        let place = |(m, p): (u8, Place)| self.normal(operators(usize::from(m)), menu, p);
                        let (source, after, before) = (usize::from(edge.after.0), place(edge.after), place(edge.before));
                        if usize::from(edge.before.0) == member && before == at && after > Place::default() {
                            match teller.ending(source, after) {
                                Some(segment) => teller.after.push(segment),
                                None => held = true,
                            }
                        }
                        let mut border = |m: usize, p: Place| {
                            if m == member && p > at {
                                next = next.min(p);
                            }
                        };
                        border(source, after);
                        border(usize::from(edge.before.0), before);
                    }
                    if held {
                        continue;
                    }
                    to.segment(own.members[member], StreamId(u16::from(stream(member))));
                    self.steps(operators(member), at, next, menu, to);
                    if !teller.after.is_empty() {
                        teller.after.sort_unstable();
                        teller.after.dedup();
                        to.sync(&teller.after, &[segments]);
                    }
                    if teller.first[member] == NONE {
                        teller.first[member] = segments;
                    }
                    teller.told[member].push((next, segments));
                    teller.at[member] = next;
                    segments += 1;
                }
                if !open {
                    break;
                }
                if segments == told {
                    return false;
                }
            }
            if teller.first.iter().all(|&f| f == NONE) {
                continue;
            }
            teller.before.clear();
            teller.before.extend(teller.first.iter().copied().filter(|&f| f != NONE));
            if !teller.latest.is_empty() {
                to.sync(&teller.latest, &teller.before);
            }
            teller.latest.clear();
            for member in (0..members).filter(|&m| teller.first[m] != NONE) {
                teller.latest.extend(teller.told[member].last().map(|(_, segment)| *segment));
            }
            teller.latest.sort_unstable();
        }
        true
    }

    /// A place in its one form: no chunk behind an operator's last, nothing behind the end.
    fn normal(&self, operators: &[OperatorId], menu: &Menu, place: Place) -> Place {
        match operators.get(place.operator as usize) {
            None => Place::before(operators.len() as u32),
            Some(o) if place.chunk >= menu.chunks(o.index(), self.cuts[o.index()]) => Place::before(place.operator + 1),
            Some(_) => place,
        }
    }

    /// Tells the steps from one place of a tenant's work to another.
    fn steps<L: Listener>(&self, operators: &[OperatorId], from: Place, to: Place, menu: &Menu, listener: &mut L) {
        let mut at = from;
        while at < to {
            let operator = operators[at.operator as usize];
            let (cut, way) = (self.cuts[operator.index()], self.ways[operator.index()]);
            let (first, chunks) = (menu.cost(operator.index(), cut, way), menu.chunks(operator.index(), cut));
            let end = if to.operator == at.operator { to.chunk } else { chunks };
            for chunk in at.chunk..end {
                let step = Step {
                    operator,
                    chunk: chunk as u16,
                };
                listener.step(step, first + chunk);
            }
            at = if end == chunks { Place::before(at.operator + 1) } else { to };
        }
    }
}
