//! When frames are expected to end: so a host that sleeps looks closely just then, and keeps no core busy before.
//!
//! A frame schedule is expected to take what it took last time, from its submission or from the end of the frame before it,
//! whichever is later. This decides when the host wakes, never what a frame computes.

use crate::ids::PlanId;
use std::cell::Cell;

/// Furthest from the expected end at which the host looks closely, in nanoseconds: a core is kept busy for no longer than
/// twice as much of a frame.
const MARGIN: u64 = 200_000;
/// How late a nap may end, in nanoseconds: its own length, and the slack of a timer of Linux.
const OVERSLEPT: u64 = 100_000;

/// What schedules took, and when the last frame ended. Times are nanoseconds on the host's clock.
pub struct Pace {
    /// By plan and frame schedule; 0 before the first frame.
    took: Vec<Box<[Cell<u64>]>>,
    ended: Cell<u64>,
}

impl Pace {
    /// Of plans with so many schedules each.
    pub fn new(schedules: impl IntoIterator<Item = usize>) -> Pace {
        let unknown = |count: usize| (0..count).map(|_| Cell::new(0)).collect();
        Pace {
            took: schedules.into_iter().map(unknown).collect(),
            ended: Cell::new(0),
        }
    }

    fn took(&self, plan: PlanId, schedule: usize) -> Option<&Cell<u64>> {
        self.took.get(plan.index())?.get(schedule)
    }

    /// When a frame that was submitted then begins: the one before has ended.
    fn began(&self, submitted: u64) -> u64 {
        submitted.max(self.ended.get())
    }

    /// Notes that a frame has ended.
    pub fn note(&self, plan: PlanId, schedule: usize, submitted: u64, end: u64) {
        if let Some(took) = self.took(plan, schedule) {
            took.set(end.saturating_sub(self.began(submitted)));
        }
        self.ended.set(end);
    }

    /// True around the time at which the oldest frame in flight should end.
    pub fn is_due(&self, plan: PlanId, schedule: usize, submitted: u64, now: u64) -> bool {
        let took = self.took(plan, schedule).map_or(0, Cell::get);
        let margin = (took / 8).min(MARGIN);
        // Times of a device are its own word: one that is far off must not stop the loop.
        let end = self.began(submitted).saturating_add(took);
        took > 0 && (end.saturating_sub(margin + OVERSLEPT)..=end.saturating_add(margin)).contains(&now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_schedule_is_due_when_it_has_taken_as_long_as_last_time() {
        let pace = Pace::new([1, 2]);
        let (plan, schedule) = (PlanId(1), 1);
        let due = |submitted: u64, now: u64| pace.is_due(plan, schedule, submitted, now);
        assert!(!due(10 * MS, 12 * MS), "nothing is known yet");
        pace.note(plan, schedule, 10 * MS, 12 * MS);
        assert!(!due(20 * MS, 21 * MS) && due(20 * MS, 22 * MS - 250_000) && due(20 * MS, 22 * MS + 100_000));
        assert!(!due(20 * MS, 23 * MS), "a late frame is waited for asleep");
        assert!(!pace.is_due(plan, 0, 20 * MS, 22 * MS), "each schedule has a time of its own");
        assert!(
            !pace.is_due(PlanId(7), 0, 20 * MS, 22 * MS),
            "a plan that is not there is never due"
        );
    }

    #[test]
    fn a_frame_that_queues_counts_from_the_end_of_the_one_before() {
        let pace = Pace::new([1]);
        let plan = PlanId(0);
        pace.note(plan, 0, MS, 3 * MS);
        pace.note(plan, 0, 2 * MS, 5 * MS);
        assert!(pace.is_due(plan, 0, 2 * MS, 7 * MS) && !pace.is_due(plan, 0, 2 * MS, 5 * MS));
    }

    #[test]
    fn a_long_frame_keeps_a_core_busy_for_no_longer_than_its_margins() {
        let pace = Pace::new([1]);
        pace.note(PlanId(0), 0, 0, 100 * MS);
        let due = (0..2000)
            .filter(|i| pace.is_due(PlanId(0), 0, 100 * MS, 100 * MS + i * MS / 10))
            .count();
        assert_eq!(due as u64, (2 * MARGIN + OVERSLEPT) / (MS / 10) + 1);
    }
}
