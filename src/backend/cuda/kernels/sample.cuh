// Where samples of pictures lie, and what the elements around a place weigh. The CPU's numbers, operation for operation.
#pragma once

#include "types.cuh"

enum Sampling : u32 { NEAREST, LINEAR, CUBIC };

// Elements around a place along an axis.
template <Sampling SAMPLING>
constexpr u32 ELEMENTS = SAMPLING == NEAREST ? 1 : SAMPLING == LINEAR ? 2 : 4;

// The host's numbers (bind/places.rs).
enum Outside : u32 { ZERO = 0, BORDER = 1, REFLECTION = 2 };

// What lies outside, and where a grid's -1 and 1 lie.
struct SampleRule {
    u32 outside;
    u32 align_corners;
};

template <u32 COUNT>
struct Around {
    i32 positions[COUNT];  // -1 for zeros outside
    float weights[COUNT];
};

__device__ __forceinline__ float mirrored(float place, float low, float high) {
    const float range = __fsub_rn(high, low);
    const float beyond = place < low ? __fsub_rn(low, place) : __fsub_rn(place, high);
    const float turns = truncf(__fdiv_rn(beyond, range));
    const float rest = __fsub_rn(beyond, __fmul_rn(turns, range));
    const bool even = __fmul_rn(truncf(__fmul_rn(turns, 0.5f)), 2.0f) == turns;
    const float image = (place < low) == even ? __fadd_rn(low, rest) : __fsub_rn(high, rest);
    return fminf(fmaxf(image, low), high);
}

// Keys' cubic convolution with -0.75: of an element less than one away, and of one farther.
__device__ __forceinline__ float inner(float t) {
    return __fadd_rn(__fmul_rn(__fmul_rn(__fsub_rn(__fmul_rn(1.25f, t), 2.25f), t), t), 1.0f);
}
__device__ __forceinline__ float outer(float t) {
    const float first = __fmul_rn(__fadd_rn(__fmul_rn(-0.75f, t), 3.75f), t);
    return __fadd_rn(__fmul_rn(__fadd_rn(first, -6.0f), t), 3.0f);
}

template <Sampling SAMPLING>
__device__ __forceinline__ Around<ELEMENTS<SAMPLING>> around(const SampleRule& rule, float place, u32 extent) {
    const float last = __fsub_rn(static_cast<float>(extent), 1.0f);
    const float low = rule.align_corners ? 0.0f : -0.5f, high = rule.align_corners ? last : __fadd_rn(last, 0.5f);
    if constexpr (SAMPLING == NEAREST) place = rintf(place);
    if (!(place >= low && place <= high)) {
        if (rule.outside == BORDER) {
            place = fminf(fmaxf(place, 0.0f), last);
        } else if (rule.outside == REFLECTION) {
            place = mirrored(place, low, high);
        } else if (!(fabsf(place) < 1073741824.0f)) {
            place = -8.0f;
        }
    }
    const float below = floorf(place), t = __fsub_rn(place, below);
    i32 first = static_cast<i32>(below);
    Around<ELEMENTS<SAMPLING>> a;
    if constexpr (SAMPLING == NEAREST) {
        a.weights[0] = 1.0f;
    } else if constexpr (SAMPLING == LINEAR) {
        a.weights[0] = __fsub_rn(1.0f, t);
        a.weights[1] = t;
    } else {
        first -= 1;
        a.weights[0] = outer(__fadd_rn(t, 1.0f));
        a.weights[1] = inner(t);
        a.weights[2] = inner(__fsub_rn(1.0f, t));
        a.weights[3] = outer(__fsub_rn(2.0f, t));
    }
#pragma unroll
    for (i32 k = 0; k < static_cast<i32>(ELEMENTS<SAMPLING>); ++k) {
        i32 i = first + k;
        if (i < 0 || i >= static_cast<i32>(extent)) {
            if (rule.outside == ZERO) {
                i = -1;
            } else if (rule.outside == BORDER) {
                i = i < 0 ? 0 : static_cast<i32>(extent) - 1;
            } else {
                i = static_cast<i32>(fminf(fmaxf(mirrored(static_cast<float>(i), low, high), 0.0f), last));
            }
        }
        a.positions[k] = i;
    }
    return a;
}

__device__ __forceinline__ float centred(const SampleRule& rule, float g, u32 extent) {
    const float size = static_cast<float>(extent);
    if (rule.align_corners) return __fmul_rn(__fmul_rn(__fadd_rn(g, 1.0f), 0.5f), __fsub_rn(size, 1.0f));
    return __fmul_rn(__fsub_rn(__fmul_rn(__fadd_rn(g, 1.0f), size), 1.0f), 0.5f);
}
