//! Auxiliary streams: independent operators of one tenant side by side.
//!
//! A network's own graph has work that waits for nothing of each other: branches of one resolution each, heads of a detector, the arms of
//! a block. At batch 1 their launches leave most of a GPU idle, so a tenant may have streams beside its own. Its operators are
//! placed one by one, those with the longest way to the network's end first, each on the stream where it begins earliest (HEFT,
//! Topcuoglu et al. 2002, with streams for processors; which operators of one network gain from running together, Ding et al. 2021
//! searched for block by block). A wait between streams costs more than the launch behind it on the same one, so it is weighed against what it
//! saves; the simulator judges what comes of each weight and number of streams.

use crate::board::BackendKind;
use crate::ids::{OperatorId, SegmentId, StreamId, TenantId};
use crate::plan::format::{Segment, Step, Stream, SyncPoint};
use crate::planner::schedule::{Decisions, Issue, Problem};
use crate::planner::simulate::Costs;
use std::collections::BTreeMap;

/// Streams of a tenant, its own among them.
const LANES: [u8; 4] = [2, 3, 4, 6];
/// What a wait for another stream is taken to cost beside the launches' own times, in nanoseconds.
const WAITS: [u16; 3] = [500, 1_500, 4_000];
/// Streams that a plan may have.
const MOST_STREAMS: usize = 16;

/// How operators are put on auxiliary streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auxiliary {
    /// Streams in place of one, at most.
    lanes: u8,
    /// What a wait between them weighs, in nanoseconds.
    wait: u16,
}

/// Decisions like those given but for operators of single tenants that run beside each other: one for each number of streams and weight
/// of waits that makes a difference.
pub fn auxiliary(problem: &Problem<'_>, costs: &Costs<'_>, base: &Decisions) -> Vec<(Auxiliary, Decisions)> {
    let mut found: Vec<(Auxiliary, Decisions)> = Vec::new();
    let Some(work) = work(problem, costs, base) else { return found };
    for way in LANES.iter().flat_map(|&lanes| WAITS.map(|wait| Auxiliary { lanes, wait })) {
        if let Some(spread) = on_lanes(base, &work, way)
            && found.iter().all(|(_, other)| *other != spread)
        {
            found.push((way, spread));
        }
    }
    found
}

/// The decisions with auxiliary streams; `None` where nothing would run on them, and where streams have units of their own.
///
/// On a GPU alone: workers of a processor share an operator out as it is.
pub fn spread(problem: &Problem<'_>, costs: &Costs<'_>, base: &Decisions, way: Auxiliary) -> Option<Decisions> {
    on_lanes(base, &work(problem, costs, base)?, way)
}

/// Whether some tenant's operators run on several streams of a frame.
pub fn has_auxiliary(decisions: &Decisions) -> bool {
    decisions.frames.iter().any(|issue| {
        let mut streams: BTreeMap<TenantId, StreamId> = BTreeMap::new();
        let mut segments = issue.segments.iter();
        segments.any(|s| *streams.entry(s.tenant).or_insert(s.stream) != s.stream)
    })
}

/// What each segment of each frame does; `None` where there are no auxiliary streams.
fn work(problem: &Problem<'_>, costs: &Costs<'_>, base: &Decisions) -> Option<Vec<Vec<Work>>> {
    let of = |issue: &Issue| issue.segments.iter().map(|s| Work::of(problem, costs, base, s)).collect();
    let takes = costs.machine().backend == BackendKind::Cuda && !base.is_confined();
    takes.then(|| base.frames.iter().map(of).collect())
}

/// The decisions with some streams for each stream that there is; `None` if no more than that one is used.
fn on_lanes(base: &Decisions, work: &[Vec<Work>], way: Auxiliary) -> Option<Decisions> {
    let lanes = usize::from(way.lanes).min(MOST_STREAMS / base.streams.len().max(1)).max(1);
    let wait = u64::from(way.wait);
    let mut streams = base.streams.clone();
    // The auxiliary streams of each one, as they are first used.
    let mut beside: BTreeMap<(StreamId, usize), StreamId> = BTreeMap::new();
    let mut stream_of = |own: StreamId, lane: usize| match lane {
        0 => own,
        _ => *beside.entry((own, lane)).or_insert_with(|| {
            streams.push(Stream {
                units: 0,
                ..base.streams[own.index()]
            });
            StreamId(streams.len() as u16 - 1)
        }),
    };
    let frames = base.frames.iter().zip(work).map(|(issue, work)| {
        let mut parts: Vec<Vec<SegmentId>> = Vec::with_capacity(issue.segments.len());
        let mut segments: Vec<Segment> = Vec::new();
        for (segment, work) in issue.segments.iter().zip(work) {
            let first = segments.len() as u32;
            segments.extend(work.segments(lanes, wait).into_iter().map(|(lane, steps)| Segment {
                tenant: segment.tenant,
                stream: stream_of(segment.stream, lane),
                steps,
            }));
            parts.push((first..segments.len() as u32).map(SegmentId).collect());
        }
        let all = |ids: &[SegmentId]| ids.iter().flat_map(|s| parts[s.index()].iter().copied()).collect::<Vec<_>>();
        let barriers = issue.barriers.iter().map(|b| SyncPoint {
            after: all(&b.after),
            before: all(&b.before),
        });
        Issue {
            barriers: barriers.collect(),
            segments,
        }
    });
    let frames = frames.collect();
    (streams.len() > base.streams.len()).then(|| Decisions {
        cuts: base.cuts.clone(),
        streams,
        frames,
    })
}

