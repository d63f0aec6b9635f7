// The order in which layer normalisation of halves sums.
//
// The 8 neighbours from position 8 t on belong to place t modulo 128 of a row, of more than LONG_ROW positions modulo 512. A place
// adds up what it has of each of its 8 positions modulo all places' from the row's front to its end, then these 8 sums in order.
// Sums of the runs of 32 places are folded in halves, and then those of the 32 places of a run. Every kernel sums so, whatever the
// layout and however many lanes a row takes, since places without values add 0. The mean comes of the sum, the deviation of the
// squared differences from it; both are multiplied by the reciprocal of the count, and differences by the reciprocal of the
// deviation. From the CPU's quotients that differs by roundings of f32.
#pragma once

#include "types.cuh"

constexpr u32 NORMALISE_THREADS = 128;
constexpr u32 EACH = 8;                    // neighbours of a place
constexpr u32 RUN = 32 * EACH;             // positions of a run of places
constexpr u32 RUNS = 4;
constexpr u32 PERIOD = RUNS * RUN;
constexpr u32 LONG_ROW = 8192;
constexpr u32 LONG_THREADS = 512;
constexpr u32 LONG_RUNS = 16;

static_assert(NORMALISE_THREADS == RUNS * 32 && LONG_THREADS == LONG_RUNS * 32, "a block has a thread for each place");

__device__ __forceinline__ float reciprocal_deviation(float squares, float count, float epsilon) {
    return __fdiv_rn(1.0f, __fsqrt_rn(__fmaf_rn(squares, count, epsilon)));
}

// The sums of LANES lanes folded in halves, in all of them.
template <u32 LANES>
__device__ __forceinline__ float folded(float value) {
#pragma unroll
    for (u32 half = LANES / 2; half > 0; half /= 2) value = __fadd_rn(value, __shfl_xor_sync(0xffffffffu, value, half));
    return value;
}

// Adds the value, or the squared difference from `mean`, to a sum.
__device__ __forceinline__ float taken(bool squares, float mean, float sum, float v) {
    const float difference = __fsub_rn(v, mean);
    return squares ? __fmaf_rn(difference, difference, sum) : __fadd_rn(sum, v);
}

__device__ __forceinline__ float in_order(const float (&sums)[EACH]) {
    float sum = sums[0];
#pragma unroll
    for (u32 k = 1; k < EACH; ++k) sum = __fadd_rn(sum, sums[k]);
    return sum;
}

__device__ __forceinline__ float four_runs(float a, float b, float c, float d) { return __fadd_rn(__fadd_rn(a, c), __fadd_rn(b, d)); }
