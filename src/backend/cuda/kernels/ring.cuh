// A ring of stages in shared memory, which some warps fill and others empty.
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
