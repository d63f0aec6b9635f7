//! What a simulated frame looks like: when each launch ran, and how much of the board lay idle.

use super::engine::Witness;
use super::frame::Frame;

/// One launch in time, in nanoseconds from the start of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Its first block begins.
    pub start: u64,
    /// Its last block has ended.
    pub end: u64,
}

/// Between two times, how much of the board is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// From.
    pub start: u64,
    /// To.
    pub end: u64,
    /// Parts of units, of [`super::Machine::pool`].
    pub parts: u64,
}

/// A simulated frame as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// One a launch of the frame.
    pub spans: Vec<Span>,
    /// Without gaps from the start of the frame to its end.
    pub held: Vec<Held>,
}

impl Trace {
    /// An empty trace for a frame.
    pub fn of(frame: &Frame) -> Trace {
        Trace {
            spans: vec![Span::default(); frame.launches().len()],
            held: Vec::new(),
        }
    }

    /// Idle unit time of the whole frame over all of its unit time, 0 to 1: the residue's share.
    pub fn idle(&self, pool: u64) -> f64 {
        let (mut held, mut all) = (0u128, 0u128);
        for h in &self.held {
            let time = u128::from(h.end - h.start);
            held += time * u128::from(h.parts);
            all += time * u128::from(pool);
        }
        1.0 - held as f64 / (all as f64).max(1.0)
    }
}

impl Witness for Trace {
    fn begins(&mut self, launch: u32, at: u64) {
        self.spans[launch as usize].start = at;
    }

    fn ends(&mut self, launch: u32, at: u64) {
        self.spans[launch as usize].end = at;
    }

    fn holds(&mut self, from: u64, to: u64, parts: u64) {
        match self.held.last_mut() {
            _ if from == to => {}
            Some(last) if last.parts == parts => last.end = to,
            _ => self.held.push(Held {
                start: from,
                end: to,
                parts,
            }),
        }
    }
}