/// An operator's steps in a segment.
struct Task {
    steps: Vec<Step>,
    /// Nanoseconds alone on the board.
    time: u64,
    /// Tasks of the segment that it reads, all before it.
    needs: Vec<usize>,
    /// Nanoseconds from its beginning to the end of the longest way behind it.
    rank: u64,
}

/// What a segment does.
struct Work {
    tasks: Vec<Task>,
}

impl Work {
    fn of(problem: &Problem<'_>, costs: &Costs<'_>, base: &Decisions, segment: &Segment) -> Work {
        let mut tasks: Vec<Task> = Vec::new();
        let mut place: BTreeMap<OperatorId, usize> = BTreeMap::new();
        for &step in &segment.steps {
            let operator = step.operator.index();
            let cut = &base.cuts[operator];
            let chunk = &cut.chunks[usize::from(step.chunk)..=usize::from(step.chunk)];
            let time: u64 = costs.chunks(operator, chunk, cut.tactic, cut.width).iter().map(|c| c.alone()).sum();
            let task = *place.entry(step.operator).or_insert_with(|| {
                tasks.push(Task {
                    steps: Vec::new(),
                    time: 0,
                    needs: Vec::new(),
                    rank: 0,
                });
                tasks.len() - 1
            });
            tasks[task].steps.push(step);
            tasks[task].time += time;
        }
        for (&operator, &task) in &place {
            let needs = problem.needs[operator.index()].iter().filter_map(|n| place.get(n).copied());
            tasks[task].needs = needs.filter(|&n| n != task).collect();
        }
        for task in (0..tasks.len()).rev() {
            tasks[task].rank += tasks[task].time;
            let rank = tasks[task].rank;
            for need in tasks[task].needs.clone() {
                tasks[need].rank = tasks[need].rank.max(rank);
            }
        }
        Work { tasks }
    }

    /// The tasks, each before all that read it: those with the longest way to the end first.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        // What reads a task has a shorter way, or, of operators that take no time, comes later.
        order.sort_by_key(|&t| (std::cmp::Reverse(self.tasks[t].rank), t));
        order
    }

    /// The lane of each task.
    fn lanes(&self, order: &[usize], lanes: usize, wait: u64) -> Vec<usize> {
        let mut lane_of = vec![0; self.tasks.len()];
        let mut ends = vec![0u64; self.tasks.len()];
        let mut free = vec![0u64; lanes];
        for &task in order {
            let begin = |lane: usize| {
                let ready = self.tasks[task]
                    .needs
                    .iter()
                    .map(|&n| ends[n] + if lane_of[n] == lane { 0 } else { wait });
                ready.max().unwrap_or(0).max(free[lane])
            };
            let last = self.tasks[task].needs.iter().max_by_key(|&&n| ends[n]).map(|&n| lane_of[n]);
            let best = (0..lanes).min_by_key(|&lane| (begin(lane), Some(lane) != last, lane)).unwrap_or(0);
            ends[task] = begin(best) + self.tasks[task].time;
            (lane_of[task], free[best]) = (best, ends[task]);
        }
        lane_of
    }

    /// The segments in issue order, with their lanes: a lane is cut behind what another one waits for, and before what waits for another.
    fn segments(&self, lanes: usize, wait: u64) -> Vec<(usize, Vec<Step>)> {
        let order = self.order();
        let lane_of = self.lanes(&order, lanes, wait);
        // Which tasks wait for another lane, and which are waited for.
        let (mut waits, mut awaited) = (vec![false; self.tasks.len()], vec![false; self.tasks.len()]);
        for (task, own) in self.tasks.iter().enumerate() {
            for &need in own.needs.iter().filter(|&&n| lane_of[n] != lane_of[task]) {
                (waits[task], awaited[need]) = (true, true);
            }
        }
        let mut segments: Vec<(usize, Vec<Step>)> = Vec::new();
        let mut open: Vec<Option<usize>> = vec![None; lanes];
        for &task in &order {
            let lane = lane_of[task];
            if waits[task] {
                open[lane] = None;
            }
            let at = *open[lane].get_or_insert_with(|| {
                segments.push((lane, Vec::new()));
                segments.len() - 1
            });
            segments[at].1.extend(&self.tasks[task].steps);
            if awaited[task] {
                open[lane] = None;
            }
        }
        segments
    }
}
