// An operator's tail: the elementwise functions behind its head, of the head's value and of tensors in memory.
//
//     tail_run<N>(tail, values, count, at, axis)   values 0..count of N neighbours along `axis`, the first at coordinates `at`
//     tail_pixel<N>(tail, values, count, n, c, h, w)   the same for neighbouring channels of a pixel of `[N, C, H, W]`
//     tail_apply(tail, value, n, c, h, w)          one value
//
// They take the head's values in f32 and leave the last call's, which the caller rounds to the output's type by storing
// them. Nothing happens where the tail is empty. All values of the operator are floats; tails of integers belong to the
// generic kernel alone. Coordinates are those of the whole output, not of a chunk.
#pragma once

#include "math.cuh"
#include "power.cuh"
#include "view.cuh"

constexpr u32 MAX_TAIL = 7;

// Numbered as in bind/tail.rs.
enum TailFunction : u32 {
    TAIL_RELU = 0,
    TAIL_LEAKY_RELU = 1,  // first: slope
    TAIL_CLIP = 2,        // first, second: bounds
    TAIL_SIGMOID = 3,
    TAIL_HARD_SIGMOID = 4,  // first, second: alpha, beta
    TAIL_HARD_SWISH = 5,
    TAIL_SILU = 6,
    TAIL_TANH = 7,
    TAIL_EXP = 8,
    TAIL_SQRT = 9,
    TAIL_NEG = 10,
    TAIL_ERF = 11,
    TAIL_GELU = 12,
    TAIL_GELU_TANH = 13,
    TAIL_ROUND = 14,
    TAIL_LOG = 15,
    TAIL_ABS = 16,
    TAIL_FLOOR = 17,
    TAIL_CEIL = 18,
    // Of two values.
    TAIL_ADD = 32,
    TAIL_SUB = 33,
    TAIL_MUL = 34,
    TAIL_DIV = 35,
    TAIL_POW = 36,
    TAIL_MIN = 37,
    TAIL_MAX = 38,
    TAIL_PRELU = 39,
};

// `TailOperand::source` of a tensor in memory; other sources are values of the operator: 0 the head's, i the call's i.
constexpr u32 FROM_MEMORY = 0xffffffffu;

struct TailOperand {
    u64 address;  // element [0, .., 0]
    u32 source;
    u32 dtype;
    i64 strides[MAX_RANK];  // in elements; 0 along axes on which the tensor repeats itself
};

struct TailCall {
    u32 function;
    u32 rounded;  // the value is rounded to f16 before it is read; never set for the last call
    u32 kept;     // a call behind the next reads the value
    u32 dtype;    // of the value
    float first;
    float second;
    TailOperand a;
    TailOperand b;
};

struct Tail {
    u32 calls;         // behind the head, at most MAX_TAIL
    u32 head_rounded;  // as TailCall's, of the head's value
    u32 head_kept;
    u32 head_dtype;
    TailCall call[MAX_TAIL];
};

static_assert(sizeof(TailOperand) == 64 && sizeof(TailCall) == 152 && sizeof(Tail) == 16 + 152 * MAX_TAIL,
              "mirrored in bind/tail.rs");

// A function of two floats; powers are computed in f64.
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

// The rarer functions, which are long, out of line and one value at a time: kernels stay small and keep their registers.
__device__ __noinline__ float unary_rare(u32 function, float x) {
    switch (function) {
        case TAIL_TANH: return hyperbolic_tangent(x);
        case TAIL_ERF: return error_function(x);
        case TAIL_GELU: return gelu(x);
        case TAIL_GELU_TANH: return gelu_tanh(x);
        case TAIL_LOG: return logarithm(x);
        case TAIL_SQRT: return __fsqrt_rn(x);
        default: return exponential(x);
    }
}

template <u32 N>
__device__ __forceinline__ void tail_unary(const TailCall& call, float (&v)[N]) {
    switch (call.function) {
        case TAIL_RELU:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = greater(0.0f, v[i]);
            break;
        case TAIL_LEAKY_RELU:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = v[i] < 0.0f ? __fmul_rn(v[i], call.first) : v[i];
            break;
        case TAIL_CLIP:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = clip(v[i], call.first, call.second);
            break;
        case TAIL_HARD_SIGMOID:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = hard_sigmoid(v[i], call.first, call.second);
            break;
        case TAIL_HARD_SWISH:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = __fmul_rn(v[i], hard_sigmoid(v[i], 1.0f / 6.0f, 0.5f));
            break;
        case TAIL_SIGMOID:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = sigmoid(v[i]);
            break;
        case TAIL_SILU:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = __fmul_rn(v[i], sigmoid(v[i]));
            break;
        case TAIL_NEG:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = negative(v[i]);
            break;
        case TAIL_ABS:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = absolute(v[i]);
            break;
        case TAIL_ROUND:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = round_even(v[i]);
            break;
        case TAIL_FLOOR:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = round_down(v[i]);
            break;
        case TAIL_CEIL:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = round_up(v[i]);
            break;
        default:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = unary_rare(call.function, v[i]);
            break;
    }
}

