//! Progress words: how far a frame has come, in memory that the host reads without asking the device.
//!
//! A word holds `frame + 1` once the thing it stands for has happened in `frame`, so nothing is reset between frames and
//! 0 means never. Waiting, the watchdog and fault attribution read nothing else.

use crate::ids::{SegmentId, TenantId};
use crate::limits::MAX_TENANTS;
use std::sync::Arc;
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

/// Where each word lies, for schedules of up to `segments` segments. The same on every backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Most segments of a schedule.
    pub segments: usize,
}

impl Places {
    /// The frame's done word; the time it was written lies behind it.
    pub const FRAME: usize = 0;

    /// A tenant's done word; the time it was written lies behind it.
    pub const fn tenant(self, tenant: TenantId) -> usize {
        2 + 2 * tenant.index()
    }

    /// The word of a segment's start.
    pub const fn started(self, segment: SegmentId) -> usize {
        2 + 2 * MAX_TENANTS + segment.index()
    }

    /// The word of a segment's end.
    pub const fn ended(self, segment: SegmentId) -> usize {
        2 + 2 * MAX_TENANTS + self.segments + segment.index()
    }

    /// Number of words.
    pub const fn count(self) -> usize {
        2 + 2 * MAX_TENANTS + 2 * self.segments
    }
}

/// Words that a device writes, in memory that the host sees too.
pub trait DeviceWords: Send + Sync {
    /// The words, at least [`Places::count`].
    fn words(&self) -> &[AtomicU64];

    /// The host's time of a device's time that was written in the slot's running or latest frame and is seen now.
    fn time(&self, stamp: u64) -> u64;
}

enum Words {
    Own(Box<[AtomicU64]>),
    Device(Arc<dyn DeviceWords>),
}

/// The progress words of one slot.
pub struct Progress {
    words: Words,
    places: Places,
    /// Per worker, the segment whose step it is in, + 1; 0 in none.
    inside: Box<[AtomicU64]>,
    /// A device's done words as they were first seen, with the host's time: the frame's, then the tenants'.
    seen: [Seen; 1 + MAX_TENANTS],
}

#[derive(Default)]
struct Seen {
    done: AtomicU64,
    at: AtomicU64,
}

impl Progress {
    /// Words for schedules of up to `segments` segments, and for `workers` workers (0 on a device).
    pub fn new(segments: usize, workers: usize) -> Progress {
        let places = Places { segments };
        Progress {
            words: Words::Own((0..places.count()).map(|_| AtomicU64::new(0)).collect()),
            inside: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            ..Progress::of(places, Words::Own(Box::new([])))
        }
    }

    /// Words that a device writes.
    pub fn on_device(places: Places, words: Arc<dyn DeviceWords>) -> Progress {
        Progress::of(places, Words::Device(words))
    }

    fn of(places: Places, words: Words) -> Progress {
        Progress {
            words,
            places,
            inside: Box::new([]),
            seen: std::array::from_fn(|_| Seen::default()),
        }
    }

    #[inline]
    fn word(&self, place: usize) -> &AtomicU64 {
        match &self.words {
            Words::Own(words) => &words[place],
            Words::Device(words) => &words.words()[place],
        }
    }

    fn finish(&self, place: usize, frame: u64, now: u64) {
        self.word(place + 1).store(now, Ordering::Relaxed);
        self.word(place).store(frame + 1, Ordering::Release);
    }

    fn finished(&self, place: usize, frame: u64) -> Option<u64> {
        if self.word(place).load(Ordering::Acquire) != frame + 1 {
            return None;
        }
        let at = self.word(place + 1).load(Ordering::Relaxed);
        let Words::Device(words) = &self.words else { return Some(at) };
        // The times of both ends drift apart, so a device's time is translated once: what was told stays.
        let seen = &self.seen[place / 2];
        if seen.done.load(Ordering::Relaxed) != frame + 1 {
            seen.at.store(words.time(at), Ordering::Relaxed);
            seen.done.store(frame + 1, Ordering::Relaxed);
        }
        Some(seen.at.load(Ordering::Relaxed))
    }

    /// Says that a segment of `frame` begins.
    pub fn start_segment(&self, segment: SegmentId, frame: u64) {
        self.word(self.places.started(segment)).store(frame + 1, Ordering::Release);
    }

    /// Says that a segment of `frame` has ended; everything it wrote is visible to whoever sees the word.
    pub fn end_segment(&self, segment: SegmentId, frame: u64) {
        self.word(self.places.ended(segment)).store(frame + 1, Ordering::Release);
    }

    /// True once the segment has begun in `frame`.
    pub fn segment_started(&self, segment: SegmentId, frame: u64) -> bool {
        self.word(self.places.started(segment)).load(Ordering::Acquire) == frame + 1
    }

    /// True once the segment has ended in `frame`.
    pub fn segment_ended(&self, segment: SegmentId, frame: u64) -> bool {
        self.word(self.places.ended(segment)).load(Ordering::Acquire) == frame + 1
    }

    /// Says that a worker is in a step of a segment now, or in none.
    pub fn set_inside(&self, worker: usize, segment: Option<SegmentId>) {
        self.inside[worker].store(segment.map_or(0, |s| u64::from(s.0) + 1), Ordering::Relaxed);
    }

    /// Says that all segments of the tenant have ended and its outputs are visible.
    pub fn finish_tenant(&self, tenant: TenantId, frame: u64, now: u64) {
        self.finish(self.places.tenant(tenant), frame, now);
    }

