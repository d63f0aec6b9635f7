// Softmax over few elements, as over the labels of a pixel: a thread a row, which reads it once and keeps it in registers.
//
// With the bits of softmax.cu: `e^(x - max)` goes into sixteen partial sums by the position modulo sixteen, which are folded in
// halves. Positions behind the row's end add zeros there, which change nothing.
#include "chain.cuh"
#include "generic.cuh"

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

// Rows of up to N elements.
template <u32 N>
__device__ __forceinline__ void softmax_short(const SoftmaxShort& p) {
    constexpr u32 SUMS = N < PARTIALS ? N : PARTIALS;
    wait_for_predecessors();
    release_successors();
    const Generic& g = p.common;
    // A run of four halves is a load, and a store.
    const bool four = N == 4 && p.extent == 4 && p.x_step == 1 && p.y_step == 1 && p.x.dtype == F16 && g.y.dtype == F16;
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 row = tile * GENERIC_THREADS + threadIdx.x;
        if (row >= g.box.count) continue;
        u32 at[MAX_RANK];
        coordinates(g.box, row, at);
        const i64 from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
        const u64 source = p.x.address + 2 * from, target = g.y.address + 2 * to;
        const bool whole = four && (source | target) % 8 == 0;
        float v[N];
        if (whole) {
            const uint2 bits = *reinterpret_cast<const uint2*>(source);
            v[0] = half_to_float(static_cast<u16>(bits.x)), v[1] = half_to_float(static_cast<u16>(bits.x >> 16));
            v[2] = half_to_float(static_cast<u16>(bits.y)), v[3] = half_to_float(static_cast<u16>(bits.y >> 16));
        } else {
#pragma unroll
            for (u32 i = 0; i < N; ++i) {
                const i64 element = from + static_cast<i64>(i) * p.x_step;
                if (i < p.extent) v[i] = p.x.dtype == F16 ? half_to_float(*pointer_to<u16>(p.x.address, element)) : *pointer_to<float>(p.x.address, element);
            }
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
            *reinterpret_cast<uint2*>(target) = make_uint2(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]));
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
