// Functions of chains whose values are rounded to f16 at once: the halves that tail.cuh's functions end as, in fewer steps.
//
// benches/cuda/math_halves.cu holds them against each other for every f32.
#pragma once

#include "math_halves.cuh"
#include "tail.cuh"

__device__ __forceinline__ float sigmoid_of_half(float x) {
    const float s = reciprocal_of_normal(__fadd_rn(1.0f, exponential_of_normal(fminf(fmaxf(negative(x), -87.0f), 88.0f))));
    return x != x ? x : s;  // bounds lose a NaN
}

__device__ __forceinline__ float tangent_of_half(float x) {
    const float a = fabsf(x), z = __fmul_rn(a, a);
    float p = __fmaf_rn(0.0022925576f, z, -0.00834378f);
    p = __fmaf_rn(p, z, 0.021768868f);
    p = __fmaf_rn(p, z, -0.053959254f);
    p = __fmaf_rn(p, z, 0.13333304f);
    p = __fmaf_rn(p, z, -0.33333334f);
    const float small = __fmaf_rn(__fmul_rn(p, z), a, a);
    // Twice a reciprocal is the quotient of 2: both are rounded alike.
    const float d = __fadd_rn(exponential_of_normal(fminf(__fadd_rn(a, a), 80.0f)), 1.0f);
    const float large = __fmaf_rn(-2.0f, reciprocal_of_normal(d), 1.0f);
    return x != x ? x : with_sign(a < 0.625f ? small : large, x);
}

// A function of one value; with `halves` its results are rounded to f16 before anything else is done with them.
template <u32 N>
__device__ __forceinline__ void chain_unary(const TailCall& call, bool halves, float (&v)[N]) {
    const auto each = [&](auto f) {
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = f(v[i]);
    };
    switch (halves ? call.function : TAIL_RELU) {
        case TAIL_SIGMOID: return each([](float x) { return sigmoid_of_half(x); });
        case TAIL_SILU: return each([](float x) { return silu_of_half(x); });
        case TAIL_TANH: return each([](float x) { return tangent_of_half(x); });
        case TAIL_GELU: return each([](float x) { return gelu_of_half(x); });
        case TAIL_GELU_TANH: return each([](float x) { return gelu_tanh_of_half(x); });
        default: return tail_unary(call, v);
    }
}
