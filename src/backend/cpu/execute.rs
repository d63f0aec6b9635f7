//! What a worker does: walk its queues of the frame at hand, most urgent stream first, and run what is ready.
//!
//! A stream's counter holds the shares of its steps that have arrived. Shares of a step arrive only after all earlier
//! steps of the stream are complete, so "step ready" is one comparison with a number known at prepare, and the arrival
//! that reaches the next step's number is the one that completes the step. A worker never waits inside a step and takes
//! any ready step of any stream, so any number of streams finishes on any number of workers, in any legal plan: the first
//! incomplete step in issue order is always ready.

use super::arena::{Block, ImageParams, Memory, ReadSpan, Span};
use super::frames::{Shared, SlotState};
use super::tables::{ScheduleTable, StepEntry};
use super::team::{Patience, SPIN_ROUNDS};
use crate::backend::trace::TraceEvent;
use crate::backend::{FaultKind, FaultPlace, Job};
use crate::error::Fault;
use crate::ids::{PlanId, SectionId, SegmentId};
use crate::limits::{MAX_CAMERAS, MAX_STREAMS};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// Why a worker leaves.
struct Stop;

/// A worker: its number and what it owns.
struct Worker<'a> {
    shared: &'a Shared,
    index: usize,
    weights: &'a [Vec<ReadSpan<'a>>],
    scratch: &'a mut [u8],
    patience: Patience,
}

/// Runs frames until the team is told to stop. `scratch` is this worker's.
pub(super) fn serve(shared: &Shared, index: usize, mut scratch: Block) {
    let weights: Vec<Vec<ReadSpan<'_>>> = shared
        .deployment
        .plans
        .iter()
        .enumerate()
        .map(|(p, plan)| {
            (0..plan.sections.len())
                .map(|s| ReadSpan::new(shared.deployment.section(PlanId(p as u16), SectionId(s as u32))))
                .collect()
        })
        .collect();
    shared.ready.fetch_add(1, Ordering::AcqRel);
    shared.host_bell.ring();
    let spin = if shared.crowded { 0 } else { SPIN_ROUNDS };
    let mut worker = Worker {
        shared,
        index,
        weights: &weights,
        scratch: scratch.bytes_mut(),
        patience: Patience::new(spin),
    };
    let mut next = 0;
    while let Ok(job) = worker.await_job(&mut next) {
        if worker.run(&job).is_err() {
            break;
        }
        next += 1;
    }
}

impl<'a> Worker<'a> {
    /// The next frame this worker has not seen, once all frames before it are complete.
    ///
    /// A worker without a share in a frame may fall behind; it skips to the first incomplete frame. The ring's entry is
    /// believed only if that frame is still incomplete after it was read: the host writes an entry again only after it
    /// saw the frame complete.
    fn await_job(&mut self, next: &mut u64) -> Result<Job, Stop> {
        loop {
            let seen = self.shared.bell.count();
            if self.shared.halt.is_set() {
                return Err(Stop);
            }
            let complete = self.shared.complete.load(Ordering::Acquire);
            *next = (*next).max(complete);
            if complete == *next && self.shared.submitted.load(Ordering::Acquire) > complete {
                let job = self.shared.ring.read(complete);
                if self.shared.complete.load(Ordering::Acquire) == complete {
                    self.patience.renew();
                    return Ok(job);
                }
                continue;
            }
            self.patience.wait(&self.shared.bell, seen);
        }
    }

