// Softmax over few elements, as over the labels of a pixel: a thread a row, which reads it once and keeps it in registers.
//
// With the bits of softmax.cu: `e^(x - max)` goes into sixteen partial sums by the position modulo sixteen, which are folded in
// halves. Positions behind the row's end add zeros there, which change nothing.
#include "chain.cuh"
#include "generic.cuh"
#include "parameters.cuh"

struct SoftmaxShort {
    Generic common;  // the box has one position along the axis; tiles are of GENERIC_THREADS rows; floats, without a tail
    View x;
    i64 x_step;      // along the axis
    i64 y_step;
    u32 extent;      // of the axis
    u32 axis;
};

static_assert(sizeof(SoftmaxShort) == sizeof(Generic) + 88 + 24, "mirrored in bind/softmax.rs");

constexpr u32 PARTIALS = 16;

// N / 2 words in runs of two or four.
template <u32 WORDS>
__device__ __forceinline__ void load_words(u32 (&words)[WORDS], u64 address) {
    if constexpr (WORDS < 4) {
        const uint2 run = *reinterpret_cast<const uint2*>(address);
        words[0] = run.x, words[1] = run.y;
    } else {
#pragma unroll
        for (u32 i = 0; i < WORDS; i += 4) {
            const uint4 run = *reinterpret_cast<const uint4*>(address + i * 4);
            words[i] = run.x, words[i + 1] = run.y, words[i + 2] = run.z, words[i + 3] = run.w;
        }
    }
}

template <u32 WORDS>
__device__ __forceinline__ void store_words(const u32 (&words)[WORDS], u64 address) {
    if constexpr (WORDS < 4) {
        *reinterpret_cast<uint2*>(address) = make_uint2(words[0], words[1]);
    } else {
#pragma unroll
        for (u32 i = 0; i < WORDS; i += 4) *reinterpret_cast<uint4*>(address + i * 4) = make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
    }
}

// Rows of up to N elements.
template <u32 N>
__device__ __forceinline__ void softmax_short(const SoftmaxShort& p) {
    constexpr u32 SUMS = N < PARTIALS ? N : PARTIALS;
    bring_around(p, p.common.tail);
    wait_for_predecessors();
    release_successors();
    const Generic& g = p.common;
    // Rows of whole runs of halves are loaded in runs, and stored.
    constexpr u32 RUN = N < 8 ? N : 8;
    const bool runs = p.extent == N && p.x_step == 1 && p.y_step == 1 && p.x.dtype == F16 && g.y.dtype == F16;
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 row = tile * GENERIC_THREADS + threadIdx.x;
        if (row >= g.box.count) continue;
        u32 at[MAX_RANK];
        coordinates(g.box, row, at);
        const i64 from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
        const u64 source = p.x.address + 2 * from, target = g.y.address + 2 * to;
        const bool whole = runs && (source | target) % (2 * RUN) == 0;
        float v[N];
        // All loads are under way before the first is waited for.
        if (whole) {
            u32 words[N / 2];
            load_words(words, source);
#pragma unroll
            for (u32 i = 0; i < N; i += 2) {
                v[i] = half_to_float(static_cast<u16>(words[i / 2])), v[i + 1] = half_to_float(static_cast<u16>(words[i / 2] >> 16));
            }
        } else if (p.x.dtype == F16) {
            u16 halves[N];
#pragma unroll
            for (u32 i = 0; i < N; ++i) halves[i] = i < p.extent ? *pointer_to<u16>(p.x.address, from + static_cast<i64>(i) * p.x_step) : 0;
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = half_to_float(halves[i]);
        } else {
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = i < p.extent ? *pointer_to<float>(p.x.address, from + static_cast<i64>(i) * p.x_step) : 0.0f;
        }
        float greatest = __uint_as_float(0xff800000u);
#pragma unroll
        for (u32 i = 0; i < N; ++i) {
            if (i < p.extent) greatest = greater(v[i], greatest);
        }
        float sums[SUMS] = {};
#pragma unroll
        for (u32 i = 0; i < N; ++i) {
            v[i] = i < p.extent ? exponential(__fsub_rn(v[i], greatest)) : 0.0f;
            sums[i % SUMS] = __fadd_rn(sums[i % SUMS], v[i]);
        }
#pragma unroll
        for (u32 half = SUMS / 2; half > 0; half /= 2) {
#pragma unroll
            for (u32 i = 0; i < half; ++i) sums[i] = __fadd_rn(sums[i], sums[i + half]);
        }
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = __fdiv_rn(v[i], sums[0]);
        if (whole) {
            u32 words[N / 2];
#pragma unroll
            for (u32 i = 0; i < N; i += 2) words[i / 2] = two_rounded(v[i], v[i + 1]);
            store_words(words, target);
            continue;
        }
#pragma unroll
        for (u32 i = 0; i < N; ++i) {
            if (i >= p.extent) continue;
            const i64 element = to + static_cast<i64>(i) * p.y_step;
            if (g.y.dtype == F16) {
                *(reinterpret_cast<u16*>(g.y.address) + element) = float_to_half(v[i]);
            } else {
                *(reinterpret_cast<float*>(g.y.address) + element) = v[i];
            }
        }
    }
}

#define SOFTMAX(NAME, N) \
    extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) NAME(const __grid_constant__ SoftmaxShort p) { softmax_short<N>(p); }

SOFTMAX(softmax_4, 4)
SOFTMAX(softmax_8, 8)
SOFTMAX(softmax_16, 16)
SOFTMAX(softmax_32, 32)
