// Runs of floats in memory, of f16 or f32, as f32: 16 bytes at a time where they lie so, else one by one.
#pragma once

#include "view.cuh"

// Eight halves as floats.
__device__ __forceinline__ void widen(uint4 bits, float (&v)[8]) {
    const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        v[2 * i] = half_to_float(static_cast<u16>(words[i]));
        v[2 * i + 1] = half_to_float(static_cast<u16>(words[i] >> 16));
    }
}

// The first `count` of N values from `element` on, `step` elements apart; behind them 0, or the one value where the step is 0.
template <u32 N>
__device__ __forceinline__ void load_run(u64 base, u32 dtype, i64 element, i64 step, u32 count, float (&v)[N]) {
    if (step == 0) {
        const float one = dtype == F16 ? half_to_float(*pointer_to<u16>(base, element)) : *pointer_to<float>(base, element);
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = one;
        return;
    }
    if (dtype == F16) {
        const u16* from = pointer_to<u16>(base, element);
        if constexpr (N == 8) {
            if (step == 1 && count == N && reinterpret_cast<u64>(from) % 16 == 0) {
                widen(*reinterpret_cast<const uint4*>(from), v);
                return;
            }
        }
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = i < count ? half_to_float(from[static_cast<i64>(i) * step]) : 0.0f;
        return;
    }
    const float* from = pointer_to<float>(base, element);
    if constexpr (N == 8) {
        if (step == 1 && count == N && reinterpret_cast<u64>(from) % 16 == 0) {
            const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
            v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
            v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
            return;
        }
    }
#pragma unroll
    for (u32 i = 0; i < N; ++i) v[i] = i < count ? from[static_cast<i64>(i) * step] : 0.0f;
}

__device__ __forceinline__ u32 two_rounded(float low, float high) {
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// Stores the first `count` of 8 floats, `step` elements apart, as f16 or f32.
__device__ __forceinline__ void store_run(u64 base, u32 dtype, i64 element, u32 count, const float (&v)[8], i64 step = 1) {
    if (dtype == F16) {
        u16* to = reinterpret_cast<u16*>(base) + element;
        if (step == 1 && count == 8 && reinterpret_cast<u64>(to) % 16 == 0) {
            *reinterpret_cast<uint4*>(to) = make_uint4(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]), two_rounded(v[4], v[5]),
                                                       two_rounded(v[6], v[7]));
            return;
        }
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            if (i < count) to[static_cast<i64>(i) * step] = float_to_half(v[i]);
        }
        return;
    }
    float* to = reinterpret_cast<float*>(base) + element;
    if (step == 1 && count == 8 && reinterpret_cast<u64>(to) % 16 == 0) {
        reinterpret_cast<float4*>(to)[0] = make_float4(v[0], v[1], v[2], v[3]);
        reinterpret_cast<float4*>(to)[1] = make_float4(v[4], v[5], v[6], v[7]);
        return;
    }
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        if (i < count) to[static_cast<i64>(i) * step] = v[i];
    }
}
