// Values of any element type, one at a time, and tails over them: what the generic kernels compute in.
//
// As on the CPU, floats are computed in f32 and all other types in i32; what a value's own type cannot hold is lost when
// the value is stored, or read by the next call.
#pragma once

#include "tail.cuh"

// A function of two floats, powers excepted.
__device__ __forceinline__ float binary_float(u32 function, float a, float b) {
    switch (function) {
        case TAIL_ADD: return __fadd_rn(a, b);
        case TAIL_SUB: return __fsub_rn(a, b);
        case TAIL_MUL: return __fmul_rn(a, b);
        case TAIL_DIV: return __fdiv_rn(a, b);
        case TAIL_MIN: return a != a ? a : lesser(a, b);
        case TAIL_MAX: return a != a ? a : greater(a, b);
        default: return a < 0.0f ? __fmul_rn(a, b) : a;
    }
}

// A function of one float.
__device__ __forceinline__ float unary_float(u32 function, float x, float first, float second) {
    switch (function) {
        case TAIL_RELU: return greater(0.0f, x);
        case TAIL_LEAKY_RELU: return x < 0.0f ? __fmul_rn(x, first) : x;
        case TAIL_CLIP: return clip(x, first, second);
        case TAIL_SIGMOID: return sigmoid(x);
        case TAIL_HARD_SIGMOID: return hard_sigmoid(x, first, second);
        case TAIL_HARD_SWISH: return __fmul_rn(x, hard_sigmoid(x, 1.0f / 6.0f, 0.5f));
        case TAIL_SILU: return __fmul_rn(x, sigmoid(x));
        case TAIL_TANH: return hyperbolic_tangent(x);
        case TAIL_EXP: return exponential(x);
        case TAIL_SQRT: return __fsqrt_rn(x);
        case TAIL_NEG: return negative(x);
        case TAIL_ERF: return error_function(x);
        case TAIL_GELU: return gelu(x);
        case TAIL_GELU_TANH: return gelu_tanh(x);
        case TAIL_ROUND: return round_even(x);
        case TAIL_LOG: return logarithm(x);
        case TAIL_ABS: return absolute(x);
        case TAIL_FLOOR: return round_down(x);
        default: return round_up(x);
    }
}

// f32 bits of a float type, else an i32.
struct Scalar {
    u32 bits;
    bool real;
};

__device__ __forceinline__ bool is_real(u32 dtype) { return dtype == F32 || dtype == F16; }
__device__ __forceinline__ Scalar of_float(float x) { return Scalar{__float_as_uint(x), true}; }
__device__ __forceinline__ Scalar of_int(i32 x) { return Scalar{static_cast<u32>(x), false}; }
__device__ __forceinline__ float as_float(Scalar x) {
    return x.real ? __uint_as_float(x.bits) : static_cast<float>(static_cast<i32>(x.bits));
}
__device__ __forceinline__ i32 as_int(Scalar x) {
    return x.real ? float_to_int(__uint_as_float(x.bits)) : static_cast<i32>(x.bits);
}
__device__ __forceinline__ double as_double(Scalar x) {
    return x.real ? static_cast<double>(__uint_as_float(x.bits)) : static_cast<double>(static_cast<i32>(x.bits));
}

__device__ __forceinline__ Scalar load_scalar(u64 address, u32 dtype, i64 element) {
    switch (dtype) {
        case F32: return of_float(*pointer_to<float>(address, element));
        case F16: return of_float(half_to_float(*pointer_to<u16>(address, element)));
        case I32: return of_int(*pointer_to<i32>(address, element));
        default: return of_int(*pointer_to<u8>(address, element));
    }
}

// The value as a value of `dtype`: floats become integers by truncating and saturating, truth values by `x != 0`; integers
// become bytes by wrapping.
__device__ __forceinline__ Scalar converted(Scalar x, u32 dtype, bool rounded) {
    switch (dtype) {
        case F32: return of_float(as_float(x));
        case F16: return of_float(rounded ? rounded_to_half(as_float(x)) : as_float(x));
        case I32: return of_int(as_int(x));
        case U8: return of_int(x.real ? static_cast<i32>(float_to_byte(__uint_as_float(x.bits))) : static_cast<i32>(x.bits & 255u));
        default: return of_int(x.real ? __uint_as_float(x.bits) != 0.0f : x.bits != 0);
    }
}

