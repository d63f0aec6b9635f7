// The mean of values weighed by a softmax along an axis: a thread a row. Rows that registers hold are read once, others twice.
//
// The weights are those of softmax.cu: `e^(x - max)`, summed in sixteen partial sums by the position modulo sixteen, which are folded in
// halves. Positions behind the row's end add zeros there, which change nothing, and none to the mean.
#include "chain.cuh"
#include "generic.cuh"
#include "parameters.cuh"

struct Expectation {
    u64 x;         // element [0, .., 0]
    u64 y;
    u64 values;    // one for each position along the axis
    i64 x_step;    // along the axis
    i64 values_step;
    u32 extent;    // of the axis
    u32 tiles;     // of GENERIC_THREADS rows
    u32 constant;  // the values are, so that they are read before the wait
    u32 padding;
    Box box;       // one position along the axis; axes in an order in which rows with neighbouring numbers are near in x
    i64 x_strides[MAX_RANK];
    i64 y_strides[MAX_RANK];
};

static_assert(sizeof(Expectation) == 56 + 104 + 96, "mirrored in bind/expectation.rs");

constexpr u32 PARTIALS = 16;

__device__ __forceinline__ float widened(u16 half) { return half_to_float(half); }
__device__ __forceinline__ float widened(float single) { return single; }

__device__ __forceinline__ void store(u16* to, float value) { *to = float_to_half(value); }
__device__ __forceinline__ void store(float* to, float value) { *to = value; }

// The first `count` of N elements, `step` apart, in runs of 16 bytes where N lie so; behind them zeros. All loads are under way before
// the first is waited for.
template <typename T, u32 N>
__device__ __forceinline__ void load_elements(const T* from, i64 step, u32 count, float (&v)[N]) {
    constexpr u32 PER_WORD = 4 / sizeof(T), WORDS = N / PER_WORD;
    if (count >= N && step == 1 && reinterpret_cast<u64>(from) % 16 == 0) {
        u32 words[WORDS];
#pragma unroll
        for (u32 i = 0; i < WORDS; i += 4) {
            const uint4 run = reinterpret_cast<const uint4*>(from)[i / 4];
            words[i] = run.x, words[i + 1] = run.y, words[i + 2] = run.z, words[i + 3] = run.w;
        }
#pragma unroll
        for (u32 i = 0; i < N; ++i) {
            if constexpr (PER_WORD == 2) {
                v[i] = half_to_float(static_cast<u16>(words[i / 2] >> (i % 2 * 16)));
            } else {
                v[i] = __uint_as_float(words[i]);
            }
        }
        return;
    }
    T raw[N];
#pragma unroll
    for (u32 i = 0; i < N; ++i) raw[i] = i < count ? from[static_cast<i64>(i) * step] : T(0);
#pragma unroll
    for (u32 i = 0; i < N; ++i) v[i] = widened(raw[i]);
}

template <u32 SUMS>
__device__ __forceinline__ float folded(const float (&sums)[SUMS]) {
    if constexpr (SUMS == 1) {
        return sums[0];
    } else {
        float halves[SUMS / 2];
#pragma unroll
        for (u32 i = 0; i < SUMS / 2; ++i) halves[i] = __fadd_rn(sums[i], sums[i + SUMS / 2]);
        return folded(halves);
    }
}

// Calls `each` with every row of a thread, and stores what it gives.
template <typename T, typename Each>
__device__ __forceinline__ void every_row(const Expectation& p, Each each) {
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 row = tile * GENERIC_THREADS + threadIdx.x;
        if (row >= p.box.count) continue;
        u32 at[MAX_RANK];
        coordinates(p.box, row, at);
        store(reinterpret_cast<T*>(p.y) + element_of(p.y_strides, at), each(pointer_to<T>(p.x, element_of(p.x_strides, at))));
    }
}

// Rows of up to N elements.
template <typename T, u32 N>
__device__ __forceinline__ void expectation_short(const Expectation& p) {
    constexpr u32 SUMS = N < PARTIALS ? N : PARTIALS;
    bring_more(p, 0, sizeof(Expectation));
    float values[N];
    if (p.constant) load_elements(pointer_to<T>(p.values, 0), p.values_step, p.extent, values);
    wait_for_predecessors();
    release_successors();
    if (!p.constant) load_elements(pointer_to<T>(p.values, 0), p.values_step, p.extent, values);
    every_row<T>(p, [&](const T* from) {
        float v[N];
        load_elements(from, p.x_step, p.extent, v);
        float greatest = __uint_as_float(0xff800000u);
#pragma unroll
        for (u32 i = 0; i < N; ++i) {
            if (i < p.extent) greatest = greater(v[i], greatest);
        }
        float sums[SUMS] = {}, mean = 0.0f;
#pragma unroll
        for (u32 i = 0; i < N; ++i) {
            const float weight = i < p.extent ? exponential(__fsub_rn(v[i], greatest)) : 0.0f;
            sums[i % SUMS] = __fadd_rn(sums[i % SUMS], weight);
            if (i < p.extent) mean = __fmaf_rn(weight, values[i], mean);
        }
        return __fdiv_rn(mean, folded(sums));
    });
}

// Rows of any length, sixteen elements at a time.
template <typename T>
__device__ __forceinline__ void expectation_long(const Expectation& p) {
    bring_more(p, 0, sizeof(Expectation));
    wait_for_predecessors();
    release_successors();
    every_row<T>(p, [&](const T* from) {
        float greatest = __uint_as_float(0xff800000u);
        for (u32 first = 0; first < p.extent; first += PARTIALS) {
            const u32 count = p.extent - first;
            float v[PARTIALS];
            load_elements(from + static_cast<i64>(first) * p.x_step, p.x_step, count, v);
#pragma unroll
            for (u32 i = 0; i < PARTIALS; ++i) {
                if (i < count) greatest = greater(v[i], greatest);
            }
        }
        float sums[PARTIALS] = {}, mean = 0.0f;
        for (u32 first = 0; first < p.extent; first += PARTIALS) {
            const u32 count = p.extent - first;
            float v[PARTIALS], values[PARTIALS];
            load_elements(from + static_cast<i64>(first) * p.x_step, p.x_step, count, v);
            load_elements(pointer_to<T>(p.values, static_cast<i64>(first) * p.values_step), p.values_step, count, values);
#pragma unroll
            for (u32 i = 0; i < PARTIALS; ++i) {
                const float weight = i < count ? exponential(__fsub_rn(v[i], greatest)) : 0.0f;
                sums[i] = __fadd_rn(sums[i], weight);
                if (i < count) mean = __fmaf_rn(weight, values[i], mean);
            }
        }
        return __fdiv_rn(mean, folded(sums));
    });
}

#define SHORT(NAME, T, N) \
    extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) NAME(const __grid_constant__ Expectation p) { expectation_short<T, N>(p); }
#define LONG(NAME, T) \
    extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) NAME(const __grid_constant__ Expectation p) { expectation_long<T>(p); }

SHORT(expectation_halves_8, u16, 8)
SHORT(expectation_halves_16, u16, 16)
SHORT(expectation_halves_32, u16, 32)
SHORT(expectation_floats_8, float, 8)
SHORT(expectation_floats_16, float, 16)
SHORT(expectation_floats_32, float, 32)
LONG(expectation_halves, u16)
LONG(expectation_floats, float)
