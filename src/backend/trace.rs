//! The trace ring: when each segment ran, in memory taken at prepare; the oldest entries give way.

use crate::ids::{PlanId, SegmentId};
use std::sync::atomic::{AtomicU64, Ordering};

/// One segment of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// The frame.
    pub frame: u64,
    /// The plan it ran under.
    pub plan: PlanId,
    /// The segment of the frame's schedule.
    pub segment: SegmentId,
    /// When it began, on the prepared object's clock, in nanoseconds.
    pub start: u64,
    /// When it ended, on the same clock.
    pub end: u64,
    /// The worker (or device queue) that ended it.
    pub worker: u32,
}

/// A fixed ring that many workers write and the host reads at any time.
pub struct TraceRing {
    next: AtomicU64,
    entries: Box<[Entry]>,
}

/// `ticket` is the event's number + 1 while the entry is whole, 0 while it is being written.
#[derive(Default)]
struct Entry {
    ticket: AtomicU64,
    words: [AtomicU64; 4],
}

impl TraceRing {
    /// A ring of `events` entries; 0 records nothing.
    pub fn new(events: usize) -> TraceRing {
        TraceRing {
            next: AtomicU64::new(0),
            entries: (0..events).map(|_| Entry::default()).collect(),
        }
    }

    /// True if anything is recorded.
    pub fn is_on(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Records an event. Wait-free, takes no memory.
    pub fn record(&self, event: TraceEvent) {
        if self.entries.is_empty() {
            return;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let entry = &self.entries[(number % self.entries.len() as u64) as usize];
        let place = u64::from(event.plan.0) << 48 | u64::from(event.worker & 0xffff) << 32 | u64::from(event.segment.0);
        entry.ticket.store(0, Ordering::Release);
        for (word, value) in entry.words.iter().zip([event.frame, place, event.start, event.end]) {
            word.store(value, Ordering::Release);
        }
        entry.ticket.store(number + 1, Ordering::Release);
    }

    /// Gives `visit` the recorded events, oldest first. Entries that are overwritten meanwhile are left out.
    pub fn read(&self, mut visit: impl FnMut(TraceEvent)) {
        let end = self.next.load(Ordering::Acquire);
        for number in end.saturating_sub(self.entries.len() as u64)..end {
            let entry = &self.entries[(number % self.entries.len() as u64) as usize];
            if entry.ticket.load(Ordering::Acquire) != number + 1 {
                continue;
            }
            let [frame, place, start, end] = std::array::from_fn(|i| entry.words[i].load(Ordering::Acquire));
            if entry.ticket.load(Ordering::Acquire) == number + 1 {
                visit(TraceEvent {
                    frame,
                    plan: PlanId((place >> 48) as u16),
                    segment: SegmentId(place as u32),
                    start,
                    end,
                    worker: (place >> 32) as u32 & 0xffff,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest_events_in_order() {
        let ring = TraceRing::new(4);
        let event = |n: u64| TraceEvent {
            frame: n,
            plan: PlanId(3),
            segment: SegmentId(70_000),
            start: n * 10,
            end: n * 10 + 5,
            worker: 9,
        };
        (0..7).for_each(|n| ring.record(event(n)));
        let mut seen = Vec::new();
        ring.read(|e| seen.push(e));
        assert_eq!(seen, (3..7).map(event).collect::<Vec<_>>());
        let off = TraceRing::new(0);
        off.record(event(1));
        off.read(|e| panic!("{e:?} was recorded by a ring that is off"));
    }
}
