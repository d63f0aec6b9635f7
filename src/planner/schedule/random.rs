//! Seeded random decisions over every dimension the plan has: the property tests' generator, and where searches start.

use super::{Cut, Decisions, Issue, Problem, simple};
use crate::board::Division;
use crate::ids::{OperatorId, SegmentId, StreamId};
use crate::limits::MAX_STREAMS;
use crate::plan::format::{Operator, Segment, Step, Stream, SyncPoint};
use crate::plan::tactic::pictures;
use crate::planner::lots::Lots;
use crate::primitive::{Region, Splits};
use crate::tensor::Shape;
use std::ops::Range;

/// Along which axes all primitives of an operator can be cut.
pub fn splits(operator: &Operator) -> Splits {
    // The copy of a picture is computed where it is read.
    let body = pictures::cut(operator);
    let operator = body.as_ref().unwrap_or(operator);
    let mut all = Splits { batch: true, rows: true };
    let output = operator.outputs.first().map_or(Shape::SCALAR, |v| v.layout.shape);
    for call in &operator.calls {
        let own = call.primitive.splits(call.shape);
        // Inner values are cut alongside the output, so their batches or rows must be its own.
        let single = operator.calls.len() == 1;
        all.batch &= own.batch && (single || call.shape.batch() == output.batch());
        all.rows &= own.rows && (single || call.shape.batch() == output.batch() && call.shape.rows() == output.rows());
    }
    all
}

fn pieces(extent: u32, cut: bool, random: &mut Lots) -> Vec<Range<u32>> {
    let count = if cut { 1 + random.below(4) as u32 } else { 1 }.min(extent.max(1));
    let mut bounds: Vec<u32> = (1..count).map(|_| 1 + random.below(extent as usize - 1) as u32).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let (mut start, mut ranges) = (0, Vec::new());
    for end in bounds.into_iter().chain([extent]) {
        ranges.push(start..end);
        start = end;
    }
    ranges
}

fn cut(operator: &Operator, random: &mut Lots) -> Cut {
    let shape = operator.outputs.first().map_or(Shape::SCALAR, |v| v.layout.shape);
    let splits = splits(operator);
    let batches = pieces(shape.batch(), splits.batch && random.below(2) == 0, random);
    let mut chunks = Vec::new();
    for batch in batches {
        let rows = pieces(shape.rows(), splits.rows && random.below(2) == 0, random);
        chunks.extend(rows.into_iter().map(|rows| Region {
            batch: batch.clone(),
            rows,
        }));
    }
    Cut {
        chunks,
        tactic: operator.tactic,
        width: random.below(5) as u16,
    }
}

/// Some of the parcels that are left, now and then: as units.
fn confined(division: Division, left: &mut u32, random: &mut Lots) -> u16 {
    if *left == 0 || random.below(3) > 0 {
        return 0;
    }
    let parcels = 1 + random.below(*left as usize) as u32;
    *left -= parcels;
    u16::try_from(parcels * division.parcel).unwrap_or(0)
}

/// Random legal decisions. The same problem and seed give the same decisions.
pub fn random(problem: &Problem<'_>, seed: u64) -> Decisions {
    let mut random = Lots::new(seed);
    let cuts: Vec<Cut> = problem.operators.iter().map(|o| cut(o, &mut random)).collect();
    let count = 1 + random.below(MAX_STREAMS.min(8));
    let mut left = problem.division.parcels() / 2;
    let streams = (0..count)
        .map(|_| Stream {
            priority: random.below(4) as u8,
            units: confined(problem.division, &mut left, &mut random),
        })
        .collect();
    let base = simple::sequential(problem);
    let frames = base
        .frames
        .iter()
        .map(|issue| shuffle(problem, issue, &cuts, count, &mut random))
        .collect();
    Decisions { cuts, streams, frames }
}

/// Cuts the tenants' step lists at random places and deals the pieces to streams, interleaved.
fn shuffle(problem: &Problem<'_>, issue: &Issue, cuts: &[Cut], streams: usize, random: &mut Lots) -> Issue {
    let steps = |s: &Segment| -> Vec<Step> {
        let chunks = |o: OperatorId| (0..cuts[o.index()].chunks.len() as u16).map(move |chunk| Step { operator: o, chunk });
        s.steps.iter().flat_map(|s| chunks(s.operator)).collect()
    };
    let mut left: Vec<(usize, Vec<Step>)> = issue.segments.iter().map(|s| (0, steps(s))).collect();
    let mut issued = vec![0usize; problem.operators.len()];
    let mut shuffled = Issue::default();
    loop {
        let open: Vec<usize> = (0..left.len()).filter(|&i| left[i].0 < left[i].1.len()).collect();
        if open.is_empty() {
            return shuffled;
        }
        // A tenant whose next step has its operands issued; the first in issue order always has.
        let ready = |i: &usize| {
            let step = left[*i].1[left[*i].0];
            problem.needs[step.operator.index()]
                .iter()
                .all(|o| issued[o.index()] == cuts[o.index()].chunks.len())
        };
        let able: Vec<usize> = open.iter().copied().filter(ready).collect();
        let pick = able[random.below(able.len())];
        let (tenant, stream) = (issue.segments[pick].tenant, StreamId(random.below(streams) as u16));
        let most = 1 + random.below(12);
        let mut segment = Segment {
            tenant,
            stream,
            steps: Vec::new(),
        };
        while segment.steps.len() < most {
            let (at, list) = &mut left[pick];
            let Some(&step) = list.get(*at) else { break };
            let complete = |o: &OperatorId| issued[o.index()] == cuts[o.index()].chunks.len();
            if !problem.needs[step.operator.index()].iter().all(complete) {
                break;
            }
            issued[step.operator.index()] += 1;
            segment.steps.push(step);
            *at += 1;
        }
        shuffled.segments.push(segment);
        if random.below(8) == 0 {
            barrier(&mut shuffled, random);
        }
    }
}

/// Lets the segment just issued wait for a few earlier ones.
fn barrier(issue: &mut Issue, random: &mut Lots) {
    let last = issue.segments.len() - 1;
    let mut after: Vec<SegmentId> = (0..3.min(last)).map(|_| SegmentId(random.below(last) as u32)).collect();
    after.sort_unstable();
    after.dedup();
    if !after.is_empty() {
        issue.barriers.push(SyncPoint {
            after,
            before: vec![SegmentId(last as u32)],
        });
    }
}
