//! One slot's words in pinned memory: the progress words, then what the backend keeps for itself.

use super::clock::DeviceClock;
use super::raw::{Context, DriverError, Pinned};
use crate::backend::progress::{DeviceWords, Places};
use crate::ids::SegmentId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the words lie, counted in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The progress words.
    pub places: Places,
    /// True if segments have times, for the trace.
    pub trace: bool,
}

impl Layout {
    /// The time at which the frame began.
    pub const fn begin(self) -> usize {
        self.places.count()
    }

    /// Ends injected hangs once it is not 0.
    pub const fn release(self) -> usize {
        self.places.count() + 1
    }

    /// When a segment started; when it ended lies behind it. Only with a trace.
    pub const fn times(self, segment: SegmentId) -> usize {
        self.places.count() + 2 + 2 * segment.index()
    }

    /// Number of words.
    pub const fn count(self) -> usize {
        self.places.count() + 2 + if self.trace { 2 * self.places.segments } else { 0 }
    }
}

/// The words of a slot.
pub struct SlotWords {
    memory: Pinned,
    layout: Layout,
    /// When the slot's frame was submitted, on the host's clock.
    submitted: AtomicU64,
    clock: Arc<DeviceClock>,
}

impl SlotWords {
    /// Zeroed words.
    pub fn new(context: &Arc<Context>, layout: Layout, clock: Arc<DeviceClock>) -> Result<SlotWords, DriverError> {
        Ok(SlotWords {
            memory: Pinned::new(context, 8 * layout.count() as u64)?,
            layout,
            submitted: AtomicU64::new(0),
            clock,
        })
    }

    /// Device address of the first word.
    pub fn address(&self) -> u64 {
        self.memory.area().address
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// When the slot's latest frame was submitted, on the host's clock.
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Notes that the slot's frame is submitted now.
    pub fn submit(&self) {
        self.submitted.store(self.clock.host().now(), Ordering::Relaxed);
    }

    /// Ends injected hangs.
    pub fn release(&self) {
        self.words()[self.layout.release()].store(1, Ordering::Release);
    }

    /// Zeroes all words. No frame of the slot may be in flight.
    pub fn clear(&self) {
        self.words().iter().for_each(|w| w.store(0, Ordering::Relaxed));
    }

    /// When a segment of the slot's latest frame started and ended, on the host's clock; only with a trace.
    pub fn times(&self, segment: SegmentId) -> (u64, u64) {
        let at = |place: usize| self.clock.at(self.words()[place].load(Ordering::Relaxed));
        let place = self.layout.times(segment);
        (at(place), at(place + 1))
    }
}

impl DeviceWords for SlotWords {
    fn words(&self) -> &[AtomicU64] {
        self.memory.words(self.layout.count())
    }

    fn time(&self, stamp: u64) -> u64 {
        let begin = self.words()[self.layout.begin()].load(Ordering::Relaxed);
        self.clock.seen(stamp, self.submitted(), begin)
    }
}
