// An operator's tail: the elementwise functions behind its head, of the head's value and of tensors in memory.
//
//     tail_run<N>(tail, values, count, at, axis)   values 0..count of N neighbours along `axis`, the first at coordinates `at`
//     tail_pixel<N>(tail, values, count, n, c, h, w)   the same for neighbouring channels of a pixel of `[N, C, H, W]`
//     tail_apply(tail, value, n, c, h, w)          one value
//
// They take the head's values in f32 and leave the last call's, which the caller rounds to the output's type by storing
// them. Nothing happens where the tail is empty. All values and tensors of the operator are floats; tails of integers belong
// to the generic kernel alone. Coordinates are those of the whole output, not of a chunk.
#pragma once

#include "math.cuh"
#include "power.cuh"
#include "run.cuh"

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

// The functions that are long, out of line and two values at a time: kernels stay small and keep their registers.
__device__ __forceinline__ float2 long_unary(u32 function, float2 x) {
    const auto each = [&](auto f) { return make_float2(f(x.x), f(x.y)); };
    switch (function) {
        case TAIL_SIGMOID: return each([](float v) { return sigmoid(v); });
        case TAIL_SILU: return each([](float v) { return __fmul_rn(v, sigmoid(v)); });
        case TAIL_TANH: return each([](float v) { return hyperbolic_tangent(v); });
        case TAIL_ERF: return each([](float v) { return error_function(v); });
        case TAIL_GELU: return each([](float v) { return gelu(v); });
        case TAIL_GELU_TANH: return each([](float v) { return gelu_tanh(v); });
        case TAIL_LOG: return each([](float v) { return logarithm(v); });
        case TAIL_SQRT: return each([](float v) { return __fsqrt_rn(v); });
        case TAIL_ROUND: return each([](float v) { return round_even(v); });
        case TAIL_FLOOR: return each([](float v) { return round_down(v); });
        case TAIL_CEIL: return each([](float v) { return round_up(v); });
        default: return each([](float v) { return exponential(v); });
    }
}

__device__ __noinline__ float4 long_unary(u32 function, float4 x) {
#pragma unroll 1
    for (u32 i = 0; i < 2; ++i) {
        const float2 y = long_unary(function, make_float2(x.x, x.y));
        x = make_float4(x.z, x.w, y.x, y.y);
    }
    return x;
}

__device__ __noinline__ float4 long_binary(u32 function, float4 a, float4 b) {
#pragma unroll 1
    for (u32 i = 0; i < 4; ++i) {
        const float y = function == TAIL_DIV ? __fdiv_rn(a.x, b.x) : static_cast<float>(power(a.x, b.x));
        a = make_float4(a.y, a.z, a.w, y);
        b = make_float4(b.y, b.z, b.w, b.x);
    }
    return a;
}

// Values `i` to `i + 3`; what lies behind the last is 1.
template <u32 N>
__device__ __forceinline__ float4 four(const float (&v)[N], u32 i) {
    return make_float4(v[i], i + 1 < N ? v[i + 1] : 1.0f, i + 2 < N ? v[i + 2] : 1.0f, i + 3 < N ? v[i + 3] : 1.0f);
}

template <u32 N>
__device__ __forceinline__ void take_four(float (&v)[N], u32 i, float4 y) {
    v[i] = y.x;
    if (i + 1 < N) v[i + 1] = y.y;
    if (i + 2 < N) v[i + 2] = y.z;
    if (i + 3 < N) v[i + 3] = y.w;
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
        case TAIL_NEG:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = negative(v[i]);
            break;
        case TAIL_ABS:
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[i] = absolute(v[i]);
            break;
        default:
#pragma unroll
            for (u32 i = 0; i < N; i += 4) take_four(v, i, long_unary(call.function, four(v, i)));
            break;
    }
}

template <u32 N>
__device__ __forceinline__ void tail_binary(u32 function, const float (&a)[N], const float (&b)[N], float (&v)[N]) {
    switch (function) {
        case TAIL_DIV:
        case TAIL_POW:
#pragma unroll
            for (u32 i = 0; i < N; i += 4) take_four(v, i, long_binary(function, four(a, i), four(b, i)));
            break;
        default:
#pragma unroll
            for (u32 i = 0; i < N; ++i) {
                const float x = a[i], y = b[i];
                v[i] = function == TAIL_ADD   ? __fadd_rn(x, y)
                       : function == TAIL_MUL ? __fmul_rn(x, y)
                       : function == TAIL_SUB ? __fsub_rn(x, y)
                       : function == TAIL_PRELU ? (x < 0.0f ? __fmul_rn(x, y) : x)
                       : x != x                 ? x
                       : function == TAIL_MIN   ? lesser(x, y)
                                                : greater(x, y);
            }
            break;
    }
}

// The `count` values of an operand along `axis` from `at` on; what lies behind them is 0.
template <u32 N>
__device__ __forceinline__ void tail_load(const TailOperand& o, u32 count, const u32 (&at)[MAX_RANK], u32 axis, float (&v)[N]) {
    load_run(o.address, o.dtype, element_of(o.strides, at), o.strides[axis], count, v);
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
        // One copy of what reads serves both operands.
        float first[N], last[N] = {};
        const u32 operands = call.function < TAIL_ADD ? 1 : 2;
#pragma unroll 1
        for (u32 o = 0; o < operands; ++o) {
#pragma unroll
            for (u32 i = 0; i < N; ++i) first[i] = last[i];
            read(o == 0 ? call.a : call.b, last);
        }
        if (operands == 1) {
            tail_unary(call, last);
#pragma unroll
            for (u32 i = 0; i < N; ++i) values[i] = last[i];
        } else {
            tail_binary(call.function, first, last, values);
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
