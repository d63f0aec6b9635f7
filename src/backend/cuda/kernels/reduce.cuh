// What the kernels of reductions share: their parameter, the order of sums, and how results are finished.
//
// The reduced elements, in C order, are cut into `splits` ranges of equal length, each summed from its first element to its
// last. The sums of 32 ranges are added in order, and so are the totals of such runs of ranges. How many ranges there are is
// part of the operator's arithmetic class: from its shape alone.
#pragma once

#include "chain.cuh"
#include "generic.cuh"
#include "parameters.cuh"

enum ReduceKind : u32 { REDUCE_MEAN = 0, REDUCE_MAX = 1, REDUCE_SUM = 2, REDUCE_NORM = 3 };

constexpr u32 MAX_SPLITS = 32;
constexpr u32 RUN_STEP = MAX_SPLITS + 4;            // from run to run in shared memory, where each is read in pieces of 16 bytes
constexpr u32 GROUP = 8;                            // neighbours of a thread, or of a row that one load brings

struct Reduce {
    Generic common;     // the box has one position along the axis of neighbours
    View x;             // strides of reduced axes are not read
    i64 steps[3];       // of reduced axes from the innermost on, those that lie as one taken together
    Divisor inner;      // extent of the innermost
    Divisor middle;     // and of the next
    Divisor groups;     // blocks of neighbours
    u32 axis;           // of neighbours that are kept
    u32 first;          // of the chunk's
    u32 neighbours;     // of the chunk
    u32 count;          // reduced elements
    u32 share;          // of a range
    u32 splits;
    u32 kind;
    u32 whole;          // columns: x is f16, its whole groups of neighbours on 16 bytes; else: what is reduced lies side by side
    u32 used;           // ranges that have elements
};

static_assert(sizeof(Reduce) == sizeof(Generic) + 88 + 24 + 36 + 36, "mirrored in bind/reduce.rs");

// The first NaN stays.
__device__ __forceinline__ float larger(float best, float x) { return x > best || (x != x && best == best) ? x : best; }

__device__ __forceinline__ float taken(u32 kind, float sum, float x) {
    return kind == REDUCE_MAX ? larger(sum, x) : kind == REDUCE_NORM ? __fmaf_rn(x, x, sum) : __fadd_rn(sum, x);
}

// What ranges have come to is no longer squared.
__device__ __forceinline__ float joined(u32 kind, float sum, float x) { return kind == REDUCE_MAX ? larger(sum, x) : __fadd_rn(sum, x); }

// From the first reduced element to element `index`.
__device__ __forceinline__ i64 reduced_element(const Reduce& p, u32 index) {
    const u32 rows = divide(index, p.inner), planes = divide(rows, p.middle);
    return (index - rows * p.inner.divisor) * p.steps[0] + (rows - planes * p.middle.divisor) * p.steps[1] + planes * p.steps[2];
}

__device__ __forceinline__ float start_of(u32 kind) { return kind == REDUCE_MAX ? __uint_as_float(0xff800000u) : 0.0f; }

// Joins `ranges` values in order, the first of which is `total`.
template <typename At>
__device__ __forceinline__ float in_order(u32 kind, float total, u32 ranges, At at) {
    if (kind == REDUCE_MAX) {
        for (u32 i = 1; i < ranges; ++i) total = larger(total, at(i));
    } else {
#pragma unroll 8
        for (u32 i = 1; i < ranges; ++i) total = __fadd_rn(total, at(i));
    }
    return total;
}

// Of the run of ranges that begins with `first`, how many have elements.
__device__ __forceinline__ u32 used_of(const Reduce& p, u32 first) {
    const u32 left = p.used > first ? p.used - first : 0;
    return left < MAX_SPLITS ? left : MAX_SPLITS;
}

__device__ __forceinline__ void store_value(const View& y, i64 element, float value) {
    if (y.dtype == F16) {
        *(reinterpret_cast<u16*>(y.address) + element) = float_to_half(value);
    } else {
        *(reinterpret_cast<float*>(y.address) + element) = value;
    }
}

// The head's value from a total.
__device__ __forceinline__ float value_of(const Reduce& p, float total) {
    return p.kind == REDUCE_MEAN ? __fdiv_rn(total, static_cast<float>(p.count)) : p.kind == REDUCE_NORM ? __fsqrt_rn(total) : total;
}

// The head's value from a total, through the tail to where it belongs.
__device__ __forceinline__ void finish(const Reduce& p, float total, const u32 (&at)[MAX_RANK]) {
    const Generic& g = p.common;
    float v[1] = {value_of(p, total)};
    const TailCall& only = g.tail.call[0];
    if (g.tail.calls == 1 && only.function < TAIL_ADD) {
        // What most tails are needs no operands.
        tail_round(g.tail.head_rounded, v);
        tail_unary(only, v);
    } else {
        tail_run(g.tail, v, 1, at, 0);
    }
    store_value(g.y, element_of(g.y.strides, at), v[0]);
}

// Values of the head through a tail of one function at most, of one value.
template <u32 N>
__device__ __forceinline__ void through_function(const Tail& tail, float (&v)[N]) {
    if (tail.calls == 0) return;
    tail_round(tail.head_rounded, v);
    const TailCall& only = tail.call[0];
    if (only.function == TAIL_CLIP) {
        // What most are comes without the menu's jumps, whose targets lie far from here.
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = clip(v[i], only.first, only.second);
    } else {
        tail_unary(only, v);
    }
}

// The sum of a run of ranges in order, on 16 bytes. Of a range without elements it is 0, and of none -0: it changes nothing.
__device__ __forceinline__ float sum_of_run(const float* line) {
    const float4* const fours = reinterpret_cast<const float4*>(line);
    float4 v[MAX_SPLITS / 4];
#pragma unroll
    for (u32 i = 0; i < MAX_SPLITS / 4; ++i) v[i] = fours[i];
    float total = v[0].x;
#pragma unroll
    for (u32 i = 0; i < MAX_SPLITS / 4; ++i) {
        if (i > 0) total = __fadd_rn(total, v[i].x);
        total = __fadd_rn(__fadd_rn(__fadd_rn(total, v[i].y), v[i].z), v[i].w);
    }
    return total;
}
