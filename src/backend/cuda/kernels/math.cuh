// The elementwise functions of one and two f32 values, with the bits of the CPU backend's kernels.
//
// Every step is one correctly rounded operation, in the order of backend/cpu/simd/math.rs, whose polynomials these are:
// so the sources must be compiled without contraction (-fmad=false) and without fast division or flushed subnormals.
// A comparison with a NaN is false, and the order of operands says what then comes out.
#pragma once

#include "types.cuh"

__device__ __forceinline__ float greater(float a, float b) { return a > b ? a : b; }
__device__ __forceinline__ float lesser(float a, float b) { return a < b ? a : b; }
__device__ __forceinline__ float clip(float x, float low, float high) { return lesser(high, greater(low, x)); }

__device__ __forceinline__ float hard_sigmoid(float x, float alpha, float beta) {
    return clip(__fmaf_rn(x, alpha, beta), 0.0f, 1.0f);
}

__device__ __forceinline__ float absolute(float x) { return __uint_as_float(__float_as_uint(x) & 0x7fffffffu); }
__device__ __forceinline__ float negative(float x) { return __uint_as_float(__float_as_uint(x) ^ 0x80000000u); }

// `a`, whose sign bit is clear, with the sign of `sign`.
__device__ __forceinline__ float with_sign(float a, float sign) {
    return __uint_as_float(__float_as_uint(a) | (__float_as_uint(sign) & 0x80000000u));
}

// Adding this to a float of small magnitude leaves the nearest integer in its low mantissa bits.
constexpr float ROUND_MAGIC = 12582912.0f;

// `p * 2^n`, rounded once, where `t = n + ROUND_MAGIC`: in two factors, neither of which overflows.
__device__ __forceinline__ float scale_by_power(float p, float t) {
    const i32 n = static_cast<i32>(__float_as_uint(t) - __float_as_uint(ROUND_MAGIC));
    const i32 first = n >> 1;
    const float a = __uint_as_float(static_cast<u32>(first + 127) << 23);
    const float b = __uint_as_float(static_cast<u32>(n - first + 127) << 23);
    return __fmul_rn(__fmul_rn(p, a), b);
}

// Below -104 the result rounds to zero, above 89 it is infinite.
__device__ __forceinline__ float exponential(float x) {
    x = greater(-104.0f, x);
    x = lesser(89.0f, x);
    const float t = __fmaf_rn(x, 1.44269504f, ROUND_MAGIC);
    const float n = __fsub_rn(t, ROUND_MAGIC);
    float r = __fmaf_rn(n, -0.693147181f, x);
    r = __fmaf_rn(n, 1.9046542e-9f, r);
    float q = __fmaf_rn(1.9891017e-4f, r, 0.0013933674f);
    q = __fmaf_rn(q, r, 0.0083333105f);
    q = __fmaf_rn(q, r, 0.041666463f);
    q = __fmaf_rn(q, r, 0.16666667f);
    q = __fmaf_rn(q, r, 0.5f);
    const float p = __fmaf_rn(__fmul_rn(r, r), q, r);
    return scale_by_power(__fadd_rn(p, 1.0f), t);
}

__device__ __forceinline__ float sigmoid(float x) { return __fdiv_rn(1.0f, __fadd_rn(1.0f, exponential(negative(x)))); }

__device__ __forceinline__ float hyperbolic_tangent(float x) {
    const float a = absolute(x);
    const float z = __fmul_rn(a, a);
    float p = __fmaf_rn(0.0022925576f, z, -0.00834378f);
    p = __fmaf_rn(p, z, 0.021768868f);
    p = __fmaf_rn(p, z, -0.053959254f);
    p = __fmaf_rn(p, z, 0.13333304f);
    p = __fmaf_rn(p, z, -0.33333334f);
    const float small = __fmaf_rn(__fmul_rn(p, z), a, a);
    const float large = __fsub_rn(1.0f, __fdiv_rn(2.0f, __fadd_rn(exponential(__fadd_rn(a, a)), 1.0f)));
    return with_sign(a < 0.625f ? small : large, x);
}

__device__ __forceinline__ float error_function(float x) {
    const float a = lesser(4.0f, absolute(x));
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
    const float large = __fsub_rn(1.0f, exponential(negative(__fmul_rn(a, q))));
    return with_sign(a < 0.9f ? small : large, x);
}

__device__ __forceinline__ float gelu(float x) {
    const float half = __fmul_rn(x, 0.5f);
    return __fmaf_rn(half, error_function(__fmul_rn(x, 0.707106781f)), half);
}

__device__ __forceinline__ float gelu_tanh(float x) {
    const float half = __fmul_rn(x, 0.5f);
    const float factor = __fmaf_rn(__fmul_rn(x, x), 0.035677407f, 0.7978846f);
    return __fmaf_rn(half, hyperbolic_tangent(__fmul_rn(x, factor)), half);
}

__device__ __forceinline__ float logarithm(float x) {
    constexpr float LEAST = 1.17549435e-38f;     // normal
    constexpr float GREATEST = 3.40282347e+38f;  // finite
    const float normal = x < LEAST ? __fmul_rn(x, 8388608.0f) : x;
    float e = __fsub_rn(static_cast<float>(__float_as_uint(normal) >> 23), 127.0f);
    const float m = scale_by_power(normal, __fsub_rn(ROUND_MAGIC, e));
    constexpr float HIGH = 1.41421356f;
    const float f = __fsub_rn(HIGH < m ? __fmul_rn(m, 0.5f) : m, 1.0f);
    e = __fadd_rn(e, HIGH < m ? 1.0f : 0.0f);
    e = __fsub_rn(e, x < LEAST ? 23.0f : 0.0f);
    float r = __fmaf_rn(-0.07634501f, f, 0.12761581f);
    r = __fmaf_rn(r, f, -0.13160183f);
    r = __fmaf_rn(r, f, 0.14201757f);
    r = __fmaf_rn(r, f, -0.16623357f);
    r = __fmaf_rn(r, f, 0.20001227f);
    r = __fmaf_rn(r, f, -0.2500082f);
    r = __fmaf_rn(r, f, 0.3333333f);
    float tail = __fmul_rn(__fmaf_rn(r, f, -0.5f), __fmul_rn(f, f));
    tail = __fmaf_rn(e, -2.1219444e-4f, tail);
    float y = __fmaf_rn(e, 0.6933594f, __fadd_rn(f, tail));
    y = GREATEST < x ? x : y;
    const float nan = __uint_as_float(0x7fc00000u);
    const float rest = x < 0.0f ? nan : (x != x ? x : __uint_as_float(0xff800000u));
    return 0.0f < x ? y : rest;
}

// To the nearest integer, of two the even one; downwards; upwards. The sign stays.
__device__ __forceinline__ float round_even(float x) {
    float y;
    asm("cvt.rni.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float round_down(float x) {
    float y;
    asm("cvt.rmi.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float round_up(float x) {
    float y;
    asm("cvt.rpi.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// To an integer: truncated and saturated, NaN to 0.
__device__ __forceinline__ i32 float_to_int(float x) {
    i32 y;
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ u32 float_to_byte(float x) {
    u32 y;
    asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y < 255u ? y : 255u;
}

// A value that has been stored as f16 and read back.
__device__ __forceinline__ float rounded_to_half(float x) { return half_to_float(float_to_half(x)); }