__device__ __forceinline__ void store_scalar(u64 address, u32 dtype, i64 element, Scalar x) {
    const Scalar y = converted(x, dtype, false);
    switch (dtype) {
        case F32: *(reinterpret_cast<float*>(address) + element) = __uint_as_float(y.bits); break;
        case F16: *(reinterpret_cast<u16*>(address) + element) = float_to_half(__uint_as_float(y.bits)); break;
        case I32: *(reinterpret_cast<i32*>(address) + element) = static_cast<i32>(y.bits); break;
        default: *(reinterpret_cast<u8*>(address) + element) = static_cast<u8>(y.bits); break;
    }
}

__device__ __forceinline__ i32 binary_int(u32 function, i32 a, i32 b) {
    const u32 x = static_cast<u32>(a), y = static_cast<u32>(b);
    switch (function) {
        case TAIL_ADD: return static_cast<i32>(x + y);
        case TAIL_SUB: return static_cast<i32>(x - y);
        case TAIL_MUL: return static_cast<i32>(x * y);
        // The lowest number by -1 wraps.
        case TAIL_DIV: return b == 0 ? 0 : b == -1 ? static_cast<i32>(0u - x) : a / b;
        case TAIL_MIN: return a < b ? a : b;
        case TAIL_MAX: return a > b ? a : b;
        default: return a < 0 ? static_cast<i32>(x * y) : a;
    }
}

__device__ __forceinline__ i32 double_to_int(double x) {
    i32 y;
    asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(y) : "d"(x));
    return x != x ? 0 : y;
}

// Integers stay integers under the functions that keep them so; under the others they are computed in f32.
__device__ __forceinline__ Scalar unary_scalar(const TailCall& call, Scalar x) {
    if (!x.real) {
        const i32 value = static_cast<i32>(x.bits);
        switch (call.function) {
            case TAIL_RELU: return of_int(value > 0 ? value : 0);
            case TAIL_NEG: return of_int(static_cast<i32>(0u - x.bits));
            case TAIL_ABS: return of_int(value < 0 ? static_cast<i32>(0u - x.bits) : value);
            case TAIL_ROUND:
            case TAIL_FLOOR:
            case TAIL_CEIL: return x;
            case TAIL_CLIP: {
                const i32 low = float_to_int(round_up(call.first)), high = float_to_int(round_down(call.second));
                const i32 raised = value > low ? value : low;
                return of_int(raised < high ? raised : high);
            }
            default: break;
        }
    }
    return of_float(unary_float(call.function, as_float(x), call.first, call.second));
}

__device__ __forceinline__ Scalar binary_scalar(u32 function, Scalar a, Scalar b) {
    if (function == TAIL_POW) {
        const double result = power(as_double(a), as_double(b));
        return a.real ? of_float(static_cast<float>(result)) : of_int(double_to_int(result));
    }
    if (a.real) return of_float(binary_float(function, as_float(a), as_float(b)));
    return of_int(binary_int(function, static_cast<i32>(a.bits), static_cast<i32>(b.bits)));
}

// The operator's value from the head's, at coordinates `at`.
__device__ __forceinline__ Scalar tail_scalar(const Tail& tail, Scalar head, const u32 (&at)[MAX_RANK]) {
    if (tail.calls == 0) return head;
    Scalar values[MAX_TAIL + 1];
    values[0] = converted(head, tail.head_dtype, tail.head_rounded);
    for (u32 index = 0; index < tail.calls; ++index) {
        const TailCall& call = tail.call[index];
        const auto read = [&](const TailOperand& o) {
            return o.source == FROM_MEMORY ? load_scalar(o.address, o.dtype, element_of(o.strides, at)) : values[o.source];
        };
        const Scalar a = read(call.a);
        const Scalar value = call.function < TAIL_ADD ? unary_scalar(call, a) : binary_scalar(call.function, a, read(call.b));
        values[index + 1] = converted(value, call.dtype, call.rounded);
    }
    return values[tail.calls];
}
