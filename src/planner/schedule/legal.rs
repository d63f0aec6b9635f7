//! The gate: decisions to a legal schedule.

use super::{Decisions, Issue, Problem, Schedule};
use crate::board::Division;
use crate::ids::{OperatorId, SegmentId};
use crate::plan::clocks::Clocks;
use crate::plan::format::{FrameSchedule, Operand, Operator, Step, SyncPoint, View};
use crate::primitive::Region;
use std::collections::BTreeMap;

/// Why decisions cannot become a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The rates repeat only after too many frames.
    #[error("the rates repeat only after more frames than a cycle may have: choose divisors with a smaller common multiple")]
    Cycle,
    /// Counts do not match the problem.
    #[error("decisions for another problem: {0}")]
    Mismatch(&'static str),
    /// A step of a tenant that is not due, of another tenant's segment, unknown, or issued twice.
    #[error("frame {frame}: chunk {} of operator `{operator}` has no place there", step.chunk)]
    Step {
        /// The frame of the cycle.
        frame: usize,
        /// The operator's name.
        operator: String,
        /// The step.
        step: Step,
    },
    /// A step that is due was left out.
    #[error("frame {frame}: operator `{operator}` is due and not issued in full")]
    Missing {
        /// The frame of the cycle.
        frame: usize,
        /// The operator's name.
        operator: String,
    },
    /// A step is issued before something it reads.
    #[error("frame {frame}: operator `{operator}` is issued before `{source_operator}`, whose output it reads")]
    Early {
        /// The frame of the cycle.
        frame: usize,
        /// The reader.
        operator: String,
        /// The writer.
        source_operator: String,
    },
    /// Streams are confined to units as the board cannot divide them.
    #[error("the streams are confined to units in a way that the board, of {} units in parcels of {}, cannot divide", .0.units, .0.parcel)]
    Division(Division),
    /// A wanted sync point waits for a later segment or names none.
    #[error("frame {0}: a sync point waits for a segment that is not issued before the waiting one")]
    Barrier(usize),
}

/// Makes decisions legal; the one way to a schedule.
pub fn apply(problem: &Problem<'_>, decisions: &Decisions) -> Result<Schedule, ScheduleError> {
    let mismatch = |ok: bool, what| if ok { Ok(()) } else { Err(ScheduleError::Mismatch(what)) };
    let length = problem.cycle_length().ok_or(ScheduleError::Cycle)?;
    mismatch(decisions.cuts.len() == problem.operators.len(), "one cut per operator is needed")?;
    mismatch(
        problem.needs.len() == problem.operators.len(),
        "one list of needs per operator is needed",
    )?;
    mismatch(decisions.frames.len() == length, "one issue order per frame of the cycle is needed")?;
    if !problem.division.allows(decisions.streams.iter().map(|s| s.units)) {
        return Err(ScheduleError::Division(problem.division));
    }
    let mut operators = problem.operators.to_vec();
    for (operator, cut) in operators.iter_mut().zip(&decisions.cuts) {
        operator.chunks.clone_from(&cut.chunks);
        (operator.tactic, operator.width) = (cut.tactic, cut.width);
    }
    let mut cycle = Vec::with_capacity(length);
    for (frame, issue) in decisions.frames.iter().enumerate() {
        let streams = decisions.streams.len();
        mismatch(
            issue.segments.iter().all(|s| s.stream.index() < streams),
            "a segment runs on a stream that does not exist",
        )?;
        cycle.push(frame_schedule(problem, &operators, streams, frame, issue)?);
    }
    Ok(Schedule {
        operators,
        streams: decisions.streams.clone(),
        cycle,
    })
}

fn frame_schedule(
    problem: &Problem<'_>,
    operators: &[Operator],
    streams: usize,
    frame: usize,
    issue: &Issue,
) -> Result<FrameSchedule, ScheduleError> {
    let tenants = problem.due(frame);
    let places = places(operators, &tenants, frame, issue)?;
    let segments = issue.segments.len();
    let forward = |s: &SyncPoint| match (s.after.iter().max(), s.before.iter().min(), s.before.iter().max()) {
        (Some(last), Some(first), Some(end)) => last < first && end.index() < segments,
        _ => false,
    };
    if !issue.barriers.iter().all(forward) {
        return Err(ScheduleError::Barrier(frame));
    }
    // For each segment, the latest segment of every other stream that it must wait for because of data.
    let mut waits: Vec<BTreeMap<u16, usize>> = vec![BTreeMap::new(); segments];
    for (index, segment) in issue.segments.iter().enumerate() {
        for (position, step) in segment.steps.iter().enumerate() {
            for &need in &problem.needs[step.operator.index()] {
                for chunk in needed_chunks(operators, *step, need) {
                    let early = || ScheduleError::Early {
                        frame,
                        operator: operators[step.operator.index()].name.clone(),
                        source_operator: operators[need.index()].name.clone(),
                    };
                    let &(at, written) = places.get(&Step { operator: need, chunk }).ok_or_else(early)?;
                    if (at, written) >= (index, position) {
                        return Err(early());
                    }
                    let stream = issue.segments[at].stream;
                    if stream != segment.stream {
                        let latest = waits[index].entry(stream.0).or_insert(at);
                        *latest = at.max(*latest);
                    }
                }
            }
        }
    }
    let mut schedule = FrameSchedule {
        tenants,
        segments: issue.segments.clone(),
        syncs: issue.barriers.clone(),
    };
    add_waits(&mut schedule, &waits, streams).map_err(|()| ScheduleError::Barrier(frame))?;
    Ok(schedule)
}

