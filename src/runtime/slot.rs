//! Slots and the tickets that own them.

use super::report::FrameReport;
use crate::error::RunError;
use crate::ids::{PlanId, SlotId};
use crate::limits::MAX_SLOTS;

/// The right to a frame's results. Its slot is not used again before the ticket is released.
///
/// A ticket cannot be copied, and `Engine::release` consumes it; one that is dropped instead keeps its slot for good.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a ticket that is not released keeps its slot"]
pub struct Ticket {
    engine: u64,
    slot: SlotId,
    generation: u64,
    frame: u64,
}

impl Ticket {
    /// The number of the frame.
    pub fn frame(&self) -> u64 {
        self.frame
    }

    /// The slot that holds it.
    pub fn slot(&self) -> SlotId {
        self.slot
    }
}

/// A draft that was set aside. One that is dropped keeps its slot, and no frame can be begun any more.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a draft that is not resumed keeps its slot"]
pub struct Held {
    engine: u64,
    slot: SlotId,
}

/// Where a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nobody's.
    Free,
    /// Being filled.
    Draft,
    /// Submitted; its frame has not ended.
    Flight,
    /// Its frame has ended and its report is made.
    Done,
}

/// What is known of a slot's frame.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) stage: Stage,
    /// Raised whenever the slot becomes free, so that old tickets no longer fit.
    generation: u64,
    /// The ticket was released before the frame ended.
    pub(super) released: bool,
    pub(super) frame: u64,
    pub(super) plan: PlanId,
    pub(super) schedule: usize,
    /// Tenants that do not compute because their input is missing.
    pub(super) skip: u32,
    /// Tenants that run on an old image.
    pub(super) old: u32,
    /// When it was submitted, on the backend's clock.
    pub(super) submitted: u64,
    /// All frames before it have ended, and the results of tenants that are not due are in place.
    pub(super) entered: bool,
    /// Cameras whose image was set in the draft.
    pub(super) given: u32,
    /// The report, once done.
    pub(super) report: FrameReport,
}

/// All slots of an engine.
#[derive(Debug)]
pub(super) struct Slots {
    engine: u64,
    slots: Vec<Slot>,
    /// Slots in flight, in order of frames.
    flight: heapless::Deque<SlotId, MAX_SLOTS>,
    /// Where the search for a free slot starts: slots take turns, so that the newest image is rarely in the way.
    turn: usize,
}

impl Slots {
    pub(super) fn new(engine: u64, count: usize) -> Slots {
        let slot = Slot {
            stage: Stage::Free,
            generation: 0,
            released: false,
            frame: 0,
            plan: PlanId(0),
            schedule: 0,
            skip: 0,
            old: 0,
            submitted: 0,
            entered: false,
            given: 0,
            report: FrameReport::EMPTY,
        };
        Slots {
            engine,
            slots: vec![slot; count],
            flight: heapless::Deque::new(),
            turn: 0,
        }
    }

    pub(super) fn get(&self, slot: SlotId) -> &Slot {
        &self.slots[slot.index()]
    }

    pub(super) fn get_mut(&mut self, slot: SlotId) -> &mut Slot {
        &mut self.slots[slot.index()]
    }

    /// A free slot, or Busy. It stays free until [`Slots::take`].
    pub(super) fn free(&self) -> Result<SlotId, RunError> {
        let count = self.slots.len();
        (0..count)
            .map(|i| (self.turn + i) % count)
            .find(|&i| self.slots[i].stage == Stage::Free)
            .and_then(SlotId::from_index)
            .ok_or(RunError::Busy)
    }

    pub(super) fn take(&mut self, slot: SlotId) {
        self.turn = (slot.index() + 1) % self.slots.len();
        let s = self.get_mut(slot);
        s.stage = Stage::Draft;
        s.given = 0;
    }

    /// True while a slot is being filled.
    pub(super) fn is_drafting(&self) -> bool {
        self.slots.iter().any(|s| s.stage == Stage::Draft)
    }

    /// The token of a slot that is being filled.
    pub(super) fn hold(&self, slot: SlotId) -> Held {
        let engine = self.engine;
        Held { engine, slot }
    }

    /// The slot of a token.
    pub(super) fn unhold(&self, held: Held) -> Result<SlotId, RunError> {
        (held.engine == self.engine).then_some(held.slot).ok_or(RunError::Ticket)
    }

    /// The drafted slot is in flight now; its ticket.
    pub(super) fn launch(&mut self, slot: SlotId) -> Ticket {
        let engine = self.engine;
        let s = self.get_mut(slot);
        s.stage = Stage::Flight;
        s.released = false;
        let ticket = Ticket {
            engine,
            slot,
            generation: s.generation,
            frame: s.frame,
        };
        // There are at most MAX_SLOTS slots, each at most once in flight.
        let _ = self.flight.push_back(slot);
        ticket
    }

    /// The oldest slot in flight.
    pub(super) fn oldest(&self) -> Option<SlotId> {
        self.flight.front().copied()
    }

    /// The oldest slot's frame has ended.
    pub(super) fn land(&mut self) {
        if let Some(slot) = self.flight.pop_front() {
            self.get_mut(slot).stage = Stage::Done;
            if self.get(slot).released {
                self.set_free(slot);
            }
        }
    }

    /// Frees a slot; tickets for it fit no longer.
    pub(super) fn set_free(&mut self, slot: SlotId) {
        let s = self.get_mut(slot);
        s.stage = Stage::Free;
        s.generation += 1;
    }

    /// The slot of a valid ticket.
    pub(super) fn of(&self, ticket: &Ticket) -> Result<SlotId, RunError> {
        let slot = self.slots.get(ticket.slot.index()).ok_or(RunError::Ticket)?;
        let valid = ticket.engine == self.engine
            && ticket.generation == slot.generation
            && !slot.released
            && matches!(slot.stage, Stage::Flight | Stage::Done);
        valid.then_some(ticket.slot).ok_or(RunError::Ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_take_turns_and_tickets_fit_once() {
        let mut slots = Slots::new(7, 2);
        let a = slots.free().unwrap();
        slots.take(a);
        let ticket = slots.launch(a);
        let b = slots.free().unwrap();
        assert_ne!(a, b);
        slots.take(b);
        let second = slots.launch(b);
        assert_eq!(slots.free(), Err(RunError::Busy));
        assert_eq!(slots.of(&ticket), Ok(a));
        assert_eq!(Slots::new(8, 2).of(&ticket), Err(RunError::Ticket));

        // Released in flight: no longer valid, free once landed.
        slots.get_mut(a).released = true;
        assert_eq!(slots.of(&ticket), Err(RunError::Ticket));
        assert_eq!(slots.free(), Err(RunError::Busy));
        slots.land();
        assert_eq!(slots.free(), Ok(a));
        slots.take(a);
        let third = slots.launch(a);
        assert_eq!(slots.of(&ticket), Err(RunError::Ticket));
        assert_eq!(slots.of(&third), Ok(a));
        slots.land();
        assert_eq!(slots.get(b).stage, Stage::Done);
        assert_eq!(slots.of(&second), Ok(b));
    }
}
