//! The GPU's clock on the host's: one offset, held between what is certain.
//!
//! A frame begins on the GPU after it was submitted, and its words are noticed after they were written. So the offset
//! (host time minus GPU time) is at least `submitted - begin` and at most `noticed - end`. Each frame clamps the offset
//! into its interval; where the two bounds cross, by a clock of coarse steps, the upper one holds. The clocks may drift
//! apart: a time is then wrong by no more than the host took to submit and to notice, and no result seems later than the
//! host saw it.

use crate::backend::progress::Clock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Translates the GPU's times. One for all slots.
pub struct DeviceClock {
    host: Clock,
    offset: AtomicI64,
    known: AtomicBool,
}

impl DeviceClock {
    /// Translates to `host`; meaningless before the first frame.
    pub fn new(host: Clock) -> DeviceClock {
        DeviceClock {
            host,
            offset: AtomicI64::new(0),
            known: AtomicBool::new(false),
        }
    }

    /// The host's clock.
    pub fn host(&self) -> Clock {
        self.host
    }

    /// The host's time of `stamp`, which is seen now, in a frame that was submitted at `submitted` (the host's time) and
    /// began at `begin` (the GPU's).
    pub fn seen(&self, stamp: u64, submitted: u64, begin: u64) -> u64 {
        self.clamp(difference(submitted, begin), difference(self.host.now(), stamp));
        self.at(stamp)
    }

    /// The host's time of `stamp`.
    pub fn at(&self, stamp: u64) -> u64 {
        let time = (stamp as i64).wrapping_add(self.offset.load(Ordering::Relaxed));
        u64::try_from(time).unwrap_or(0).max(1)
    }

    fn clamp(&self, low: i64, high: i64) {
        let old = if self.known.swap(true, Ordering::Relaxed) {
            self.offset.load(Ordering::Relaxed)
        } else {
            low
        };
        self.offset.store(old.max(low).min(high), Ordering::Relaxed);
    }
}

fn difference(host: u64, device: u64) -> i64 {
    (host as i64).wrapping_sub(device as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_held_between_submission_and_notice() {
        let clock = DeviceClock::new(Clock::start());
        let at = |offset: i64| clock.at(1_000_000_000) as i64 - 1_000_000_000 == offset;
        clock.clamp(-500, -400);
        assert!(at(-500), "the first frame begins as soon as it is submitted");
        clock.clamp(-450, -100);
        assert!(at(-450), "submitted later than thought");
        clock.clamp(-900, -470);
        assert!(at(-470), "noticed earlier than thought");
        clock.clamp(-100, -300);
        assert!(at(-300), "where the bounds cross, the notice holds");
    }

    #[test]
    fn nothing_seems_later_than_it_was_seen() {
        let clock = DeviceClock::new(Clock::start());
        for frame in 0..1000u64 {
            // A GPU whose clock runs 0.1 % fast and started long before the host's.
            let gpu = |host: u64| 1 << 60 | (host + host / 1000);
            let submitted = clock.host().now();
            let begin = gpu(submitted + frame % 7);
            let end = gpu(clock.host().now());
            let seen = clock.seen(end, submitted, begin);
            assert!(seen <= clock.host().now());
        }
        assert!(clock.at(0) >= 1);
    }
}
