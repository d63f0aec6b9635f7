//! Which buffers may be live at once.

use crate::ids::SyncId;
use crate::plan::clocks::Clocks;
use crate::plan::format::{FrameSchedule, Operand, Operator};

/// First and last access of a buffer on one stream.
#[derive(Clone, Copy)]
struct Access {
    stream: usize,
    /// Segment and position on the stream of the first access.
    first: (usize, u32),
    /// Position on the stream of the last access.
    last: u32,
}

/// The accesses of every buffer in every frame of a cycle.
pub struct Lifetimes {
    frames: Vec<(Clocks, Vec<Vec<Access>>)>,
}

impl Lifetimes {
    /// Walks the cycle. A sync point that waits for a later segment is the error.
    pub fn of(operators: &[Operator], buffers: usize, streams: usize, cycle: &[FrameSchedule]) -> Result<Lifetimes, SyncId> {
        let mut frames = Vec::with_capacity(cycle.len());
        for schedule in cycle {
            let mut accesses: Vec<Vec<Access>> = vec![Vec::new(); buffers];
            let mut position = vec![0u32; streams];
            for (index, segment) in schedule.segments.iter().enumerate() {
                let stream = segment.stream.index();
                for step in &segment.steps {
                    let at = position[stream];
                    position[stream] += 1;
                    let operator = &operators[step.operator.index()];
                    let inputs = operator.calls.iter().flat_map(|c| &c.inputs).filter_map(|o| match o {
                        Operand::View(view) => Some(view),
                        Operand::Inner(_) => None,
                    });
                    for view in inputs.chain(&operator.outputs) {
                        let list = &mut accesses[view.buffer.index()];
                        match list.iter_mut().find(|a| a.stream == stream) {
                            Some(access) => access.last = at,
                            None => list.push(Access {
                                stream,
                                first: (index, at),
                                last: at,
                            }),
                        }
                    }
                }
            }
            frames.push((Clocks::of(streams, schedule)?, accesses));
        }
        Ok(Lifetimes { frames })
    }

    /// True if in some frame neither of the two is done with before the other begins.
    pub fn conflict(&self, a: usize, b: usize) -> bool {
        self.frames.iter().any(|(clocks, accesses)| {
            let (a, b) = (&accesses[a], &accesses[b]);
            !(all_before(clocks, a, b) || all_before(clocks, b, a))
        })
    }
}

/// True if every access of `a` is complete before every access of `b` starts; also if one of them has none.
fn all_before(clocks: &Clocks, a: &[Access], b: &[Access]) -> bool {
    a.iter().all(|x| {
        b.iter().all(|y| {
            let (segment, position) = y.first;
            if x.stream == y.stream {
                x.last < position
            } else {
                x.last < clocks.complete(segment, x.stream)
            }
        })
    })
}
