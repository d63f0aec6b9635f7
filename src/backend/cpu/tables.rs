//! A frame schedule as flat tables: everything that can be known before the frame is worked out here, once.
//!
//! Work is assigned statically. A step of launch width `w` uses `min(w, workers, tiles)` workers in a row (around the
//! end), from one that its stream alone decides, so that narrow steps of different streams land on different workers.
//! Worker `j` of `n` takes tiles `[j*t/n, (j+1)*t/n)`.

use super::kernel::Kernel;
use crate::backend::Submission;
use crate::ids::{SegmentId, TenantId};
use crate::limits::MAX_TENANTS;
use crate::plan::format::{FrameSchedule, Plan};
use crate::primitive::Region;
use std::ops::Range;

/// One step: a chunk of an operator, or nothing but a place in its stream.
pub(super) struct StepEntry {
    /// The operator's kernel and the chunk; `None` in a schedule without steps.
    pub(super) work: Option<(usize, Region)>,
    /// Tiles of the chunk.
    tiles: u32,
    /// First worker that has a share.
    first: usize,
    /// Workers that have one, at least 1.
    pub(super) shares: usize,
    /// Shares of the steps before it in its stream: it is ready once so many have arrived.
    pub(super) before: u64,
    /// Its segment; `None` only in a schedule without segments.
    pub(super) segment: Option<SegmentId>,
    /// True for the first step of its segment.
    pub(super) opens: bool,
    /// True for the last step of its segment.
    pub(super) closes: bool,
}

impl StepEntry {
    /// Which share of the step is this worker's, if any.
    pub(super) fn share(&self, worker: usize, workers: usize) -> Option<usize> {
        let share = (worker + workers - self.first) % workers;
        (share < self.shares).then_some(share)
    }

    /// The tiles of a share.
    pub(super) fn tiles(&self, share: usize) -> Range<u32> {
        let cut = |j: usize| (j as u64 * u64::from(self.tiles) / self.shares as u64) as u32;
        cut(share)..cut(share + 1)
    }
}

/// One segment.
pub(super) struct SegmentEntry {
    /// Whose it is.
    pub(super) tenant: TenantId,
    /// True for the tenant's first segment of the frame.
    pub(super) first_of_tenant: bool,
    /// Segments that must have ended before it starts: a range of [`ScheduleTable::waits`].
    pub(super) waits: Range<usize>,
}

/// A worker's part of one stream: the steps in which it has a share, in order.
pub(super) struct Queue {
    /// Position of the stream's counter.
    pub(super) stream: usize,
    /// Indices into [`ScheduleTable::steps`].
    pub(super) steps: Vec<u32>,
}

/// A frame schedule, flat.
pub(super) struct ScheduleTable {
    /// The steps, stream by stream.
    pub(super) steps: Vec<StepEntry>,
    /// The segments in stored order.
    pub(super) segments: Vec<SegmentEntry>,
    /// What segments wait for.
    pub(super) waits: Vec<SegmentId>,
    /// Per worker its queues, most urgent stream first.
    pub(super) queues: Vec<Vec<Queue>>,
    /// Number of streams in use.
    pub(super) streams: usize,
    /// Segments of each tenant.
    pub(super) tenant_segments: [u32; MAX_TENANTS],
    /// Things that end before the frame has: its segments, or 1 in a schedule without any.
    pub(super) parts: u32,
}

impl ScheduleTable {
    /// The tables of `schedule` for `workers` workers. `kernels` holds one kernel per operator of the plan.
    pub(super) fn new(
        plan: &Plan,
        schedule: &FrameSchedule,
        kernels: &[Box<dyn Kernel>],
        workers: usize,
        submission: Submission,
    ) -> ScheduleTable {
        // Segment by segment is the same tables with one queue that holds everything in stored order.
        let queues: Vec<(usize, Vec<usize>)> = match submission {
            Submission::Segments => vec![(0, (0..schedule.segments.len()).collect())],
            Submission::Frame => by_stream(plan, schedule),
        };
        let mut table = ScheduleTable {
            steps: Vec::new(),
            segments: Vec::new(),
            waits: Vec::new(),
            queues: (0..workers).map(|_| Vec::new()).collect(),
            streams: queues.len(),
            tenant_segments: [0; MAX_TENANTS],
            parts: schedule.segments.len().max(1) as u32,
        };
        table.add_segments(schedule);
        for (stream, (_, segments)) in queues.iter().enumerate() {
            let from = table.steps.len();
            let mut before = 0;
            for &index in segments {
                let segment = &schedule.segments[index];
                let first = first_worker(segment.stream.index(), plan.streams.len(), workers);
                let id = SegmentId::from_index(index);
                let count = segment.steps.len();
                for (position, step) in segment.steps.iter().enumerate() {
                    let operator = &plan.operators[step.operator.index()];
                    let region = operator.chunks[usize::from(step.chunk)].clone();
                    let tiles = kernels[step.operator.index()].tiles(&region);
                    let entry = StepEntry {
                        shares: shares(operator.width, workers, tiles),
                        work: Some((step.operator.index(), region)),
                        tiles,
                        ..StepEntry::idle(first, id, position == 0, position + 1 == count)
                    };
                    table.push(entry, &mut before);
                }
            }
            table.deal(stream, from, workers);
        }
        if schedule.segments.is_empty() {
            // Nothing is due: one worker passes through, so that frames still follow one another.
            table.streams = 1;
            table.steps.clear();
            table.queues.iter_mut().for_each(Vec::clear);
            table.push(StepEntry::idle(0, None, false, false), &mut 0);
            table.deal(0, 0, workers);
        }
        table
    }

