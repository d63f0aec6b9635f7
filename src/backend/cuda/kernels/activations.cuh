// Activation functions whose results are rounded to f16: a few instructions each, from the hardware's approximate exponential
// and reciprocal, instead of the correctly rounded steps of math.cuh.
//
// Of every f16 they differ by at most one unit in the last place of f16 from the correctly rounded value, subnormal results
// included: before rounding, they are off by less than 2^-13 of the result where that is a normal f16, and by less than 2^-25
// where it is subnormal. NaN stays NaN. At -infinity, where exact arithmetic multiplies by 0, `brief_silu` and
// `brief_gelu_tanh` are NaN as those of math.cuh; `brief_gelu` is -0, its limit.
//
// Which function an operator's tail takes depends on the operator alone, so that all of its tactics give the same bits.
#pragma once

#include "math.cuh"

constexpr float LOG2_E = 1.44269504f;

// 2^x within 2 units in the last place of f32; results and arguments below its normal numbers are 0.
__device__ __forceinline__ float brief_power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1 / x within 1 unit, likewise.
__device__ __forceinline__ float brief_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1 / (1 + 2^x).
__device__ __forceinline__ float brief_logistic(float x) { return brief_reciprocal(__fadd_rn(1.0f, brief_power_of_two(x))); }

__device__ __forceinline__ float brief_sigmoid(float x) { return brief_logistic(__fmul_rn(x, -LOG2_E)); }

__device__ __forceinline__ float brief_silu(float x) { return __fmul_rn(x, brief_sigmoid(x)); }

// Near zero a polynomial, where the difference would cancel: minimax in x^2 of (tanh(x) / x - 1) / x^2 for |x| <= 1/2.
__device__ __forceinline__ float brief_tangent(float x) {
    const float a = absolute(x), z = __fmul_rn(a, a);
    float p = __fmaf_rn(z, -0.0447506f, 0.1320536f);
    p = __fmaf_rn(p, z, -0.3332816f);
    const float small = __fmaf_rn(__fmul_rn(p, z), a, a);
    const float large = __fmaf_rn(-2.0f, brief_logistic(__fmul_rn(a, 2.0f * LOG2_E)), 1.0f);
    return with_sign(a < 0.5f ? small : large, x);
}

// max(x, 0) - t Q(t), where t = |x| and Q is the upper tail of the normal distribution. Its binary logarithm is smooth: a
// minimax polynomial of degree 5 for 0 <= t <= 5.75, its error weighted by what the result's rounding forgives; so Q has a
// small relative error, and the result too where x is negative. Behind 5.75 the product rounds to 0.
__device__ __forceinline__ float brief_gelu(float x) {
    // Signs of operands cost no instructions of their own here.
    const float t = fminf(fabsf(x), 5.75f);
    float p = __fmaf_rn(t, -3.33261621e-4f, 5.95093355e-3f);
    p = __fmaf_rn(p, t, -4.86512810e-2f);
    p = __fmaf_rn(p, t, -4.63564583e-1f);
    p = __fmaf_rn(p, t, -1.14943184f);
    p = __fmaf_rn(p, t, -1.00010252f);
    float positive;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(positive) : "f"(x), "f"(0.0f));
    return __fmaf_rn(-t, brief_power_of_two(p), positive);
}

// x times the logistic function of 2 sqrt(2 / pi) (x + 0.044715 x^3).
__device__ __forceinline__ float brief_gelu_tanh(float x) {
    constexpr float LINEAR = -2.0f * LOG2_E * 0.797884561f;
    const float factor = __fmaf_rn(__fmul_rn(x, x), LINEAR * 0.044715f, LINEAR);
    return __fmul_rn(x, brief_logistic(__fmul_rn(x, factor)));
}