    /// When the tenant finished `frame`, or `None` before it has.
    pub fn tenant_finish(&self, tenant: TenantId, frame: u64) -> Option<u64> {
        (tenant.index() < MAX_TENANTS).then(|| self.finished(self.places.tenant(tenant), frame))?
    }

    /// Says that all segments of the frame have ended. The last thing that is written of a frame.
    pub fn finish_frame(&self, frame: u64, now: u64) {
        self.finish(Places::FRAME, frame, now);
    }

    /// When `frame` finished, or `None` before it has.
    pub fn frame_finish(&self, frame: u64) -> Option<u64> {
        self.finished(Places::FRAME, frame)
    }

    /// How many of the first `segments` segments have begun in `frame` and not ended.
    pub fn running_segments(&self, segments: usize, frame: u64) -> usize {
        let open = self.open_segments(segments, frame);
        open.filter(|&s| self.segment_started(s, frame)).count()
    }

    /// Those of the first `segments` segments that have not ended in `frame`.
    fn open_segments(&self, segments: usize, frame: u64) -> impl Iterator<Item = SegmentId> {
        (0..segments.min(self.places.segments))
            .filter_map(SegmentId::from_index)
            .filter(move |&s| !self.segment_ended(s, frame))
    }

    /// The segment to blame when `frame` does not go on: the first that a worker is in a step of, for a team's other
    /// segments may merely wait for that worker; else, of the first `segments` segments, the first that began and did not
    /// end; else the first that did not end.
    pub fn stuck_segment(&self, segments: usize, frame: u64) -> Option<SegmentId> {
        let open = || self.open_segments(segments, frame);
        let inside = |s: SegmentId| self.inside.iter().any(|w| w.load(Ordering::Relaxed) == u64::from(s.0) + 1);
        let started = |s: SegmentId| self.segment_started(s, frame);
        open()
            .find(|&s| inside(s))
            .or_else(|| open().find(|&s| started(s)))
            .or_else(|| open().next())
    }

    /// The segment to blame when all have ended and `frame` has not: of segments of these tenants, the last one of the first tenant
    /// whose results are not there, else the last.
    pub fn last_segment<I>(&self, tenants: I, frame: u64) -> Option<SegmentId>
    where
        I: ExactSizeIterator<Item = TenantId> + DoubleEndedIterator + Clone,
    {
        let missing = tenants.clone().find(|&tenant| self.tenant_finish(tenant, frame).is_none());
        let last = missing.and_then(|missing| tenants.clone().rposition(|tenant| tenant == missing));
        last.or(tenants.len().checked_sub(1)).and_then(SegmentId::from_index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of a device whose clock is 1000 ahead, and falls back by 1 with every question.
    struct Device {
        words: Vec<AtomicU64>,
        asked: AtomicU64,
    }

    impl DeviceWords for Device {
        fn words(&self) -> &[AtomicU64] {
            &self.words
        }

        fn time(&self, stamp: u64) -> u64 {
            stamp - 1000 + self.asked.fetch_add(1, Ordering::Relaxed)
        }
    }

    #[test]
    fn what_hangs_behind_all_segments_is_a_tenant_without_results() {
        let p = Progress::new(3, 1);
        let last = || p.last_segment([4, 2, 4].map(TenantId).into_iter(), 0);
        assert_eq!(last(), Some(SegmentId(2)));
        p.finish_tenant(TenantId(4), 0, 70);
        assert_eq!(last(), Some(SegmentId(1)));
        p.finish_tenant(TenantId(2), 0, 71);
        assert_eq!(last(), Some(SegmentId(2)));
        assert_eq!(p.last_segment([].into_iter(), 0), None);
    }

    #[test]
    fn a_devices_times_are_translated_once() {
        let places = Places { segments: 2 };
        let device = Arc::new(Device {
            words: (0..places.count()).map(|_| AtomicU64::new(0)).collect(),
            asked: AtomicU64::new(0),
        });
        let p = Progress::on_device(places, device.clone());
        let set = |place: usize, value| device.words[place].store(value, Ordering::Relaxed);
        assert_eq!((p.frame_finish(4), p.tenant_finish(TenantId(1), 4)), (None, None));
        set(places.tenant(TenantId(1)) + 1, 1500);
        set(places.tenant(TenantId(1)), 5);
        set(Places::FRAME + 1, 1600);
        set(Places::FRAME, 5);
        for _ in 0..3 {
            assert_eq!((p.tenant_finish(TenantId(1), 4), p.frame_finish(4)), (Some(500), Some(601)));
        }
        set(Places::FRAME + 1, 1700);
        set(Places::FRAME, 6);
        assert_eq!((p.frame_finish(4), p.frame_finish(5)), (None, Some(702)));
        set(places.started(SegmentId(1)), 6);
        set(places.ended(SegmentId(0)), 6);
        assert_eq!(p.stuck_segment(2, 5), Some(SegmentId(1)));
    }

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
        assert_eq!(p.running_segments(3, 0), 1);
        p.start_segment(a, 0);
        assert_eq!((p.running_segments(3, 0), p.running_segments(1, 0)), (2, 1));
        p.end_segment(b, 0);
        p.end_segment(a, 0);
        assert_eq!((p.running_segments(3, 0), p.running_segments(3, 1)), (0, 0));
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
