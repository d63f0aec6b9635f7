//! P5: buffers lie aligned inside their regions, and two that may be live at once never share a byte.
//!
//! Arena buffers may share bytes where, in every frame that uses both, all accesses of one happen before all accesses of
//! the other. Persistent, input and output buffers never do: their contents outlive the frame's order. What depends on
//! the board (its budget, the number of slots) is checked by [`crate::plan::deployment`].

use super::CheckError;
use super::order::{Order, Place};
use super::reads::Accesses;
use super::work::Work;
use crate::ids::{BufferId, StreamId};
use crate::plan::format::{Plan, Space};

/// Buffers overlap or leave their region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// A buffer that starts where none may.
    #[error("buffer {0} starts at no multiple of 64 bytes")]
    Alignment(BufferId),
    /// A buffer larger than its region, section or image, or behind its end.
    #[error("buffer {0} leaves the region, weight section or image that it lies in")]
    Outside(BufferId),
    /// Two buffers of a region without reuse share bytes.
    #[error("buffers {0} and {1} overlap, where memory is never used twice")]
    Overlap(BufferId, BufferId),
    /// Two arena buffers that may be live at once share bytes.
    #[error("buffers {first} and {second} overlap in the arena, and in frame {frame} neither is done with before the other is used")]
    Live {
        /// The frame of the cycle.
        frame: usize,
        /// One buffer.
        first: BufferId,
        /// The other.
        second: BufferId,
    },
}

/// Checks what does not depend on the order: places, sizes, and the regions without reuse.
pub(super) fn check_regions(plan: &Plan) -> Result<(), MemoryError> {
    let mut single: [Vec<(u64, u64, BufferId)>; 3] = Default::default();
    for (i, buffer) in plan.buffers.iter().enumerate() {
        let id = BufferId(i as u32);
        let (offset, size, region) = match buffer.space {
            Space::Arena { offset } => (offset, plan.arena_bytes, None),
            Space::Persistent { offset } => (offset, plan.persistent_bytes, Some(0)),
            Space::Input { offset } => (offset, plan.input_bytes, Some(1)),
            Space::Output { offset } => (offset, plan.output_bytes, Some(2)),
            Space::Camera(c) => (0, plan.cameras[c.index()].bytes, None),
            Space::Weights(w) => (0, plan.sections[w.index()].bytes, None),
        };
        if !offset.is_multiple_of(64) {
            return Err(MemoryError::Alignment(id));
        }
        let end = offset.checked_add(buffer.bytes).filter(|&end| end <= size);
        let end = end.ok_or(MemoryError::Outside(id))?;
        if let Some(region) = region.filter(|_| buffer.bytes > 0) {
            single[region].push((offset, end, id));
        }
    }
    for region in &mut single {
        region.sort_unstable();
        if let Some(pair) = region.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            return Err(MemoryError::Overlap(pair[0].2, pair[1].2));
        }
    }
    Ok(())
}

/// First and last access on one stream.
#[derive(Clone, Copy)]
struct Use {
    stream: StreamId,
    first: Place,
    last: u32,
}

/// An arena buffer in one frame.
struct Live {
    start: u64,
    end: u64,
    id: BufferId,
    uses: Vec<Use>,
}

/// Checks that the arena buffers which one frame uses are apart, in place or in time.
pub(super) fn check_frame(plan: &Plan, order: &Order, accesses: &Accesses<'_>, work: &mut Work) -> Result<(), CheckError> {
    let mut slot_of: Vec<Option<u32>> = vec![None; plan.buffers.len()];
    let mut live: Vec<Live> = Vec::new();
    for (step, operator) in accesses.running(plan, order) {
        for &id in &accesses.arena_buffers[operator] {
            let buffer = &plan.buffers[id.index()];
            let Space::Arena { offset } = buffer.space else { continue };
            if buffer.bytes == 0 {
                continue;
            }
            let slot = *slot_of[id.index()].get_or_insert_with(|| {
                live.push(Live {
                    start: offset,
                    end: offset + buffer.bytes,
                    id,
                    uses: Vec::new(),
                });
                (live.len() - 1) as u32
            });
            note(&mut live[slot as usize].uses, step);
        }
    }
    live.sort_unstable_by_key(|l| (l.start, l.id));
    for (i, one) in live.iter().enumerate() {
        for other in live[i + 1..].iter().take_while(|o| o.start < one.end) {
            work.spend((one.uses.len() * other.uses.len()) as u64)?;
            if !all_before(order, one, other) && !all_before(order, other, one) {
                return Err(MemoryError::Live {
                    frame: order.frame,
                    first: one.id,
                    second: other.id,
                }
                .into());
            }
        }
    }
    Ok(())
}

fn note(uses: &mut Vec<Use>, place: Place) {
    match uses.iter_mut().find(|u| u.stream == place.stream) {
        Some(known) => {
            known.last = known.last.max(place.position);
            if place.position < known.first.position {
                known.first = place;
            }
        }
        None => uses.push(Use {
            stream: place.stream,
            first: place,
            last: place.position,
        }),
    }
}

/// True if every access of `one` happens before every access of `other`. Later steps of a stream wait for all that earlier
/// ones wait for, so that the last of the one and the first of the other on each stream tell it.
fn all_before(order: &Order, one: &Live, other: &Live) -> bool {
    let before = |last: &Use, first: &Use| order.position_before(last.stream, last.last, first.first);
    one.uses.iter().all(|last| other.uses.iter().all(|first| before(last, first)))
}
