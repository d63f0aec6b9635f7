// Choices that stay comparisons, in the order in which they are written.
//
// A launch whose instructions are not near waits for them line by line, and longer for each jump to what was not asked for yet; a table
// of jumps, which compilers make of a `switch` and of a chain of comparisons alike, is one more load that nothing asked for. So what is
// usual is asked for first and stands first.
#pragma once

#include "types.cuh"

// A condition that compilers do not take apart or join to others.
__device__ __forceinline__ bool asked(bool condition) {
    u32 holds = condition;
    asm("" : "+r"(holds));
    return holds != 0;
}