template <u32 N>
__device__ __forceinline__ void tail_binary(u32 function, const float (&a)[N], const float (&b)[N], float (&v)[N]) {
    switch (function) {
        case TAIL_ADD:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = __fadd_rn(a[i], b[i]);
            break;
        case TAIL_MUL:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = __fmul_rn(a[i], b[i]);
            break;
        case TAIL_POW:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = static_cast<float>(power(a[i], b[i]));
            break;
        default:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = binary_float(function, a[i], b[i]);
            break;
    }
}

// The `count` values of an operand along `axis` from `at` on; what lies behind them is 0.
template <u32 N>
__device__ __forceinline__ void tail_load(const TailOperand& o, u32 count, const u32 (&at)[MAX_RANK], u32 axis, float (&v)[N]) {
    const i64 element = element_of(o.strides, at);
    const i64 step = o.strides[axis];
    if (step == 0) {
        const float one = load_float(o.address, o.dtype, element);
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = one;
        return;
    }
    if constexpr (N == 8) {
        const u64 address = o.address + 2 * element;
        if (step == 1 && o.dtype == F16 && count == N && address % 16 == 0) {
            const uint4 bits = *reinterpret_cast<const uint4*>(address);
            const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                v[2 * i] = half_to_float(static_cast<u16>(words[i]));
                v[2 * i + 1] = half_to_float(static_cast<u16>(words[i] >> 16));
            }
            return;
        }
    }
#pragma unroll
    for (u32 i = 0; i < N; ++i) v[i] = i < count ? load_float(o.address, o.dtype, element + static_cast<i64>(i) * step) : 0.0f;
}

template <u32 N>
__device__ __forceinline__ void tail_round(u32 rounded, float (&v)[N]) {
    if (!rounded) return;
#pragma unroll
    for (u32 i = 0; i < N; ++i) v[i] = rounded_to_half(v[i]);
}

template <u32 N>
__device__ __forceinline__ void tail_run(const Tail& tail, float (&values)[N], u32 count, const u32 (&at)[MAX_RANK], u32 axis) {
    if (tail.calls == 0) return;
    // Values that are read later than by the next call; most tails have none, and then this is never touched.
    float kept[MAX_TAIL][N];
    tail_round(tail.head_rounded, values);
    if (tail.head_kept) {
#pragma unroll
        for (u32 i = 0; i < N; ++i) kept[0][i] = values[i];
    }
    for (u32 index = 0; index < tail.calls; ++index) {
        const TailCall& call = tail.call[index];
        const auto read = [&](const TailOperand& o, float(&v)[N]) {
            if (o.source == FROM_MEMORY) {
                tail_load(o, count, at, axis, v);
            } else {
#pragma unroll
                for (u32 i = 0; i < N; ++i) v[i] = o.source == index ? values[i] : kept[o.source][i];
            }
        };
        float a[N];
        read(call.a, a);
        if (call.function < TAIL_ADD) {
            tail_unary(call, a);
#pragma unroll
            for (u32 i = 0; i < N; ++i) values[i] = a[i];
        } else {
            float b[N];
            read(call.b, b);
            tail_binary(call.function, a, b, values);
        }
        tail_round(call.rounded, values);
        if (call.kept && index + 1 < MAX_TAIL) {
#pragma unroll
            for (u32 i = 0; i < N; ++i) kept[index + 1][i] = values[i];
        }
    }
}

template <u32 N>
__device__ __forceinline__ void tail_pixel(const Tail& tail, float (&values)[N], u32 count, u32 n, u32 c, u32 h, u32 w) {
    const u32 at[MAX_RANK] = {n, c, h, w, 0, 0};
    tail_run(tail, values, count, at, 1);
}

__device__ __forceinline__ float tail_apply(const Tail& tail, float value, u32 n, u32 c, u32 h, u32 w) {
    float values[1] = {value};
    tail_pixel(tail, values, 1, n, c, h, w);
    return values[0];
}
