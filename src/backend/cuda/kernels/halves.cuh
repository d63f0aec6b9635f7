// Functions of halves in fewer instructions than through f32 and comparisons, with the same bits.
#pragma once

#include "types.cuh"

// Both halves where they are not below 0, else 0; NaN and a zero's sign stay.
__device__ __forceinline__ u32 relu_halves(u32 x) {
    u32 below;
    asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(below) : "r"(0), "r"(x));
    return x & ~below;
}

// The sums of two pairs of halves, each rounded once: what adding them in f32 and rounding then gives, since f32 has more than
// twice the digits of a half and two more (Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30, 1995).
__device__ __forceinline__ u32 add_halves(u32 a, u32 b) {
    u32 sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

// x * clip(x / 6 + 1/2, 0, 1). What the saturation makes of a NaN is no matter, as it is multiplied by it.
__device__ __forceinline__ float hard_swish(float x) {
    float factor;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(factor) : "f"(x), "f"(1.0f / 6.0f), "f"(0.5f));
    return __fmul_rn(x, factor);
}
