//! Waiting for a tenant or a frame, and the watchdog that ends a wait which nothing else would end.

use super::engine::Engine;
use super::report::FrameReport;
use super::slot::{Stage, Ticket};
use crate::error::{Fault, RunError};
use crate::ids::{SegmentId, SlotId, TenantId};
use crate::task::Status;
use std::time::{Duration, Instant};

/// Rounds of spinning before the host sleeps.
const SPIN_ROUNDS: u32 = 200;
/// Longest sleep between two looks at the words, so that a backend that rings no bell is heard too.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// How long results may be on their way behind a frame's last segment, once the watchdog's time is over.
const ON_THE_WAY: Duration = Duration::from_millis(200);

impl Engine {
    /// Waits for the frame to end and returns its report; at most `limit`, if given.
    ///
    /// [`RunError::Timeout`] when the limit runs out; the frame goes on and may be waited for again.
    pub fn wait(&mut self, ticket: &Ticket, limit: Option<Duration>) -> Result<FrameReport, RunError> {
        let slot = self.slots.of(ticket)?;
        self.until(limit, |engine| engine.slots.get(slot).stage == Stage::Done)?;
        Ok(self.slots.get(slot).report.clone())
    }

    /// The frame's report, or `None` while it has not ended.
    pub fn poll(&mut self, ticket: &Ticket) -> Result<Option<FrameReport>, RunError> {
        match self.wait(ticket, Some(Duration::ZERO)) {
            Ok(report) => Ok(Some(report)),
            Err(RunError::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for one tenant's result, which may be there before the frame ends, and returns its status.
    ///
    /// A tenant that is not due has its result when the frames before have ended.
    pub fn wait_tenant(&mut self, ticket: &Ticket, tenant: TenantId, limit: Option<Duration>) -> Result<Status, RunError> {
        let slot = self.slots.of(ticket)?;
        if tenant.index() >= self.plan_of(self.slots.get(slot).plan).tenants.len() {
            return Err(RunError::Unknown);
        }
        self.until(limit, |engine| engine.has_result(slot, tenant))?;
        Ok(self.result(ticket, tenant)?.status)
    }

    /// True while the next frame would have to wait for frames in flight, because it changes the task set.
    pub fn waits_to_switch(&mut self) -> Result<bool, RunError> {
        if self.selected == self.active {
            return Ok(false);
        }
        match self.until(Some(Duration::ZERO), |engine| engine.slots.oldest().is_none()) {
            Ok(()) => Ok(false),
            Err(RunError::Timeout) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Waits until no frame is in flight.
    pub(super) fn drain(&mut self) -> Result<(), RunError> {
        self.until(None, |engine| engine.slots.oldest().is_none())
    }

    /// True once the result the frame will have of this tenant can be read.
    fn has_result(&self, slot: SlotId, tenant: TenantId) -> bool {
        let s = self.slots.get(slot);
        if s.stage == Stage::Done {
            return true;
        }
        if self.computes(slot, tenant) {
            let progress = self.prepared().and_then(|p| p.progress(slot));
            return progress.is_ok_and(|p| p.tenant_finish(tenant, s.frame).is_some());
        }
        s.entered
    }

    fn until(&mut self, limit: Option<Duration>, done: impl Fn(&Engine) -> bool) -> Result<(), RunError> {
        let limit = limit.and_then(|l| Instant::now().checked_add(l));
        let mut spins = 0;
        loop {
            let seen = self.prepared()?.change();
            self.advance()?;
            if done(self) {
                return Ok(());
            }
            self.lifecycle.usable()?;
            if let Some(fault) = self.prepared()?.fault() {
                return Err(self.fail(fault));
            }
            let now = Instant::now();
            if let Some(fault) = self.hang(now) {
                return Err(self.fail(fault));
            }
            if limit.is_some_and(|l| now >= l) {
                // Who only polls hears of a fault too: a device is asked for one while the host sleeps.
                self.prepared()?.sleep(seen, Duration::ZERO);
                return match self.prepared()?.fault() {
                    Some(fault) => Err(self.fail(fault)),
                    None => Err(RunError::Timeout),
                };
            }
            if spins < SPIN_ROUNDS {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            let left = |at: Option<Instant>| at.map_or(LONGEST_SLEEP, |at| at.saturating_duration_since(now));
            let sleep = LONGEST_SLEEP.min(left(limit)).min(left(self.bites_at()));
            self.prepared()?.sleep(seen, sleep);
        }
    }

    /// When the oldest frame's work began, on the backend's clock: it was submitted and the one before had ended.
    pub(super) fn start_of(&self, slot: SlotId) -> u64 {
        self.slots.get(slot).submitted.max(self.previous_end)
    }

    /// When the watchdog bites.
    fn bites_at(&self) -> Option<Instant> {
        let began = self.prepared().ok()?.clock().at(self.start_of(self.slots.oldest()?));
        began.checked_add(self.watchdog?)
    }

    /// The hang to report, if the oldest frame has run longer than the watchdog allows.
    fn hang(&self, now: Instant) -> Option<Fault> {
        let bites = self.bites_at()?;
        if now < bites {
            return None;
        }
        let slot = self.slots.oldest()?;
        let s = self.slots.get(slot);
        let segments = &self.plan_of(s.plan).cycle[s.schedule].segments;
        let progress = self.prepared().ok()?.progress(slot).ok()?;
        let stuck = progress.stuck_segment(segments.len(), s.frame);
        // Where all segments have ended, results and the frame's word may still be on their way.
        let tenants = segments.iter().map(|s| s.tenant);
        let behind = || progress.last_segment(tenants, s.frame).unwrap_or(SegmentId(0));
        let late = segments.is_empty() || now.saturating_duration_since(bites) >= ON_THE_WAY;
        let segment = stuck.or_else(|| late.then(behind))?;
        Some(Fault::Hang {
            tenant: segments.get(segment.index()).map_or(TenantId(0), |s| s.tenant),
            segment,
            frame: s.frame,
        })
    }
}
