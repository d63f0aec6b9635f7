// Division by a number known ahead: `value * multiplier >> (31 + shift)` for values below 2^31.
// Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
#pragma once

#include "types.cuh"

struct Divisor {
    u32 divisor;
    u32 multiplier;  // 2^(31 + shift) / divisor, rounded up
    u32 shift;       // of the smallest power of two that is not below the divisor
};

static_assert(sizeof(Divisor) == 12, "mirrored in bind/views.rs");

__device__ __forceinline__ u32 divide(u32 value, const Divisor& d) { return __umulhi(value * 2, d.multiplier) >> d.shift; }
