//! Launches of what frames a frame: its beginning, progress words, camera images on their way in, injected faults.
//! Mirrors the parameters of `kernels/marks.cu`.

use super::bind::{Area, Launch};
use crate::backend::FaultKind;
use crate::ids::TenantId;
use bytemuck::{Pod, Zeroable};
use std::time::Duration;

const UNIT: &str = "marks";
/// Threads that copy the slot's block.
const BEGIN_THREADS: u32 = 96;
/// Words that one launch can write.
pub const MAX_MARKS: usize = 4;
const MARK_THREADS: u32 = 32;
/// Blocks that carry an image or a tensor across the bus: enough loads in flight to fill it, few enough to leave the SMs to others.
const UPLOAD_BLOCKS: u64 = 32;
const UPLOAD_THREADS: u32 = 256;
/// Bytes of results that a kernel carries to the host; more go by a copy engine. Kernels write across the bus as fast as it is
/// (measured on an H200: 0.24 MB in 11 us and 22 MB in 443, an engine 8 and 418), and a graph without a copy is cheaper to launch:
/// with one of 0.24 MB the host's p99 is 24 us, without 15, and frames are as long.
pub const LARGEST_RESULT: u64 = 1 << 20;
/// An injected hang ends by itself after this time, so that a test machine comes back.
const LONGEST_HANG: Duration = Duration::from_secs(10);
/// An injected failure comes this long after the start of its segment, when the word of the start is written.
const BEFORE_FAILURE: Duration = Duration::from_micros(200);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct BeginParams {
    source: u64,
    target: u64,
    stamp: u64,
    padding: u64,
}

/// A word that takes frame + 1, and one that takes the time; addresses, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Mark {
    /// Address of the word.
    pub word: u64,
    /// Address of the time.
    pub time: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct MarkParams {
    slot: u64,
    count: u32,
    padding: u32,
    marks: [Mark; MAX_MARKS],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct UploadParams {
    slot: u64,
    source: u64,
    target: u64,
    capacity: u64,
    camera: u32,
    padding: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct TransferParams {
    source: u64,
    target: u64,
    bytes: u64,
    slot: u64,
    tenant: u32,
    padding: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct FaultParams {
    slot: u64,
    frame: u64,
    nanoseconds: u64,
    release: u64,
    kind: u32,
    padding: u32,
}

/// Copies the slot's block from `source` (the host's) to `target` and writes the time to `stamp`.
pub fn begin(source: u64, target: u64, stamp: u64) -> Launch {
    let params = BeginParams {
        source,
        target,
        stamp,
        padding: 0,
    };
    Launch::new(UNIT, "begin", 1, 1, BEGIN_THREADS, &params)
}

/// Writes words; at most [`MAX_MARKS`], more are left out.
pub fn mark(slot: u64, marks: &[Mark]) -> Launch {
    let mut params = MarkParams {
        slot,
        count: marks.len().min(MAX_MARKS) as u32,
        padding: 0,
        marks: [Mark::default(); MAX_MARKS],
    };
    params.marks.iter_mut().zip(marks).for_each(|(to, from)| *to = *from);
    Launch::new(UNIT, "mark", 1, 1, MARK_THREADS, &params)
}

/// Copies a camera's image from pinned to device memory, as long as the slot's block says.
pub fn upload(slot: u64, camera: u32, source: u64, target: Area) -> Launch {
    let params = UploadParams {
        slot,
        source,
        target: target.address,
        capacity: target.bytes,
        camera,
        padding: 0,
    };
    Launch::new(UNIT, "upload", carriers(target.bytes), 0, UPLOAD_THREADS, &params)
}

/// Copies `source` to `target`, which is as long and lies, like it, at a multiple of 16 bytes; one of them in pinned memory.
///
/// A kernel, as each node of a copy engine makes a graph dearer for the host to launch: measured on an H200, a graph with 8 of
/// them takes 24 us to launch, and 2.3 without.
///
/// Of a tenant's inputs, with the address of the slot's block: does nothing in frames whose inputs are in the device's memory already.
pub fn transfer(source: Area, target: Area, inputs_of: Option<(u64, TenantId)>) -> Launch {
    let (slot, tenant) = inputs_of.map_or((0, 0), |(slot, tenant)| (slot, tenant.0.into()));
    let params = TransferParams {
        source: source.address,
        target: target.address,
        bytes: source.bytes.min(target.bytes),
        slot,
        tenant,
        padding: 0,
    };
    Launch::new(UNIT, "transfer", carriers(params.bytes), 0, UPLOAD_THREADS, &params)
}

/// Blocks for so many bytes.
fn carriers(bytes: u64) -> u32 {
    bytes.div_ceil(16 * u64::from(UPLOAD_THREADS)).clamp(1, UPLOAD_BLOCKS) as u32
}

/// Does in frame `frame` what an injected fault does; a hang ends when the word at `release` is not 0.
pub fn fault(slot: u64, frame: u64, kind: FaultKind, release: u64) -> Launch {
    let (kind, time) = match kind {
        FaultKind::Delay(time) => (0, time),
        FaultKind::Hang => (1, LONGEST_HANG),
        FaultKind::Fail(_) => (2, BEFORE_FAILURE),
    };
    let params = FaultParams {
        slot,
        frame,
        nanoseconds: u64::try_from(time.min(LONGEST_HANG).as_nanos()).unwrap_or(0),
        release,
        kind,
        padding: 0,
    };
    Launch::new(UNIT, "fault", 1, 1, 1, &params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_as_long_as_the_kernels_say() {
        let lengths = [
            begin(1, 2, 3).params.len(),
            mark(1, &[]).params.len(),
            upload(1, 2, 3, Area::default()).params.len(),
            transfer(Area::default(), Area::default(), None).params.len(),
            fault(1, 2, FaultKind::Hang, 3).params.len(),
        ];
        assert_eq!(lengths, [32, 16 + 16 * MAX_MARKS, 40, 40, 40]);
    }

    #[test]
    fn an_image_is_read_by_few_blocks_and_by_no_more_than_it_needs() {
        let blocks = |bytes| upload(0, 0, 0, Area { address: 0, bytes }).blocks;
        assert_eq!([blocks(0), blocks(4096), blocks(4097), blocks(1 << 30)], [1, 1, 2, 32]);
    }

    #[test]
    fn a_hang_is_bounded_whatever_is_asked_for() {
        let nanoseconds = |kind| u64::from_ne_bytes(fault(0, 0, kind, 0).params[16..24].try_into().unwrap());
        assert_eq!(nanoseconds(FaultKind::Hang), 10_000_000_000);
        assert_eq!(nanoseconds(FaultKind::Delay(Duration::from_secs(3600))), 10_000_000_000);
        assert_eq!(nanoseconds(FaultKind::Delay(Duration::from_micros(3))), 3_000);
    }
}
