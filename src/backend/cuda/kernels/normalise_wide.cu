// Layer normalisation of long rows of halves, scaled and shifted by constants: a block a row, read once.
//
// With the bits of normalise.cu: both sums go into sixteen partial sums by the position modulo sixteen, folded in halves. Sixteen
// lanes add them up from shared memory; everything before and behind is shared out to the whole block.
#include "chain.cuh"
#include "generic.cuh"

struct NormaliseWide {
    Generic common;  // the box has one position along the axis; tiles are rows; the tail is not read
    View x;
    u64 scale;       // f16, side by side
    u64 shift;
    u32 extent;
    float epsilon;
};

static_assert(sizeof(NormaliseWide) == sizeof(Generic) + 88 + 24, "mirrored in bind/normalise.rs");

constexpr u32 LANES = 16;
constexpr u32 WIDE_THREADS = 128;
constexpr u32 EACH = 8;  // neighbours that a thread loads and stores at once

// Partial sums of 16 lanes folded in halves: lane 0's result, in all lanes.
__device__ __forceinline__ float folded(float value) {
#pragma unroll
    for (u32 half = LANES / 2; half > 0; half /= 2) value = __fadd_rn(value, __shfl_down_sync(0xffffffffu, value, half, LANES));
    return __shfl_sync(0xffffffffu, value, 0, LANES);
}

extern __shared__ float values[];

// Neighbours from `first` on that there are.
__device__ __forceinline__ u32 run(u32 extent, u32 first) { return extent - first < EACH ? extent - first : EACH; }

extern "C" __global__ void __launch_bounds__(WIDE_THREADS) normalise_wide(const __grid_constant__ NormaliseWide p) {
    __shared__ float mean_of_row, deviation_of_row;
    const Generic& g = p.common;
    const float count = static_cast<float>(p.extent);
    const u32 own = threadIdx.x * EACH;
    // Most rows have no more elements than the block's threads take at once: their constants are there before the wait.
    float scale[EACH], shift[EACH];
    const auto constants = [&](u32 first) {
        load_run(p.scale, F16, first, 1, run(p.extent, first), scale);
        load_run(p.shift, F16, first, 1, run(p.extent, first), shift);
    };
    if (own < p.extent) constants(own);
    wait_for_predecessors();
    release_successors();
    for (u32 row = blockIdx.x; row < g.tiles; row += gridDim.x) {
        u32 at[MAX_RANK];
        coordinates(g.box, row, at);
        const i64 from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
        __syncthreads();
        for (u32 first = own; first < p.extent; first += WIDE_THREADS * EACH) {
            float v[EACH];
            load_run(p.x.address, F16, from + first, 1, run(p.extent, first), v);
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                if (first + i < p.extent) values[first + i] = v[i];
            }
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            // Both halves of the warp sum the same.
            const u32 lane = threadIdx.x % LANES;
            float sum = 0.0f;
#pragma unroll 8
            for (u32 i = lane; i < p.extent; i += LANES) sum = __fadd_rn(sum, values[i]);
            const float mean = __fdiv_rn(folded(sum), count);
            sum = 0.0f;
#pragma unroll 8
            for (u32 i = lane; i < p.extent; i += LANES) {
                const float difference = __fsub_rn(values[i], mean);
                sum = __fmaf_rn(difference, difference, sum);
            }
            const float deviation = __fsqrt_rn(__fadd_rn(__fdiv_rn(folded(sum), count), p.epsilon));
            if (threadIdx.x == 0) mean_of_row = mean, deviation_of_row = deviation;
        }
        __syncthreads();
        const float mean = mean_of_row, deviation = deviation_of_row;
        for (u32 first = own; first < p.extent; first += WIDE_THREADS * EACH) {
            if (p.extent > WIDE_THREADS * EACH) constants(first);
            float v[EACH];
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                const float x = first + i < p.extent ? values[first + i] : 0.0f;
                const float normal = rounded_to_half(__fdiv_rn(__fsub_rn(x, mean), deviation));
                v[i] = __fadd_rn(rounded_to_half(__fmul_rn(normal, scale[i])), shift[i]);
            }
            store_run(g.y.address, F16, to + first, run(p.extent, first), v);
        }
    }
}
