// Functions of f32 values whose results are rounded to f16 at once: the halves that math.cuh's functions end as, in fewer steps.
//
// What is left out decides only results that no f16 tells apart: powers of two that are no normal f32, quotients of numbers whose
// reciprocal is none. Every other step is that of math.cuh. benches/cuda/math_halves.cu holds them against each other for every f32.
#pragma once

#include "math.cuh"

// e^x where -87 <= x <= 88: there the power of two is added to the exponent. Of a NaN it is some number.
__device__ __forceinline__ float exponential_of_normal(float x) {
    const float t = __fmaf_rn(x, 1.44269504f, ROUND_MAGIC);
    const float n = __fsub_rn(t, ROUND_MAGIC);
    float r = __fmaf_rn(n, -0.693147181f, x);
    r = __fmaf_rn(n, 1.9046542e-9f, r);
    float q = __fmaf_rn(1.9891017e-4f, r, 0.0013933674f);
    q = __fmaf_rn(q, r, 0.0083333105f);
    q = __fmaf_rn(q, r, 0.041666463f);
    q = __fmaf_rn(q, r, 0.16666667f);
    q = __fmaf_rn(q, r, 0.5f);
    const float p = __fadd_rn(__fmaf_rn(__fmul_rn(r, r), q, r), 1.0f);
    return __uint_as_float(__float_as_uint(p) + (__float_as_uint(t) << 23));
}

// 1 / x, correctly rounded, of a number from 1 on whose reciprocal is normal; of a larger one something below 2^-125.
__device__ __forceinline__ float reciprocal_of_normal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return __fmaf_rn(y, __fmaf_rn(-x, y, 1.0f), y);
}

__device__ __forceinline__ float silu_of_half(float x) {
    const float s = reciprocal_of_normal(__fadd_rn(1.0f, exponential_of_normal(fminf(fmaxf(negative(x), -87.0f), 88.0f))));
    // Behind that the exact quotient is 0 or too small for the product to be told from 0; of -infinity it is NaN.
    return __fmul_rn(x, x < -88.0f ? 0.0f : s);
}

__device__ __forceinline__ float gelu_of_half(float x) {
    const float half = __fmul_rn(x, 0.5f), scaled = __fmul_rn(x, 0.707106781f);
    const float a = fminf(4.0f, fabsf(scaled));
    const float z = __fmul_rn(a, a);
    float p = __fmaf_rn(-6.090369e-4f, z, 0.005011965f);
    p = __fmaf_rn(p, z, -0.02677891f);
    p = __fmaf_rn(p, z, 0.11282141f);
    p = __fmaf_rn(p, z, -0.37612525f);
    p = __fmaf_rn(p, z, 0.12837915f);
    const float small = __fmaf_rn(p, a, a);
    float q = __fmaf_rn(1.043287e-5f, a, -3.1485577e-4f);
    q = __fmaf_rn(q, a, 0.003610333f);
    q = __fmaf_rn(q, a, -0.023694549f);
    q = __fmaf_rn(q, a, 0.10615903f);
    q = __fmaf_rn(q, a, 0.63519806f);
    q = __fmaf_rn(q, a, 1.1286371f);
    const float large = __fsub_rn(1.0f, exponential_of_normal(negative(__fmul_rn(a, q))));
    return __fmaf_rn(half, with_sign(a < 0.9f ? small : large, scaled), half);
}

__device__ __forceinline__ float gelu_tanh_of_half(float x) {
    const float half = __fmul_rn(x, 0.5f);
    const float argument = __fmul_rn(x, __fmaf_rn(__fmul_rn(x, x), 0.035677407f, 0.7978846f));
    const float a = fabsf(argument), z = __fmul_rn(a, a);
    float p = __fmaf_rn(0.0022925576f, z, -0.00834378f);
    p = __fmaf_rn(p, z, 0.021768868f);
    p = __fmaf_rn(p, z, -0.053959254f);
    p = __fmaf_rn(p, z, 0.13333304f);
    p = __fmaf_rn(p, z, -0.33333334f);
    const float small = __fmaf_rn(__fmul_rn(p, z), a, a);
    // Twice a reciprocal is the quotient of 2: both are rounded alike.
    const float d = __fadd_rn(exponential_of_normal(fminf(__fadd_rn(a, a), 80.0f)), 1.0f);
    const float large = __fmaf_rn(-2.0f, reciprocal_of_normal(d), 1.0f);
    return __fmaf_rn(half, with_sign(a < 0.625f ? small : large, argument), half);
}
