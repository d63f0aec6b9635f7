// Scores as weights: what the kernels of attention on tensor cores share.
#pragma once

#include "types.cuh"

constexpr float LOG2_E = 1.44269504f;

__device__ __forceinline__ float lowest() { return __uint_as_float(0xff800000u); }

__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// What a maximum is subtracted as: a row whose keys are all masked so far has none.
__device__ __forceinline__ float finite(float greatest) { return greatest == lowest() ? 0.0f : greatest; }
