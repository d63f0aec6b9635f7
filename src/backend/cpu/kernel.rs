//! What the executor asks of a compiled operator.

use super::arena::Memory;
use crate::primitive::Region;
use std::ops::Range;

/// An operator compiled for this machine: tactic chosen by the plan, weights packed, addresses resolved to buffers.
///
/// The executor cuts an operator's chunk into [`Kernel::tiles`] tiles and hands each worker a consecutive share.
/// Tiles of one chunk, and chunks of one operator, write disjoint elements and may run in any order, on any number of
/// workers, with the same bits. Nothing here allocates after `compile`.
pub trait Kernel: Send + Sync {
    /// Number of tiles of the output share `region`; fixed for a region.
    fn tiles(&self, region: &Region) -> u32;

    /// Computes tiles `tiles` of `region`. `scratch` has [`Kernel::scratch_bytes`] bytes or more, in whole words of 8, aligned to
    /// 64, with unspecified contents; each worker has its own.
    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, scratch: &mut [u8]);

    /// Bytes of scratch one worker needs.
    fn scratch_bytes(&self) -> usize {
        0
    }
}
