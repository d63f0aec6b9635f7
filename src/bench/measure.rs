//! Turns of both sides, one after the other again and again, so that what else the machine does meets both alike.

use super::BenchError;
use super::ours::{Ours, Part};
use super::peers::Peer;
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

/// What a task set took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Whole frames of ours.
    pub frame: Samples,
    /// Our networks alone.
    pub networks: Samples,
    /// The peer's networks; `None` without a peer.
    pub peer: Option<Samples>,
    /// The setting that the peer was fastest with; empty without a peer.
    pub setting: &'static str,
}

/// Runs `frames` counted frames of each side. `progress` gets the number of those done.
pub fn compare(
    ours: &mut Ours,
    mut peer: Option<&mut Peer>,
    frames: usize,
    mut progress: impl FnMut(usize),
) -> Result<Measured, BenchError> {
    let mut measured = Measured {
        peer: peer.as_ref().map(|_| Samples::default()),
        ..Measured::default()
    };
    let mut done = 0;
    while done < frames {
        let count = TURN.min(frames - done);
        measured.frame.extend(ours.run(Part::Frame, WARM, count)?);
        std::thread::sleep(REST);
        measured.networks.extend(ours.run(Part::Networks, WARM, count)?);
        std::thread::sleep(REST);
        if let (Some(peer), Some(samples)) = (&mut peer, &mut measured.peer) {
            samples.extend(peer.run(WARM, count)?);
            std::thread::sleep(REST);
        }
        done += count;
        progress(done);
    }
    Ok(measured)
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
