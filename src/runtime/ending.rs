//! The end of a frame: in order of frames, who computed, the report, the counts; and the results.

use super::engine::Engine;
use super::lifecycle::State;
use super::report::{FrameReport, TenantReport};
use super::result::{Source, TenantResult};
use super::slot::{Stage, Ticket};
use crate::error::RunError;
use crate::ids::{SlotId, TenantId};
use crate::task::Status;
use crate::units::Nanos;

impl Engine {
    /// Takes note of every frame that has ended, in order. What each call of the engine does first. Of frames that end behind a
    /// fault no note is taken.
    pub(super) fn advance(&mut self) -> Result<(), RunError> {
        if let State::Faulted(_) = self.state() {
            return Ok(());
        }
        while let Some(slot) = self.slots.oldest() {
            self.enter(slot)?;
            let frame = self.slots.get(slot).frame;
            let Some(end) = self.prepared()?.progress(slot)?.frame_finish(frame) else {
                break;
            };
            self.finalise(slot, end)?;
        }
        Ok(())
    }

    /// All frames before the slot's have ended: tenants that are not due get their latest results.
    fn enter(&mut self, slot: SlotId) -> Result<(), RunError> {
        if self.slots.get(slot).entered {
            return Ok(());
        }
        for t in 0..self.plan_of(self.slots.get(slot).plan).tenants.len() {
            let tenant = TenantId(t as u16);
            if !self.is_due(slot, tenant) {
                self.repeat(slot, tenant)?;
            }
        }
        self.slots.get_mut(slot).entered = true;
        Ok(())
    }

    /// Copies a tenant's latest result, if there is one, into the slot.
    fn repeat(&mut self, slot: SlotId, tenant: TenantId) -> Result<(), RunError> {
        let prepared = self.prepared.as_deref_mut().ok_or(RunError::State)?;
        let outputs = &self.facts[self.slots.get(slot).plan.index()].outputs;
        self.latest.repeat(slot, tenant, prepared, outputs)
    }

    /// Before a slot's results are written anew: saves those of them that are the latest.
    pub(super) fn save_latest_of(&mut self, slot: SlotId) -> Result<(), RunError> {
        let prepared = self.prepared.as_deref().ok_or(RunError::State)?;
        let outputs = &self.facts[self.active.index()].outputs;
        self.latest.save_all_of(slot, prepared, outputs)
    }

    /// Status of a result that a tenant computes in the slot's frame, and the frame it is of: a camera that missed the
    /// frame leaves an older image, and what is computed from it is no news.
    pub(super) fn currency(&self, slot: SlotId, tenant: TenantId) -> Result<(Status, u64), RunError> {
        let s = self.slots.get(slot);
        if s.old >> tenant.0 & 1 == 0 {
            return Ok((Status::Fresh, s.frame));
        }
        let plan = self.plan_of(s.plan);
        // The tenant and all it depends on, found in at most as many rounds as there are tenants.
        let mut reached = 1u32 << tenant.0;
        for _ in 0..plan.tenants.len() {
            let sources = |t: usize| plan.tenants[t].sources.iter().fold(0, |set, s| set | 1u32 << s.0);
            let more = (0..plan.tenants.len())
                .filter(|t| reached >> t & 1 != 0)
                .fold(reached, |set, t| set | sources(t));
            if more == reached {
                break;
            }
            reached = more;
        }
        let mut of_frame = s.frame;
        for t in (0..plan.tenants.len()).filter(|t| reached >> t & 1 != 0) {
            for &camera in &plan.tenants[t].cameras {
                of_frame = of_frame.min(self.prepared()?.params(slot, camera)?.frame);
            }
        }
        Ok((Status::Stale, of_frame))
    }

    fn finalise(&mut self, slot: SlotId, end: u64) -> Result<(), RunError> {
        let start = self.start_of(slot);
        let s = self.slots.get(slot);
        let (frame, plan, schedule, old) = (s.frame, s.plan, s.schedule, s.old);
        let mut report = FrameReport {
            frame,
            plan,
            schedule,
            total: Nanos(end.saturating_sub(start)),
            tenants: heapless::Vec::new(),
        };
        for t in 0..self.plan_of(plan).tenants.len() {
            let tenant = TenantId(t as u16);
            let computed = self.computes(slot, tenant);
            let due = self.is_due(slot, tenant);
            if computed {
                let (_, of_frame) = self.currency(slot, tenant)?;
                self.latest.note(slot, tenant, of_frame);
            } else if due {
                self.repeat(slot, tenant)?;
            }
            let of_frame = self.latest.of_frame(tenant);
            let status = match (of_frame, computed, due) {
                (None, ..) => Status::None,
                (_, true, _) => self.currency(slot, tenant)?.0,
                (_, _, true) => Status::Stale,
                (_, _, false) => Status::Held,
            };
            // A tenant without segments in this frame is done when the frame is.
            let done = self.prepared()?.progress(slot)?.tenant_finish(tenant, frame).unwrap_or(end);
            let finish = Nanos(if computed { done.saturating_sub(start) } else { 0 });
            let deadline = self.plan_of(plan).tenants[t].urgency.deadline;
            let entry = TenantReport {
                tenant,
                status,
                of_frame: of_frame.unwrap_or(0),
                finish,
                missed_deadline: computed && deadline.is_some_and(|d| finish > d),
                old_image: computed && old >> t & 1 != 0,
            };
            self.facts[plan.index()].stats.tenants[t].count(status, finish, entry.missed_deadline);
            // A plan has at most MAX_TENANTS tenants (P6).
            let _ = report.tenants.push(entry);
        }
        self.facts[plan.index()].stats.frame.record(report.total);
        self.previous_end = end;
        self.slots.get_mut(slot).report = report;
        self.slots.land();
        Ok(())
    }

    /// A tenant's result in the ticket's frame.
    ///
    /// Before the tenant has finished, and for good if a fault keeps it from finishing or names it, this is its latest result of an
    /// earlier frame as stale: what a vehicle reads when the deadline comes first. Never waits.
    pub fn result(&mut self, ticket: &Ticket, tenant: TenantId) -> Result<TenantResult<'_>, RunError> {
        let slot = self.slots.of(ticket)?;
        self.advance()?;
        let s = self.slots.get(slot);
        let (plan, t) = (self.plan_of(s.plan), tenant.index());
        let word = plan.tenants.get(t).ok_or(RunError::Unknown)?;
        let prepared = self.prepared()?;
        let here = Source::Slot(prepared, slot);
        // Where several tenants run, the one that a fault names may yet end: what it gives then is not believed.
        let blamed = matches!(self.state(), State::Faulted(fault) if fault.blames(tenant, s.frame));
        let computed = self.computes(slot, tenant) && !blamed;
        let (status, of_frame, source) = if s.stage == Stage::Done && !blamed {
            let entry = s.report.tenants.get(t).ok_or(RunError::Unknown)?;
            (entry.status, entry.of_frame, here)
        } else if computed && prepared.progress(slot)?.tenant_finish(tenant, s.frame).is_some() {
            let (status, of_frame) = self.currency(slot, tenant)?;
            (status, of_frame, here)
        } else {
            let latest = self.latest.source(tenant, prepared);
            match self.latest.of_frame(tenant) {
                None => (Status::None, 0, latest),
                Some(f) if self.is_due(slot, tenant) => (Status::Stale, f, latest),
                Some(f) => (Status::Held, f, latest),
            }
        };
        Ok(TenantResult {
            status,
            of_frame,
            tenant: word,
            places: &self.facts[s.plan.index()].outputs[t],
            source: if status == Status::None { Source::Nothing } else { source },
            computed,
        })
    }
}
