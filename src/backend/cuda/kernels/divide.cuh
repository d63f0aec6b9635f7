// Division by a number known ahead: `(value * multiplier) >> (32 + shift)` for values below 2^31.
// Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
#pragma once

#include "types.cuh"

struct Divisor {
    u32 divisor;
    u32 multiplier;  // 0 for a divisor of 1
    u32 shift;
};

static_assert(sizeof(Divisor) == 12, "mirrored in bind/views.rs");

__device__ __forceinline__ u32 divide(u32 value, const Divisor& d) {
    return d.multiplier == 0 ? value : __umulhi(value, d.multiplier) >> d.shift;
}
