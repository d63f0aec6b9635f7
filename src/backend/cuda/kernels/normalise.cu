// Layer normalisation along one axis, with any layout and tail.
//
// Of f32 as on the CPU, sixteen threads a row: the sum, then the sum of the squared differences from the mean, each in sixteen
// partial sums by the position modulo sixteen, folded in halves. Rows may have any length; the first values of a thread stay in
// registers between the sums. Of halves in the order of normalise_order.cuh, a warp a row, or a block a row of more than a
// period. Results go eight neighbours at a time, so that the tail reads its scale and shift in whole groups.
#include "chain.cuh"
#include "generic.cuh"
#include "normalise_order.cuh"

struct Normalise {
    Generic common;  // the box has one position along the axis; tiles are of the rows that a block takes at once
    View x;
    u32 extent;      // of the axis
    u32 axis;
    float epsilon;
    float count;     // 1 / extent
};

static_assert(sizeof(Normalise) == sizeof(Generic) + 88 + 16, "mirrored in bind/normalise.rs");

constexpr u32 LANES = 16;
constexpr u32 KEPT = 4;  // values of a thread in registers

// What a row's values have taken from them, and what the differences are then divided by or, of halves, multiplied by.
struct Moments {
    float mean;
    float scale;
};

// Partial sums of 16 lanes folded in halves: lane 0's result, in all lanes.
__device__ __forceinline__ float folded_down(float value) {
#pragma unroll
    for (u32 half = LANES / 2; half > 0; half /= 2) value = __fadd_rn(value, __shfl_down_sync(0xffffffffu, value, half, LANES));
    return __shfl_sync(0xffffffffu, value, 0, LANES);
}

// Of the row of f32 that begins at element `from`; `lane` of its sixteen.
__device__ __forceinline__ Moments of_floats(const Normalise& p, i64 from, u32 lane) {
    const float count = static_cast<float>(p.extent);
    const i64 step = p.x.strides[p.axis];
    const auto value = [&](u32 i) { return *pointer_to<float>(p.x.address, from + static_cast<i64>(i) * step); };
    float kept[KEPT];
#pragma unroll
    for (u32 k = 0; k < KEPT; ++k) kept[k] = lane + k * LANES < p.extent ? value(lane + k * LANES) : 0.0f;
    // Every value of this thread, in order.
    const auto each = [&](auto take) {
#pragma unroll
        for (u32 k = 0; k < KEPT; ++k) {
            if (lane + k * LANES < p.extent) take(kept[k]);
        }
#pragma unroll 4
        for (u32 i = lane + KEPT * LANES; i < p.extent; i += LANES) take(value(i));
    };
    float sum = 0.0f;
    each([&](float x) { sum = __fadd_rn(sum, x); });
    const float mean = __fdiv_rn(folded_down(sum), count);
    sum = 0.0f;
    each([&](float x) {
        const float difference = __fsub_rn(x, mean);
        sum = __fmaf_rn(difference, difference, sum);
    });
    return {mean, __fsqrt_rn(__fadd_rn(__fdiv_rn(folded_down(sum), count), p.epsilon))};
}

// The values of a place of the row from position `first` on; 0 behind the row's end.
__device__ __forceinline__ void load_place(const Normalise& p, i64 from, u32 first, u32 count, float (&v)[EACH]) {
    const i64 step = p.x.strides[p.axis];
    load_run(p.x.address, p.x.dtype, from + static_cast<i64>(first) * step, step, count, v);
}

// Of the row of halves that begins at element `from`, which is the block's, or the warp's alone.
__device__ __forceinline__ Moments of_halves(const Normalise& p, i64 from, bool whole) {
    __shared__ float shared[2][RUNS][RUNS][32];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const auto total = [&](bool squares, float mean) {
        float(&places)[RUNS][32] = shared[squares][whole ? 0 : warp];
        // A warp that has a row to itself has the places of all runs.
#pragma unroll 1
        for (u32 run = whole ? warp : 0; run < (whole ? warp + 1 : RUNS); ++run) {
            float sums[EACH] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
            for (u32 first = run * RUN + lane * EACH; first < p.extent; first += PERIOD) {
                float v[EACH];
                const u32 count = p.extent - first < EACH ? p.extent - first : EACH;
                load_place(p, from, first, count, v);
#pragma unroll
                for (u32 k = 0; k < EACH; ++k) {
                    if (k < count) sums[k] = taken(squares, mean, sums[k], v[k]);
                }
            }
            places[run][lane] = in_order(sums);
        }
        __syncthreads();
        return folded<32>(four_runs(places[0][lane], places[1][lane], places[2][lane], places[3][lane]));
    };
    const float mean = __fmul_rn(total(false, 0.0f), p.count);
    return {mean, reciprocal_deviation(total(true, mean), p.count, p.epsilon)};
}

extern "C" __global__ void __launch_bounds__(NORMALISE_THREADS) normalise(const __grid_constant__ Normalise p) {
    wait_for_predecessors();
    release_successors();
    const Generic& g = p.common;
    const bool halves = p.x.dtype == F16;
    const bool whole = halves && p.extent > PERIOD;
    const u32 threads = whole ? NORMALISE_THREADS : halves ? 32 : LANES;  // of a row
    const u32 thread = threadIdx.x % threads;
    const i64 y_step = g.y.strides[p.axis];
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 row = tile * (NORMALISE_THREADS / threads) + threadIdx.x / threads;
        // Threads without a row take part in the exchange of the others.
        const bool present = row < g.box.count;
        u32 at[MAX_RANK];
        coordinates(g.box, present ? row : 0, at);
        const i64 from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
        const Moments moments = halves ? of_halves(p, from, whole) : of_floats(p, from, thread);
        if (!present) continue;
        for (u32 first = thread * EACH; first < p.extent; first += threads * EACH) {
            const u32 count = p.extent - first < EACH ? p.extent - first : EACH;
            float v[EACH];
            load_place(p, from, first, count, v);
#pragma unroll
            for (u32 k = 0; k < EACH; ++k) {
                const float difference = __fsub_rn(v[k], moments.mean);
                v[k] = halves ? __fmul_rn(difference, moments.scale) : __fdiv_rn(difference, moments.scale);
            }
            u32 here[MAX_RANK];
#pragma unroll
            for (u32 axis = 0; axis < MAX_RANK; ++axis) here[axis] = axis == p.axis ? first : at[axis];
            tail_run(g.tail, v, count, here, p.axis);
            store_run(g.y.address, g.y.dtype, to + static_cast<i64>(first) * y_step, count, v, y_step);
        }
    }
}
