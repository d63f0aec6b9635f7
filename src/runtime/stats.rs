//! Latencies and counts since the engine opened, in memory of fixed size.

use crate::task::Status;
use crate::units::Nanos;

/// Sub-buckets of each power of two: 1/16, so a percentile is at most 6.25 % above the true one.
const SUB: u32 = 16;
const BUCKETS: usize = (64 - 4 + 1) * SUB as usize;

/// A histogram of durations in logarithmic buckets.
#[derive(Clone)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            buckets: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            max: 0,
        }
    }
}

/// The bucket of `value`: exact below 16, then 16 buckets for each power of two.
fn bucket(value: u64) -> usize {
    if value < u64::from(SUB) {
        return value as usize;
    }
    let power = value.ilog2() - 3;
    power as usize * SUB as usize + (value >> (power - 1)) as usize - SUB as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let (power, sub) = (bucket / SUB as usize, (bucket % SUB as usize) as u64);
    if power == 0 {
        return sub;
    }
    let next = u128::from(sub + u64::from(SUB) + 1) << (power - 1);
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, value: Nanos) {
        self.buckets[bucket(value.0)] += 1;
        self.count += 1;
        self.max = self.max.max(value.0);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    pub fn max(&self) -> Nanos {
        Nanos(self.max)
    }

    /// The duration that a share `fraction` (0 to 1) of all does not exceed, rounded up by at most 6.25 %; 0 of none.
    pub fn percentile(&self, fraction: f64) -> Nanos {
        let rank = ((self.count as f64 * fraction.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Nanos(upper(index).min(self.max));
            }
        }
        Nanos(self.max)
    }
}

/// One tenant's figures.
#[derive(Clone, Default)]
pub struct TenantStats {
    /// From the start of a frame's work to the tenant's fresh result.
    pub finish: Histogram,
    /// Frames in which it gave a fresh result.
    pub fresh: u64,
    /// Frames in which it was not due.
    pub held: u64,
    /// Frames in which it was due and gave none.
    pub stale: u64,
    /// Frames without any result yet.
    pub none: u64,
    /// Fresh results after the deadline.
    pub missed: u64,
}

impl TenantStats {
    pub(super) fn count(&mut self, status: Status, finish: Nanos, missed: bool) {
        match status {
            Status::Fresh => {
                self.fresh += 1;
                self.finish.record(finish);
            }
            Status::Held => self.held += 1,
            Status::Stale => self.stale += 1,
            Status::None => self.none += 1,
        }
        self.missed += u64::from(missed);
    }
}

/// One plan's figures.
#[derive(Clone, Default)]
pub struct PlanStats {
    /// From the start of a frame's work to its end.
    pub frame: Histogram,
    /// Per tenant of the plan.
    pub tenants: Vec<TenantStats>,
}

impl PlanStats {
    pub(super) fn new(tenants: usize) -> PlanStats {
        PlanStats {
            frame: Histogram::default(),
            tenants: vec![TenantStats::default(); tenants],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_monotone_and_hold_their_own_upper_bound() {
        for value in (0..2_000)
            .chain((4..64).flat_map(|p| [(1u64 << p) - 1, 1 << p, (1 << p) + 1]))
            .chain([u64::MAX])
        {
            let b = bucket(value);
            assert!(b < BUCKETS, "{value}");
            assert!(
                upper(b) >= value && bucket(upper(b)) == b,
                "{value} in bucket {b} up to {}",
                upper(b)
            );
            assert!(
                (upper(b) - value) as f64 <= value as f64 / 16.0,
                "{value} is rounded to {}",
                upper(b)
            );
            assert!(value == 0 || bucket(value - 1) <= b);
        }
    }

    #[test]
    fn percentiles_are_within_a_sixteenth() {
        let mut h = Histogram::default();
        assert_eq!(h.percentile(0.5), Nanos(0));
        (1..=1000).for_each(|v| h.record(Nanos(v * 1_000)));
        for (fraction, exact) in [(0.5, 500_000.0), (0.99, 990_000.0)] {
            let got = h.percentile(fraction).0 as f64;
            assert!((exact..=exact * 1.0625).contains(&got), "{fraction}: {got}");
        }
        assert_eq!((h.max(), h.percentile(1.0), h.count()), (Nanos(1_000_000), Nanos(1_000_000), 1000));
    }
}
