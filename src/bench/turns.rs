//! Turns of both sides, one after the other again and again, so that what else the machine does meets both alike.

use super::BenchError;
use super::measure::{REST, Samples, TURN, WARM};
use super::ours::{Ours, Part};
use super::peers::Peer;

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
