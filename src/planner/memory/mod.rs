//! Where buffers lie: arena offsets under the schedule's partial order.
//!
//! Two arena buffers may share bytes only if, in every frame of the cycle that uses both, all accesses of one happen
//! before all accesses of the other (P5). Buffers are placed largest first, each into the tightest gap that its
//! conflicting neighbours leave: greedy by size, as in Pisarchyk and Lee 2020, section 5, for a partial instead of a
//! total order.

mod lifetime;

use crate::limits::MAX_BYTES;
use crate::plan::format::{Buffer, FrameSchedule, Operator, Space};
use crate::units::align_up;
use lifetime::Lifetimes;

/// Alignment of every buffer, in bytes.
const ALIGN: u64 = 64;

/// Sizes of the memories that the buffers were placed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Bytes of the persistent region.
    pub persistent_bytes: u64,
    /// Bytes of tensor inputs in a slot.
    pub input_bytes: u64,
    /// Bytes of results in a slot.
    pub output_bytes: u64,
    /// Bytes of all arena buffers together: what the arena would take without sharing.
    pub total_bytes: u64,
}

/// Why buffers cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// More than a plan may hold.
    #[error("the buffers need more memory than a plan may hold; make the inputs or the batch smaller")]
    Size,
    /// The schedule is not legal.
    #[error("the schedule has a sync point that waits for a later segment")]
    Schedule,
}

/// Sets the offsets of all arena, persistent, input and output buffers. Camera and weight buffers stay as they are.
///
/// `cycle` must name existing operators and streams, as `schedule::apply` makes it.
pub fn place(operators: &[Operator], buffers: &mut [Buffer], streams: usize, cycle: &[FrameSchedule]) -> Result<Placement, MemoryError> {
    let lifetimes = Lifetimes::of(operators, buffers.len(), streams, cycle).map_err(|_| MemoryError::Schedule)?;
    let mut placement = Placement::default();
    let mut arena: Vec<usize> = Vec::new();
    for (i, buffer) in buffers.iter_mut().enumerate() {
        let (region, offset) = match &mut buffer.space {
            Space::Arena { .. } => {
                arena.push(i);
                placement.total_bytes = stacked(placement.total_bytes, buffer.bytes)?.1;
                continue;
            }
            Space::Persistent { offset } => (&mut placement.persistent_bytes, offset),
            Space::Input { offset } => (&mut placement.input_bytes, offset),
            Space::Output { offset } => (&mut placement.output_bytes, offset),
            Space::Camera(_) | Space::Weights(_) => continue,
        };
        (*offset, *region) = stacked(*region, buffer.bytes)?;
    }
    arena.sort_by_key(|&i| (std::cmp::Reverse(buffers[i].bytes), i));
    // Placed buffers as (offset, end, index), by offset.
    let mut placed: Vec<(u64, u64, usize)> = Vec::with_capacity(arena.len());
    for i in arena {
        let bytes = buffers[i].bytes;
        let offset = tightest_gap(bytes, placed.iter().filter(|p| lifetimes.conflict(p.2, i)).map(|p| (p.0, p.1)))?;
        let end = offset.checked_add(bytes).filter(|&e| e <= MAX_BYTES).ok_or(MemoryError::Size)?;
        placement.arena_bytes = placement.arena_bytes.max(align_up(end, ALIGN).ok_or(MemoryError::Size)?);
        let at = placed.partition_point(|p| p.0 < offset);
        placed.insert(at, (offset, end, i));
        buffers[i].space = Space::Arena { offset };
    }
    Ok(placement)
}

/// Offset of a buffer of `bytes` behind `used` bytes, and the end behind it, aligned.
fn stacked(used: u64, bytes: u64) -> Result<(u64, u64), MemoryError> {
    let end = used.checked_add(bytes).and_then(|e| align_up(e, ALIGN)).filter(|&e| e <= MAX_BYTES);
    Ok((used, end.ok_or(MemoryError::Size)?))
}

/// The start of the smallest gap between `taken` ranges (ascending by start) that holds `bytes`, or the end of them all.
fn tightest_gap(bytes: u64, taken: impl Iterator<Item = (u64, u64)>) -> Result<u64, MemoryError> {
    let mut free = 0u64;
    let mut best: Option<(u64, u64)> = None;
    for (start, end) in taken {
        if let Some(gap) = start.checked_sub(free)
            && gap >= bytes
            && best.is_none_or(|(size, _)| gap < size)
        {
            best = Some((gap, free));
        }
        free = free.max(align_up(end, ALIGN).ok_or(MemoryError::Size)?);
    }
    Ok(best.map_or(free, |(_, offset)| offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_gap_is_taken_and_the_end_where_none_fits() {
        let taken = [(0, 64), (192, 256), (320, 384)];
        assert_eq!(tightest_gap(64, taken.into_iter()), Ok(256));
        assert_eq!(tightest_gap(128, taken.into_iter()), Ok(64));
        assert_eq!(tightest_gap(129, taken.into_iter()), Ok(384));
        assert_eq!(tightest_gap(0, std::iter::empty()), Ok(0));
    }
}
