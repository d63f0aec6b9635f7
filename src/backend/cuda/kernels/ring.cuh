// A ring of stages in shared memory, which some warps fill and others empty.
//
// A barrier tells a phase only from the next one. So who waits for a phase must know that the one before it is over: by having waited for
// it, too, or for what came behind it. That others had time enough is no reason: in a process that the GPU puts aside for another one, a
// warp's stages may come many stages after another's (tests/gpu/sharing.rs).
//
// Products read a stage as copies write it. Who reads or writes one by instructions of its own (what is turned round in a stage's place) says
// with `copy_fence`, and all lanes, that this is over before its barrier lets the next copy in: loads that were asked for may else come after
// it, and hold what was copied.
#pragma once

#include "types.cuh"

// The stage that comes next and how often the ring went round.
template <u32 STAGES>
struct Ring {
    u32 stage = 0, parity = 0;
    bool fresh = true;  // it has not gone round yet: nobody has a stage to empty
    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
            fresh = false;
        }
    }
};
