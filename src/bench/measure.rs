//! The length of a side's turn, and the figures of the times that it took.

use super::BenchError;
use crate::units::Nanos;
use std::time::Duration;

/// Frames that a side runs at the start of its turn and that are not counted: they fetch its memory into the caches.
pub(super) const WARM: usize = 1;
/// Counted frames of a turn.
pub(super) const TURN: usize = 4;
/// Rest between two sides, in which spinning threads of the one go to sleep.
pub(super) const REST: Duration = Duration::from_millis(20);

/// Runs `warm` uncounted frames, then `count` of which the times are returned.
pub(super) fn counted<T>(warm: usize, count: usize, mut frame: impl FnMut() -> Result<T, BenchError>) -> Result<Vec<T>, BenchError> {
    for _ in 0..warm {
        frame()?;
    }
    (0..count).map(|_| frame()).collect()
}

/// Times of a side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples(Vec<Nanos>);

impl Samples {
    /// Adds times.
    pub fn extend(&mut self, times: impl IntoIterator<Item = Nanos>) {
        self.0.extend(times);
        self.0.sort_unstable();
    }

    /// All times, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.0.iter().copied()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest time that at least `fraction` (0..=1) of all do not exceed; 0 if there are none.
    pub fn quantile(&self, fraction: f64) -> Nanos {
        let rank = (self.0.len() as f64 * fraction).ceil() as usize;
        let index = rank.clamp(1, self.0.len().max(1)) - 1;
        self.0.get(index).copied().unwrap_or_default()
    }

    /// Half of the times are not above this.
    pub fn median(&self) -> Nanos {
        self.quantile(0.5)
    }

    /// The shortest time.
    pub fn min(&self) -> Nanos {
        self.quantile(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let mut samples = Samples::default();
        assert_eq!((samples.median(), samples.count()), (Nanos(0), 0));
        samples.extend([9, 1, 8, 2, 7].map(Nanos));
        samples.extend([3, 6, 4, 5, 10].map(Nanos));
        assert_eq!(
            [samples.min(), samples.median(), samples.quantile(0.9), samples.quantile(1.0)],
            [1, 5, 9, 10].map(Nanos)
        );
        let mut one = Samples::default();
        one.extend([Nanos(4)]);
        assert_eq!([one.min(), one.median(), one.quantile(0.9)], [4, 4, 4].map(Nanos));
    }
}
