//! What the loop may ask of the CUDA driver.

use platoon::backend::Submission;
use platoon::backend::cuda::Call;

/// Calls that a frame may make, and how often at most; none of them waits or takes memory.
pub fn allowed(submission: Submission) -> Vec<(Call, u64)> {
    let mut calls = vec![(Call::CtxSetCurrent, u64::MAX), (Call::StreamQuery, u64::MAX)];
    calls.extend(match submission {
        Submission::Frame => vec![(Call::GraphLaunch, 1)],
        Submission::Segments => [
            Call::LaunchKernel,
            Call::LaunchKernelEx,
            Call::EventRecord,
            Call::StreamWaitEvent,
            Call::MemcpyHtoDAsync,
            Call::MemcpyDtoHAsync,
        ]
        .map(|c| (c, u64::MAX))
        .to_vec(),
    });
    calls
}