    fn run(&mut self, job: &Job) -> Result<(), Stop> {
        let table = &self.shared.plans[job.plan.index()].schedules[job.schedule];
        let queues = &table.queues[self.index];
        let mut left: usize = queues.iter().map(|q| q.steps.len()).sum();
        if left == 0 {
            return Ok(());
        }
        let slot = &self.shared.slots[job.slot.index()];
        let images: [Span<'_>; MAX_CAMERAS] = std::array::from_fn(|c| slot.images.get(c).unwrap_or(&slot.input).span());
        let params: [ImageParams; MAX_CAMERAS] = std::array::from_fn(|c| slot.params.get(c).map(|p| p.read()).unwrap_or_default());
        let cameras = slot.images.len();
        let memory = Memory {
            arena: self.shared.arena.span(),
            persistent: self.shared.plans[job.plan.index()].persistent.span(),
            input: slot.input.span(),
            output: slot.output.span(),
            images: &images[..cameras],
            params: &params[..cameras],
            weights: &self.weights[job.plan.index()],
        };
        let mut cursors = [0usize; MAX_STREAMS];
        while left > 0 {
            let seen = self.shared.bell.count();
            if self.shared.halt.is_set() {
                return Err(Stop);
            }
            let found = queues.iter().zip(&mut cursors).find_map(|(queue, cursor)| {
                let step = *queue.steps.get(*cursor)? as usize;
                let entry = &table.steps[step];
                is_ready(table, entry, slot, queue.stream, job.frame).then_some((queue.stream, entry, cursor))
            });
            let Some((stream, entry, cursor)) = found else {
                self.patience.wait(&self.shared.bell, seen);
                continue;
            };
            slot.progress.set_inside(self.index, entry.segment);
            self.step(job, table, slot, &memory, stream, entry)?;
            slot.progress.set_inside(self.index, None);
            *cursor += 1;
            left -= 1;
            self.patience.renew();
        }
        Ok(())
    }

    fn step(
        &mut self,
        job: &Job,
        table: &ScheduleTable,
        slot: &SlotState,
        memory: &Memory<'_>,
        stream: usize,
        entry: &StepEntry,
    ) -> Result<(), Stop> {
        let Some(share) = entry.share(self.index, self.shared.workers) else {
            return Ok(());
        };
        if let (true, 0, Some(segment)) = (entry.opens, share, entry.segment) {
            self.open(job, table, slot, segment)?;
        }
        let skipped = entry
            .segment
            .is_some_and(|s| job.skip >> table.segments[s.index()].tenant.0 & 1 != 0);
        if let (false, Some((operator, region))) = (skipped, &entry.work) {
            let kernel = &self.shared.plans[job.plan.index()].kernels[*operator];
            let tiles = entry.tiles(share);
            let scratch = &mut *self.scratch;
            let run = catch_unwind(AssertUnwindSafe(|| kernel.run(memory, region, tiles, scratch)));
            if run.is_err() {
                let segment = entry.segment.unwrap_or(SegmentId(0));
                return Err(self.fail(Fault::Panic {
                    tenant: table.segments[segment.index()].tenant,
                    segment,
                    frame: job.frame,
                }));
            }
        }
        let arrived = slot.streams[stream].fetch_add(1, Ordering::AcqRel) + 1;
        if arrived == entry.before + entry.shares as u64 {
            if entry.closes || entry.segment.is_none() {
                self.close(job, table, slot, entry.segment);
            }
            self.shared.bell.ring();
        }
        Ok(())
    }

    /// A segment begins: its progress word, its trace, and what is injected at its border.
    fn open(&self, job: &Job, table: &ScheduleTable, slot: &SlotState, segment: SegmentId) -> Result<(), Stop> {
        slot.progress.start_segment(segment, job.frame);
        if self.shared.trace.is_on() {
            slot.began[segment.index()].store(self.shared.clock.now(), Ordering::Relaxed);
        }
        let entry = &table.segments[segment.index()];
        for fault in self.shared.faults.iter().filter(|f| f.frame == job.frame) {
            let here = match fault.at {
                FaultPlace::Segment(s) => s == segment,
                FaultPlace::Tenant(t) => t == entry.tenant && entry.first_of_tenant,
            };
            if !here {
                continue;
            }
            match fault.kind {
                FaultKind::Delay(time) => std::thread::sleep(time),
                FaultKind::Hang => loop {
                    std::thread::park();
                },
                FaultKind::Fail(code) => {
                    return Err(self.fail(Fault::Device {
                        tenant: entry.tenant,
                        segment,
                        frame: job.frame,
                        code,
                        suspects: 1,
                    }));
                }
            }
        }
        Ok(())
    }

    /// The last share of a segment has arrived: its words, its tenant's, and the frame's, if they were the last.
    fn close(&self, job: &Job, table: &ScheduleTable, slot: &SlotState, segment: Option<SegmentId>) {
        let now = self.shared.clock.now();
        let mut heard = false;
        if let Some(segment) = segment {
            self.shared.trace.record(TraceEvent {
                frame: job.frame,
                plan: job.plan,
                segment,
                start: slot.began.get(segment.index()).map_or(0, |b| b.load(Ordering::Relaxed)),
                end: now,
                worker: self.index as u32,
            });
            slot.progress.end_segment(segment, job.frame);
            let tenant = table.segments[segment.index()].tenant;
            if slot.tenants_left[tenant.index()].fetch_sub(1, Ordering::AcqRel) == 1 {
                slot.progress.finish_tenant(tenant, job.frame, now);
                heard = true;
            }
        }
        if slot.parts_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The order matters: a host that sees the frame's word may write the slot and the ring's entry again.
            self.shared.complete.fetch_add(1, Ordering::AcqRel);
            slot.progress.finish_frame(job.frame, now);
            heard = true;
        }
        if heard {
            self.shared.host_bell.ring();
        }
    }

    fn fail(&self, fault: Fault) -> Stop {
        // The first fault stays.
        let _ = self.shared.fault.set(fault);
        self.shared.halt.set();
        self.shared.bell.ring();
        self.shared.host_bell.ring();
        Stop
    }
}

/// True if everything before the step in its stream is complete and, at a segment's start, everything it waits for.
fn is_ready(table: &ScheduleTable, entry: &StepEntry, slot: &SlotState, stream: usize, frame: u64) -> bool {
    if slot.streams[stream].load(Ordering::Acquire) < entry.before {
        return false;
    }
    match entry.segment {
        Some(segment) if entry.opens => {
            let waits = table.segments[segment.index()].waits.clone();
            table.waits[waits].iter().all(|&s| slot.progress.segment_ended(s, frame))
        }
        _ => true,
    }
}
