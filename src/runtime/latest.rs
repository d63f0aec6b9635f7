//! Each tenant's latest result: what later frames repeat, and what stands in where a result does not come.
//!
//! It stays in the slot that it was computed in, and is copied nowhere while every frame brings a new one. It is saved in a room of
//! the engine's own when another frame repeats it, and before its slot is used again: when the slot is released if it is the one
//! that comes next, where no frame waits for the copy.

use super::images::touched;
use super::result::{Place, Source};
use crate::backend::{PrepareError, Prepared};
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
    pub(super) fn new(bytes: u64) -> Result<Latest, PrepareError> {
        Ok(Latest {
            of_frame: [None; MAX_TENANTS],
            in_slot: [0; MAX_SLOTS],
            saved: touched("latest results", bytes)?,
        })
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

    /// Notes that what a tenant computed in the slot's frame, which has ended, is its latest, of a frame.
    pub(super) fn note(&mut self, slot: SlotId, tenant: TenantId, of_frame: u64) {
        self.of_frame[tenant.index()] = Some(of_frame);
        self.moves(tenant, Some(slot));
    }

    /// Before a slot's results are written anew: saves those of them that are the latest. `outputs` are the places of each tenant's
    /// results under the active plan.
    pub(super) fn save_all_of(&mut self, slot: SlotId, prepared: &dyn Prepared, outputs: &[Vec<Place>]) -> Result<(), RunError> {
        for t in 0..outputs.len() {
            let tenant = TenantId(t as u16);
            if self.slot(tenant) == Some(slot) {
                self.save(tenant, prepared, outputs)?;
            }
        }
        Ok(())
    }

    /// Copies a tenant's latest result, if there is one, into the slot. `outputs` as there.
    pub(super) fn repeat(
        &mut self,
        slot: SlotId,
        tenant: TenantId,
        prepared: &mut dyn Prepared,
        outputs: &[Vec<Place>],
    ) -> Result<(), RunError> {
        if self.of_frame(tenant).is_none() {
            return Ok(());
        }
        self.save(tenant, prepared, outputs)?;
        for &Place { offset, bytes } in &outputs[tenant.index()] {
            prepared
                .output_mut(slot, offset, bytes)?
                .copy_from_slice(&self.saved[offset..offset + bytes]);
        }
        Ok(())
    }

    /// Where a tenant's latest result is read. Only until the engine is used again: then its slot may be, too.
    pub(super) fn source<'a>(&'a self, tenant: TenantId, prepared: &'a dyn Prepared) -> Source<'a> {
        match (self.of_frame(tenant), self.slot(tenant)) {
            (None, _) => Source::Nothing,
            (_, None) => Source::Saved(&self.saved),
            (_, Some(slot)) => Source::Earlier(prepared, slot),
        }
    }

    /// Copies a tenant's latest result out of its slot, if it still lies in one.
    fn save(&mut self, tenant: TenantId, prepared: &dyn Prepared, outputs: &[Vec<Place>]) -> Result<(), RunError> {
        let Some(slot) = self.slot(tenant) else { return Ok(()) };
        for &Place { offset, bytes } in &outputs[tenant.index()] {
            self.saved[offset..offset + bytes].copy_from_slice(prepared.output(slot, offset, bytes)?);
        }
        self.moves(tenant, None);
        Ok(())
    }
}