    fn add_segments(&mut self, schedule: &FrameSchedule) {
        for (index, segment) in schedule.segments.iter().enumerate() {
            let from = self.waits.len();
            for sync in &schedule.syncs {
                if sync.before.iter().any(|s| s.index() == index) {
                    self.waits.extend_from_slice(&sync.after);
                }
            }
            self.waits[from..].sort_unstable();
            let count = &mut self.tenant_segments[segment.tenant.index()];
            self.segments.push(SegmentEntry {
                tenant: segment.tenant,
                first_of_tenant: *count == 0,
                waits: from..self.waits.len(),
            });
            *count += 1;
        }
    }

    fn push(&mut self, mut entry: StepEntry, before: &mut u64) {
        entry.before = *before;
        *before += entry.shares as u64;
        self.steps.push(entry);
    }

    /// Gives each worker its queue of the steps from `from` on, which are one stream.
    fn deal(&mut self, stream: usize, from: usize, workers: usize) {
        for worker in 0..workers {
            let steps: Vec<u32> = (from..self.steps.len())
                .filter(|&s| self.steps[s].share(worker, workers).is_some())
                .map(|s| s as u32)
                .collect();
            if !steps.is_empty() {
                self.queues[worker].push(Queue { stream, steps });
            }
        }
    }
}

impl StepEntry {
    fn idle(first: usize, segment: Option<SegmentId>, opens: bool, closes: bool) -> StepEntry {
        StepEntry {
            work: None,
            tiles: 0,
            first,
            shares: 1,
            before: 0,
            segment,
            opens,
            closes,
        }
    }
}

/// The streams in use with their segments, most urgent first, then by number.
fn by_stream(plan: &Plan, schedule: &FrameSchedule) -> Vec<(usize, Vec<usize>)> {
    let mut streams: Vec<(usize, Vec<usize>)> = (0..plan.streams.len()).map(|s| (s, Vec::new())).collect();
    for (index, segment) in schedule.segments.iter().enumerate() {
        streams[segment.stream.index()].1.push(index);
    }
    streams.retain(|(_, segments)| !segments.is_empty());
    streams.sort_by_key(|&(s, _)| (std::cmp::Reverse(plan.streams[s].priority), s));
    streams
}

/// Streams spread over the team: evenly where there are enough workers, round and round where not.
fn first_worker(stream: usize, streams: usize, workers: usize) -> usize {
    if streams <= workers {
        stream * workers / streams.max(1)
    } else {
        stream % workers
    }
}

/// How many workers a step of launch width `width` uses.
fn shares(width: u16, workers: usize, tiles: u32) -> usize {
    let width = if width == 0 { workers } else { usize::from(width) };
    width.min(workers).min(tiles.max(1) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_tiles_once_for_every_width_and_team() {
        for workers in 1..=9 {
            for width in 0..=10u16 {
                for tiles in [0, 1, 2, 7, 8, 100] {
                    for stream in 0..12 {
                        let entry = StepEntry {
                            tiles,
                            shares: shares(width, workers, tiles),
                            ..StepEntry::idle(first_worker(stream, 12, workers), None, true, true)
                        };
                        let mut hit = vec![0; tiles as usize];
                        let mut used = 0;
                        for worker in 0..workers {
                            if let Some(share) = entry.share(worker, workers) {
                                used += 1;
                                entry.tiles(share).for_each(|t| hit[t as usize] += 1);
                            }
                        }
                        assert_eq!(used, entry.shares);
                        assert!(width == 0 || used <= usize::from(width));
                        assert!(hit.iter().all(|&h| h == 1));
                    }
                }
            }
        }
    }

    #[test]
    fn narrow_steps_of_different_streams_use_different_workers() {
        let firsts: Vec<usize> = (0..4).map(|s| first_worker(s, 4, 8)).collect();
        assert_eq!(firsts, [0, 2, 4, 6]);
        let wrapped: Vec<usize> = (0..8).map(|s| first_worker(s, 8, 3)).collect();
        assert_eq!(wrapped, [0, 1, 2, 0, 1, 2, 0, 1]);
    }
}
