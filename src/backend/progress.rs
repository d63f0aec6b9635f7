//! Progress words: how far a frame has come, in memory that the host reads without asking the device.
//!
//! A word holds `frame + 1` once the thing it stands for has happened in `frame`, so nothing is reset between frames and
//! 0 means never. Waiting, the watchdog and fault attribution read nothing else.

use crate::ids::{SegmentId, TenantId};
use crate::limits::MAX_TENANTS;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts nanoseconds since a prepared object was made; all times of progress and traces are on it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { epoch: Instant::now() }
    }

    /// Nanoseconds since the start; at least 1, so that 0 can mean never.
    pub fn now(self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// The instant `nanos` after the start.
    pub fn at(self, nanos: u64) -> Instant {
        self.epoch + Duration::from_nanos(nanos)
    }
}

/// The progress words of one slot.
pub struct Progress {
    started: Box<[AtomicU64]>,
    ended: Box<[AtomicU64]>,
    /// Per worker, the segment whose step it is in, + 1; 0 in none.
    inside: Box<[AtomicU64]>,
    tenants: [Word; MAX_TENANTS],
    frame: Word,
}

/// A done word and the time it was written.
#[derive(Default)]
struct Word {
    done: AtomicU64,
    at: AtomicU64,
}

impl Word {
    fn set(&self, frame: u64, now: u64) {
        self.at.store(now, Ordering::Relaxed);
        self.done.store(frame + 1, Ordering::Release);
    }

    fn get(&self, frame: u64) -> Option<u64> {
        (self.done.load(Ordering::Acquire) == frame + 1).then(|| self.at.load(Ordering::Relaxed))
    }
}

impl Progress {
    /// Words for schedules of up to `segments` segments, and for `workers` workers (0 on a device).
    pub fn new(segments: usize, workers: usize) -> Progress {
        let words = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Progress {
            started: words(segments),
            ended: words(segments),
            inside: words(workers),
            tenants: std::array::from_fn(|_| Word::default()),
            frame: Word::default(),
        }
    }

    /// Says that a segment of `frame` begins.
    pub fn start_segment(&self, segment: SegmentId, frame: u64) {
        self.started[segment.index()].store(frame + 1, Ordering::Release);
    }

    /// Says that a segment of `frame` has ended; everything it wrote is visible to whoever sees the word.
    pub fn end_segment(&self, segment: SegmentId, frame: u64) {
        self.ended[segment.index()].store(frame + 1, Ordering::Release);
    }

    /// True once the segment has begun in `frame`.
    pub fn segment_started(&self, segment: SegmentId, frame: u64) -> bool {
        self.started[segment.index()].load(Ordering::Acquire) == frame + 1
    }

    /// True once the segment has ended in `frame`.
    pub fn segment_ended(&self, segment: SegmentId, frame: u64) -> bool {
        self.ended[segment.index()].load(Ordering::Acquire) == frame + 1
    }

    /// Says that a worker is in a step of a segment now, or in none.
    pub fn set_inside(&self, worker: usize, segment: Option<SegmentId>) {
        self.inside[worker].store(segment.map_or(0, |s| u64::from(s.0) + 1), Ordering::Relaxed);
    }

    /// Says that all segments of the tenant have ended and its outputs are visible.
    pub fn finish_tenant(&self, tenant: TenantId, frame: u64, now: u64) {
        self.tenants[tenant.index()].set(frame, now);
    }

    /// When the tenant finished `frame`, or `None` before it has.
    pub fn tenant_finish(&self, tenant: TenantId, frame: u64) -> Option<u64> {
        self.tenants.get(tenant.index())?.get(frame)
    }

    /// Says that all segments of the frame have ended. The last thing that is written of a frame.
    pub fn finish_frame(&self, frame: u64, now: u64) {
        self.frame.set(frame, now);
    }

    /// When `frame` finished, or `None` before it has.
    pub fn frame_finish(&self, frame: u64) -> Option<u64> {
        self.frame.get(frame)
    }

    /// The segment to blame when `frame` does not go on: the first that a worker is in a step of, for a team's other
    /// segments may merely wait for that worker; else, of the first `segments` segments, the first that began and did not
    /// end; else the first that did not end.
    pub fn stuck_segment(&self, segments: usize, frame: u64) -> Option<SegmentId> {
        let open = || {
            (0..segments.min(self.ended.len()))
                .filter_map(SegmentId::from_index)
                .filter(|&s| !self.segment_ended(s, frame))
        };
        let inside = |s: SegmentId| self.inside.iter().any(|w| w.load(Ordering::Relaxed) == u64::from(s.0) + 1);
        let started = |s: SegmentId| self.segment_started(s, frame);
        open()
            .find(|&s| inside(s))
            .or_else(|| open().find(|&s| started(s)))
            .or_else(|| open().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_of_one_frame_only() {
        let p = Progress::new(3, 2);
        let (a, b) = (SegmentId(0), SegmentId(1));
        assert!(!p.segment_ended(a, 0), "nothing has happened before the first frame");
        assert_eq!(p.stuck_segment(3, 0), Some(a));
        p.start_segment(b, 0);
        assert_eq!(p.stuck_segment(3, 0), Some(b));
        p.set_inside(1, Some(SegmentId(2)));
        assert_eq!(p.stuck_segment(3, 0), Some(SegmentId(2)), "a worker is in it");
        p.set_inside(1, None);
        assert_eq!(p.stuck_segment(3, 0), Some(b));
        p.end_segment(b, 0);
        p.end_segment(a, 0);
        assert_eq!(p.stuck_segment(3, 0), Some(SegmentId(2)));
        assert_eq!(p.stuck_segment(2, 0), None);
        assert!(!p.segment_ended(a, 1));
        p.finish_tenant(TenantId(4), 0, 77);
        assert_eq!(p.tenant_finish(TenantId(4), 0), Some(77));
        assert_eq!(p.tenant_finish(TenantId(4), 1), None);
        assert_eq!(p.tenant_finish(TenantId(400), 0), None);
        p.finish_frame(0, 80);
        assert_eq!((p.frame_finish(0), p.frame_finish(1)), (Some(80), None));
    }
}