/// Adds one sync point per segment that waits, leaving out what the stream has waited for before.
fn add_waits(schedule: &mut FrameSchedule, waits: &[BTreeMap<u16, usize>], streams: usize) -> Result<(), ()> {
    let wanted = Clocks::of(streams, schedule).map_err(|_| ())?;
    let mut ends = vec![0u32; schedule.segments.len()];
    let mut position = vec![0u32; streams];
    for (index, segment) in schedule.segments.iter().enumerate() {
        position[segment.stream.index()] += segment.steps.len() as u32;
        ends[index] = position[segment.stream.index()];
    }
    // What each stream knows to be complete of every other stream, from the waits added so far.
    let mut known = vec![vec![0u32; streams]; streams];
    for (index, wait) in waits.iter().enumerate() {
        let stream = schedule.segments[index].stream.index();
        let missing = |&(&other, &at): &(&u16, &usize)| {
            let needed = ends[at];
            needed > wanted.complete(index, usize::from(other)) && needed > known[stream][usize::from(other)]
        };
        let after: Vec<SegmentId> = wait.iter().filter(missing).map(|(_, &at)| SegmentId(at as u32)).collect();
        for segment in &after {
            let other = schedule.segments[segment.index()].stream.index();
            known[stream][other] = known[stream][other].max(ends[segment.index()]);
        }
        if !after.is_empty() {
            let mut after = after;
            after.sort_unstable();
            schedule.syncs.push(SyncPoint {
                after,
                before: vec![SegmentId(index as u32)],
            });
        }
    }
    Ok(())
}

/// Where every issued step stands: (segment, position in it). Checks that exactly what is due is issued.
fn places(
    operators: &[Operator],
    due: &[crate::ids::TenantId],
    frame: usize,
    issue: &Issue,
) -> Result<BTreeMap<Step, (usize, usize)>, ScheduleError> {
    let mut places = BTreeMap::new();
    let mut counts = vec![0usize; operators.len()];
    for (index, segment) in issue.segments.iter().enumerate() {
        for (position, &step) in segment.steps.iter().enumerate() {
            let operator = operators.get(step.operator.index());
            let own = operator.is_some_and(|o| o.tenant == segment.tenant && usize::from(step.chunk) < o.chunks.len());
            if !own || due.binary_search(&segment.tenant).is_err() || places.insert(step, (index, position)).is_some() {
                let operator = operator.map_or_else(|| step.operator.to_string(), |o| o.name.clone());
                return Err(ScheduleError::Step { frame, operator, step });
            }
            counts[step.operator.index()] += 1;
        }
    }
    for (operator, count) in operators.iter().zip(counts) {
        if due.binary_search(&operator.tenant).is_ok() && count != operator.chunks.len() {
            return Err(ScheduleError::Missing {
                frame,
                operator: operator.name.clone(),
            });
        }
    }
    Ok(places)
}

/// The chunks of `need` that `step` reads from: those whose share meets the rows and batches it looks at where the tensor is
/// read just as it was written, all of them otherwise.
fn needed_chunks(operators: &[Operator], step: Step, need: OperatorId) -> Vec<u16> {
    let writer = &operators[need.index()];
    let all = 0..writer.chunks.len() as u16;
    let reader = &operators[step.operator.index()];
    if writer.chunks.len() <= 1 {
        return all.collect();
    }
    let region = &reader.chunks[usize::from(step.chunk)];
    // What is read, with the writer's output it is read from.
    let mut needed: Vec<(usize, Region)> = Vec::new();
    for (view, part) in reads(reader, region) {
        for (index, output) in writer.outputs.iter().enumerate().filter(|(_, o)| o.buffer == view.buffer) {
            if view.origin != output.origin || view.layout != output.layout || view.dtype != output.dtype {
                return all.collect();
            }
            needed.push((index, part.clone()));
        }
    }
    let Some(last) = writer.calls.last().filter(|_| !needed.is_empty()) else {
        return all.collect();
    };
    let shape = |index: usize| writer.outputs[index].layout.shape;
    let overlap = |a: &std::ops::Range<u32>, b: &std::ops::Range<u32>| a.start < b.end && b.start < a.end;
    let meets = |chunk: &Region| {
        needed.iter().any(|(index, part)| {
            let written = last.primitive.writes(*index, shape(*index), shape(0), chunk);
            overlap(&written.batch, &part.batch) && overlap(&written.rows, &part.rows)
        })
    };
    all.filter(|&c| meets(&writer.chunks[usize::from(c)])).collect()
}

/// The views an operator reads for `region` of its output, each with the share that is read.
fn reads<'a>(operator: &'a Operator, region: &Region) -> Vec<(&'a View, Region)> {
    let nothing = Region { batch: 0..0, rows: 0..0 };
    let mut wanted = vec![nothing; operator.calls.len()];
    if let Some(last) = wanted.last_mut() {
        *last = region.clone();
    }
    let mut reads = Vec::new();
    for (index, call) in operator.calls.iter().enumerate().rev() {
        let share = wanted[index].clone();
        for (i, input) in call.inputs.iter().enumerate() {
            match input {
                Operand::View(view) => reads.push((view, call.primitive.needs(i, view.layout.shape, call.shape, &share))),
                Operand::Inner(j) => {
                    let inner = usize::from(*j);
                    let part = call.primitive.needs(i, operator.calls[inner].shape, call.shape, &share);
                    wanted[inner] = wanted[inner].hull(&part);
                }
            }
        }
    }
    reads
}
