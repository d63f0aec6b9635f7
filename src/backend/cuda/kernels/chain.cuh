// The order of launches that follow one another in a stream: programmatic dependent launch (CUDA C++ Programming Guide).
//
// A launch may begin while the one before it still runs. What it does before it waits may touch constants only: weights,
// tables, its own shared memory. Whatever another launch of a frame writes or still reads comes after: the arena, the slot
// and its words, workspaces, persistent state. Every block waits, whether it has work or not, so that the end of a launch
// says that everything before it has ended, too. Architectures before sm_90 have no such launches.
#pragma once

// Waits until the launches that this one depends on have ended and their writes are visible; at once where it was not
// launched ahead of their end.
__device__ __forceinline__ void wait_for_predecessors() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets launches that depend on this one begin once all its blocks have come here; they wait for its end themselves. Called
// after the wait, so that no more than two launches of a stream hold the multiprocessors.
__device__ __forceinline__ void release_successors() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
