//! Each tenant's latest result: what later frames repeat, and what stands in where a result does not come.
//!
//! It stays in the slot that it was computed in, and is copied nowhere while every frame brings a new one. It is saved in a room of
//! the engine's own when another frame repeats it, and before its slot is used again: when the slot is released if it is the one
//! that comes next, where no frame waits for the copy.

use super::engine::Engine;
use super::images::touched;
use super::result::{Place, Source};
use crate::error::RunError;
use crate::ids::{SlotId, TenantId};
use crate::limits::{MAX_SLOTS, MAX_TENANTS};

/// Each tenant's latest result under the active plan.
pub(super) struct Latest {
    /// The frame it is of; `None` before the first.
    of_frame: [Option<u64>; MAX_TENANTS],
    /// Bit sets of the tenants whose latest result lies in each slot; that of any other is saved.
    in_slot: [u32; MAX_SLOTS],
    /// Room for those that are saved, laid out as in a slot.
    saved: Box<[u8]>,
}

impl Latest {
    /// None yet; room for a slot's results.
    pub(super) fn new(bytes: usize) -> Latest {
        Latest {
            of_frame: [None; MAX_TENANTS],
            in_slot: [0; MAX_SLOTS],
            saved: touched(bytes),
        }
    }

    /// Forgets all of them.
    pub(super) fn forget(&mut self) {
        (self.of_frame, self.in_slot) = ([None; MAX_TENANTS], [0; MAX_SLOTS]);
    }

    /// The frame that a tenant's latest result is of; `None` before the first.
    pub(super) fn of_frame(&self, tenant: TenantId) -> Option<u64> {
        self.of_frame[tenant.index()]
    }

    /// The slot that it lies in; `None` if it is saved.
    fn slot(&self, tenant: TenantId) -> Option<SlotId> {
        self.in_slot
            .iter()
            .position(|set| set >> tenant.0 & 1 != 0)
            .and_then(SlotId::from_index)
    }

    /// It lies in that slot from now on, or is saved.
    fn moves(&mut self, tenant: TenantId, to: Option<SlotId>) {
        self.in_slot.iter_mut().for_each(|set| *set &= !(1 << tenant.0));
        if let Some(slot) = to {
            self.in_slot[slot.index()] |= 1 << tenant.0;
        }
    }
}

impl Engine {
    /// Notes that a result which a tenant computed in the slot's frame, which has ended, is its latest.
    pub(super) fn keep(&mut self, slot: SlotId, tenant: TenantId) -> Result<(), RunError> {
        let (_, of_frame) = self.currency(slot, tenant)?;
        self.latest.of_frame[tenant.index()] = Some(of_frame);
        self.latest.moves(tenant, Some(slot));
        Ok(())
    }

    /// Before a slot's results are written anew: saves those of them that are the latest.
    pub(super) fn save_latest_of(&mut self, slot: SlotId) -> Result<(), RunError> {
        for t in 0..self.plan_of(self.active).tenants.len() {
            let tenant = TenantId(t as u16);
            if self.latest.slot(tenant) == Some(slot) {
                self.save(tenant)?;
            }
        }
        Ok(())
    }

    /// Copies a tenant's latest result, if there is one, into the slot.
    pub(super) fn repeat(&mut self, slot: SlotId, tenant: TenantId) -> Result<(), RunError> {
        if self.latest.of_frame(tenant).is_none() {
            return Ok(());
        }
        self.save(tenant)?;
        let prepared = self.prepared.as_deref_mut().ok_or(RunError::State)?;
        for &Place { offset, bytes } in &self.facts[self.slots.get(slot).plan.index()].outputs[tenant.index()] {
            prepared
                .output_mut(slot, offset, bytes)?
                .copy_from_slice(&self.latest.saved[offset..offset + bytes]);
        }
        Ok(())
    }

    /// Where a tenant's latest result is read. Only until the engine is used again: then its slot may be, too.
    pub(super) fn latest_source(&self, tenant: TenantId) -> Result<Source<'_>, RunError> {
        Ok(match (self.latest.of_frame(tenant), self.latest.slot(tenant)) {
            (None, _) => Source::Nothing,
            (_, None) => Source::Saved(&self.latest.saved),
            (_, Some(slot)) => Source::Earlier(self.prepared()?, slot),
        })
    }

    /// Copies a tenant's latest result out of its slot, if it still lies in one.
    fn save(&mut self, tenant: TenantId) -> Result<(), RunError> {
        let Some(slot) = self.latest.slot(tenant) else { return Ok(()) };
        let prepared = self.prepared.as_deref().ok_or(RunError::State)?;
        for &Place { offset, bytes } in &self.facts[self.active.index()].outputs[tenant.index()] {
            self.latest.saved[offset..offset + bytes].copy_from_slice(prepared.output(slot, offset, bytes)?);
        }
        self.latest.moves(tenant, None);
        Ok(())
    }
}
