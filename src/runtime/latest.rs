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
use crate::limits::MAX_TENANTS;

/// Each tenant's latest result under the active plan.
pub(super) struct Latest {
    results: [Option<Kept>; MAX_TENANTS],
    /// Room for those that are saved, laid out as in a slot.
    saved: Box<[u8]>,
}

/// A tenant's latest result.
#[derive(Clone, Copy)]
struct Kept {
    /// The frame it is of.
    of_frame: u64,
    /// The slot that it lies in; `None` once it is saved.
    slot: Option<SlotId>,
}

impl Latest {
    /// None yet; room for a slot's results.
    pub(super) fn new(bytes: usize) -> Latest {
        Latest {
            results: [None; MAX_TENANTS],
            saved: touched(bytes),
        }
    }

    /// Forgets all of them.
    pub(super) fn forget(&mut self) {
        self.results = [None; MAX_TENANTS];
    }

    /// The frame that a tenant's latest result is of; `None` before the first.
    pub(super) fn of_frame(&self, tenant: TenantId) -> Option<u64> {
        Some(self.results[tenant.index()]?.of_frame)
    }
}

impl Engine {
    /// Notes that a result which a tenant computed in the slot's frame, which has ended, is its latest.
    pub(super) fn keep(&mut self, slot: SlotId, tenant: TenantId) -> Result<(), RunError> {
        let (_, of_frame) = self.currency(slot, tenant)?;
        self.latest.results[tenant.index()] = Some(Kept {
            of_frame,
            slot: Some(slot),
        });
        Ok(())
    }

    /// Before a slot's results are written anew: saves those of them that are the latest.
    pub(super) fn save_latest_of(&mut self, slot: SlotId) -> Result<(), RunError> {
        for t in 0..self.plan_of(self.active).tenants.len() {
            if self.latest.results[t].is_some_and(|kept| kept.slot == Some(slot)) {
                self.save(TenantId(t as u16))?;
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
        Ok(match self.latest.results[tenant.index()] {
            None => Source::Nothing,
            Some(Kept { slot: None, .. }) => Source::Saved(&self.latest.saved),
            Some(Kept { slot: Some(slot), .. }) => Source::Earlier(self.prepared()?, slot),
        })
    }

    /// Copies a tenant's latest result out of its slot, if it still lies in one.
    fn save(&mut self, tenant: TenantId) -> Result<(), RunError> {
        let Some(kept) = &mut self.latest.results[tenant.index()] else {
            return Ok(());
        };
        let Some(slot) = kept.slot else { return Ok(()) };
        let prepared = self.prepared.as_deref().ok_or(RunError::State)?;
        for &Place { offset, bytes } in &self.facts[self.active.index()].outputs[tenant.index()] {
            self.latest.saved[offset..offset + bytes].copy_from_slice(prepared.output(slot, offset, bytes)?);
        }
        kept.slot = None;
        Ok(())
    }
}
