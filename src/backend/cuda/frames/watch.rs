//! Frames under way are watched: which have ended, whether the driver knows of a fault, what is to blame for it; and the rest that
//! comes before memory is given back.

use super::CudaPrepared;
use crate::backend::Job;
use crate::backend::cuda::raw::{DriverError, is_poisoned, poison};
use crate::backend::trace::TraceEvent;
use crate::error::Fault;
use crate::ids::{SegmentId, TenantId};
use std::time::{Duration, Instant};

/// How often the driver is asked, at most, whether something has gone wrong; and how long a frame is under way before that,
/// as the question takes the driver's locks and the host's time just when it should notice the end.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// How long a wait for rest sleeps at a time.
const NAP: Duration = Duration::from_micros(50);

impl CudaPrepared {
    /// Forgets frames that have ended, in order, and notes their segments in the trace. A slot's words are of its latest
    /// frame, so this comes before the slot is submitted again.
    pub(super) fn retire(&self) {
        let mut flight = self.flight.borrow_mut();
        while let Some(job) = flight.front() {
            let slot = &self.parts.slots[job.slot.index()];
            let Some(end) = slot.progress.frame_finish(job.frame) else {
                return;
            };
            self.pace.note(job.plan, job.schedule, slot.words.submitted(), end);
            if self.trace.is_on() && self.segment_words {
                let segments = &self.deployment.plans[job.plan.index()].cycle[job.schedule].segments;
                for (index, segment) in segments.iter().enumerate() {
                    let id = SegmentId(index as u32);
                    let (start, end) = slot.words.times(id);
                    self.trace.record(TraceEvent {
                        frame: job.frame,
                        plan: job.plan,
                        segment: id,
                        start,
                        end,
                        worker: u32::from(segment.stream.0),
                    });
                }
            }
            flight.pop_front();
        }
    }

    /// True if the oldest frame in flight should end about now.
    pub(super) fn is_due(&self) -> bool {
        let due = |job: &Job| {
            let submitted = self.parts.slots[job.slot.index()].words.submitted();
            self.pace.is_due(job.plan, job.schedule, submitted, self.parts.clock.host().now())
        };
        self.flight.borrow().front().is_some_and(due)
    }

    /// Asks the driver, at most every few milliseconds, whether the work in flight has gone wrong. Frames that end before
    /// are never asked about.
    pub(super) fn ask(&self) {
        if self.fault.get().is_some() || is_poisoned() || !self.is_doubtful() {
            return;
        }
        self.retire();
        if !self.is_doubtful() {
            return;
        }
        self.asked.set(self.parts.clock.host().now());
        if let Err(error) = self.context.enter().and_then(|()| self.parts.streams.root().is_idle()) {
            self.fail(error, None);
        }
    }

    /// True if the oldest frame that is not known to have ended was submitted, and asked about, long ago.
    pub(super) fn is_doubtful(&self) -> bool {
        let oldest = self
            .flight
            .borrow()
            .front()
            .map(|job| self.parts.slots[job.slot.index()].words.submitted());
        let long_ago = |since: u64| self.parts.clock.host().now().saturating_sub(since) >= ASK_EVERY.as_nanos() as u64;
        oldest.is_some_and(|submitted| long_ago(submitted.max(self.asked.get())))
    }

    /// Keeps the first fault: of the oldest frame in flight, or of `job`, which did not get that far. Nothing is called
    /// any more.
    pub(super) fn fail(&self, error: DriverError, job: Option<&Job>) -> Fault {
        poison();
        if let Some(fault) = self.fault.get() {
            return fault;
        }
        let oldest = self.flight.borrow().front().copied().or(job.copied());
        let (segment, tenant, frame, suspects) = match oldest {
            Some(job) => {
                let segment = self.suspect(&job);
                let segments = &self.deployment.plans[job.plan.index()].cycle[job.schedule].segments;
                let tenant = segments.get(segment.index()).map_or(TenantId(0), |s| s.tenant);
                (segment, tenant, job.frame, self.suspects(&job))
            }
            None => (SegmentId(0), TenantId(0), 0, 1),
        };
        let fault = Fault::Device {
            tenant,
            segment,
            frame,
            code: error.code,
            suspects,
        };
        self.fault.set(Some(fault));
        fault
    }

    /// The segment to blame for what a frame did not finish.
    pub(super) fn suspect(&self, job: &Job) -> SegmentId {
        let progress = &self.parts.slots[job.slot.index()].progress;
        let segments = &self.deployment.plans[job.plan.index()].cycle[job.schedule].segments;
        if self.segment_words {
            return progress.stuck_segment(segments.len(), job.frame).unwrap_or(SegmentId(0));
        }
        let open = |tenant| progress.tenant_finish(tenant, job.frame).is_none();
        let first = segments.iter().position(|s| open(s.tenant));
        first.and_then(SegmentId::from_index).unwrap_or(SegmentId(0))
    }

    /// How many segments may be to blame.
    pub(super) fn suspects(&self, job: &Job) -> u16 {
        let progress = &self.parts.slots[job.slot.index()].progress;
        let segments = &self.deployment.plans[job.plan.index()].cycle[job.schedule].segments;
        let count = if self.segment_words {
            progress.running_segments(segments.len(), job.frame)
        } else {
            segments
                .iter()
                .filter(|s| progress.tenant_finish(s.tenant, job.frame).is_none())
                .count()
        };
        u16::try_from(count.max(1)).unwrap_or(u16::MAX)
    }

    /// Waits until the device has come to rest; false if it does not, or must not be asked.
    pub(super) fn rest(&self, limit: Duration) -> bool {
        let limit = Instant::now().checked_add(limit);
        loop {
            self.ask();
            self.retire();
            if self.fault.get().is_some() || is_poisoned() {
                return false;
            }
            if self.flight.borrow().is_empty() {
                match self.parts.streams.are_idle() {
                    Ok(true) => return true,
                    Ok(false) => {}
                    Err(_) => return false,
                }
            }
            if limit.is_none_or(|l| Instant::now() >= l) {
                return false;
            }
            std::thread::sleep(NAP);
        }
    }

    /// Comes to rest, or gives everything up.
    pub(super) fn shut(&self, limit: Duration) -> bool {
        let rested = self.context.enter().is_ok() && self.rest(limit);
        if !rested {
            self.give_up();
        }
        rested
    }

    pub(super) fn give_up(&self) {
        poison();
        // Injected hangs end, so that the process can.
        self.parts.slots.iter().for_each(|s| s.words.release());
    }
}
