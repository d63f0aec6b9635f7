// Powers from the basic operations of f64 alone, with the bits of the CPU backend's (kernels/generic/power.rs).
#pragma once

#include "types.cuh"

__device__ __forceinline__ double truncated(double x) {
    double y;
    asm("cvt.rzi.f64.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

// `2^n` for -1022 <= n <= 1023.
__device__ __forceinline__ double two_to(i32 n) { return __longlong_as_double(static_cast<i64>(n + 1023) << 52); }

// The binary logarithm of a positive, finite number: exponent plus `2 atanh((m - 1) / (m + 1)) / ln 2`.
__device__ __forceinline__ double binary_logarithm(double x) {
    i32 exponent = -1023;
    if (x < 2.2250738585072014e-308) {
        x *= 18014398509481984.0;
        exponent -= 54;
    }
    const u64 bits = static_cast<u64>(__double_as_longlong(x));
    exponent += static_cast<i32>(bits >> 52);
    double m = __longlong_as_double(static_cast<i64>((bits & ((1ull << 52) - 1)) | (1023ull << 52)));
    if (m > 1.41421356237309504880) {
        m *= 0.5;
        exponent += 1;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double series = 0.0;
#pragma unroll
    for (i32 k = 11; k >= 0; --k) series = series * z + 1.0 / static_cast<double>(2 * k + 1);
    return static_cast<double>(exponent) + 2.0 * s * series / 0.693147180559945309417;
}

__device__ __forceinline__ double power_of_two(double t) {
    if (t > 1100.0) return __longlong_as_double(0x7ff0000000000000ll);
    if (t < -1100.0) return 0.0;
    // To the nearest integer, halves away from zero.
    double n = truncated(t);
    if (fabs(t - n) >= 0.5) n += t < 0.0 ? -1.0 : 1.0;
    const double r = (t - n) * 0.693147180559945309417;
    double p = 1.0;
#pragma unroll 1
    for (i32 k = 15; k >= 1; --k) p = 1.0 + p * r / static_cast<double>(k);
    const i32 first = static_cast<i32>(n) >> 1;
    return p * two_to(first) * two_to(static_cast<i32>(n) - first);
}

// `x^y` for `x >= 0`.
__device__ __forceinline__ double positive_power(double x, double y) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    if (x == 0.0 || x == infinity || fabs(y) == infinity) {
        if (x == 1.0) return 1.0;
        return (x > 1.0) == (y > 0.0) ? infinity : 0.0;
    }
    return power_of_two(y * binary_logarithm(x));
}

// `x` to the power `y`; the special cases are those of C's `pow`. Not inlined: it is long, and rarely called.
__device__ __noinline__ double power(double x, double y) {
    constexpr double WHOLE = 64.0;
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y) return __longlong_as_double(0x7ff8000000000000ll);
    const bool whole = truncated(y) == y;
    if (whole && fabs(y) <= WHOLE) {
        double result = 1.0, square = x;
        for (u32 rest = static_cast<u32>(fabs(y)); rest > 0; rest >>= 1) {
            if (rest & 1) result *= square;
            square *= square;
        }
        return y < 0.0 ? 1.0 / result : result;
    }
    const double magnitude = y == 0.5 ? __dsqrt_rn(fabs(x)) : positive_power(fabs(x), y);
    const bool endless = fabs(y) == infinity;
    const bool negative_base = x < 0.0 && fabs(x) != infinity;
    if (!negative_base) return magnitude;
    if (!whole && !endless) return __longlong_as_double(0x7ff8000000000000ll);
    const bool odd = !endless && y - 2.0 * truncated(y * 0.5) != 0.0;
    return odd ? -magnitude : magnitude;
}
