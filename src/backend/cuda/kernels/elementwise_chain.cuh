// Chains of functions, walked call by call: how operands are loaded and what a call does is the caller's.
#pragma once

#include "elementwise.cuh"

// `load(operand, v)` brings an operand's values of a thread; `apply(call, halves, a, b)` makes `a` the function of both, or of itself, with
// `halves` where its results are rounded to f16 before anything else is done with them. The head is the first step, so that what reads
// operands stands here once.
template <u32 N, typename Load, typename Apply>
__device__ __forceinline__ void walk_chain(const Elementwise& p, Load load, Apply apply, float (&values)[N]) {
    float other[N] = {};
#pragma unroll
    for (u32 i = 0; i < N; ++i) values[i] = 0.0f;
    // Values that are read later than by the next call; most chains have none, and then this is never touched.
    float kept[MAX_TAIL][N];
    const u32 calls = p.tail.calls;
#pragma unroll 1
    for (u32 step = 0; step <= calls; ++step) {
        const bool head = step == 0;
        const TailCall& call = head ? p.head : p.tail.call[step - 1];
        // What the step before has come to is in its place.
        const auto read = [&](const TailOperand& o, float(&v)[N]) {
            if (o.source == FROM_MEMORY) {
                load(o, v);
            } else if (o.source != step - 1) {
#pragma unroll
                for (u32 i = 0; i < N; ++i) v[i] = kept[o.source][i];
            }
        };
        const bool copies = head && p.copy;
        if (!copies && call.function >= TAIL_ADD) {
#pragma unroll
            for (u32 i = 0; i < N; ++i) other[i] = values[i];
            read(call.b, other);
        }
        read(call.a, values);
        const u32 rounded = head ? p.tail.head_rounded : call.rounded;
        if (!copies) apply(call, step == calls ? p.y.dtype == F16 : rounded != 0, values, other);
        if (step == calls) break;
        tail_round(rounded, values);
        if (head ? p.tail.head_kept : call.kept) {
#pragma unroll
            for (u32 i = 0; i < N; ++i) kept[step][i] = values[i];
        }
    }
}

// Sums, differences, products and bounds, in a few hundred instructions: that of any function is thousands, of which a launch needs few, far
// from each other; and a launch of few values takes as long as its instructions take to come. The host knows which functions there are:
// `is_brief` of bind/elementwise.rs.
struct Brief {
    template <u32 N>
    __device__ __forceinline__ void operator()(const TailCall& call, bool, float (&a)[N], const float (&b)[N]) const {
        const auto each = [&](auto f) {
#pragma unroll
            for (u32 i = 0; i < N; ++i) a[i] = f(a[i], b[i]);
        };
        switch (call.function) {
            case TAIL_ADD: return each([](float x, float y) { return __fadd_rn(x, y); });
            case TAIL_SUB: return each([](float x, float y) { return __fsub_rn(x, y); });
            case TAIL_MUL: return each([](float x, float y) { return __fmul_rn(x, y); });
            case TAIL_RELU: return each([](float x, float) { return greater(0.0f, x); });
            default: return each([&](float x, float) { return clip(x, call.first, call.second); });
        }
    }
};
