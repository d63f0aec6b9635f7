//! Numbers that cross the border beside statuses. They are stable; a test compares them with the header's.

use crate::board::BackendKind;
use crate::runtime::State;
use crate::task::ResultKind;
use crate::tensor::DType;

/// The version of the header that this library was made with; it runs callers of all versions from 1 to this one.
pub const ABI: u32 = 1;
/// Longer than any wait.
pub const FOREVER: u64 = u64::MAX;
/// Engines that may be open at once.
pub const MAX_ENGINES: usize = 16;

/// What the table says.
pub const BACKEND_OF_TABLE: i32 = 0;
/// The processor.
pub const BACKEND_CPU: i32 = 1;
/// An NVIDIA GPU.
pub const BACKEND_CUDA: i32 = 2;

/// Submit segment by segment instead of whole frames.
pub const OPEN_SEGMENTS: u32 = 1;
/// Do not pin workers to cores.
pub const OPEN_UNPINNED: u32 = 2;
/// Lock all memory of the process.
pub const OPEN_LOCK_MEMORY: u32 = 4;
/// Keep a core busy while waiting.
pub const OPEN_SPIN: u32 = 8;
/// Touch the stacks of the threads that run frames.
pub const OPEN_PREFAULT: u32 = 16;
/// The GPU works on the host's memory.
pub const OPEN_MAPPED: u32 = 32;
/// The GPU works on its own memory.
pub const OPEN_COPIED: u32 = 64;
/// All bits that mean something.
pub const OPEN_FLAGS: u32 = OPEN_SEGMENTS | OPEN_UNPINNED | OPEN_LOCK_MEMORY | OPEN_SPIN | OPEN_PREFAULT | OPEN_MAPPED | OPEN_COPIED;

/// A message of something that failed.
pub const LOG_ERROR: i32 = 1;
/// A message of something that was not granted, and is done without.
pub const LOG_WARNING: i32 = 2;
/// A message of something that was done.
pub const LOG_INFO: i32 = 3;

/// The number of a backend.
pub(super) const fn backend(kind: BackendKind) -> u32 {
    match kind {
        BackendKind::Cpu => BACKEND_CPU as u32,
        BackendKind::Cuda => BACKEND_CUDA as u32,
    }
}

/// The number of a state.
pub const fn state(state: State) -> u32 {
    match state {
        State::Empty => 0,
        State::Loaded => 1,
        State::Prepared => 2,
        State::Running => 3,
        State::Faulted(_) => 4,
        State::Closed => 5,
    }
}

/// The number of a kind of result.
pub const fn kind(kind: ResultKind) -> u32 {
    match kind {
        ResultKind::Detection => 1,
        ResultKind::Segmentation => 2,
        ResultKind::Classification => 3,
        ResultKind::Tensors => 4,
    }
}

/// The number of an element type.
pub const fn dtype(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 1,
        DType::F16 => 2,
        DType::I32 => 3,
        DType::U8 => 4,
        DType::Bool => 5,
    }
}
