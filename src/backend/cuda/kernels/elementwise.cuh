// What a launch of elementwise functions is given.
#pragma once

#include "divide.cuh"
#include "tail.cuh"

constexpr u32 ELEMENTWISE_THREADS = 256;

struct Elementwise {
    View y;
    TailCall head;               // both inputs in memory
    Tail tail;
    Divisor extents[MAX_RANK];   // of the axes; [group] in groups of 8
    u32 length;                  // of axis `group`, in elements
    u32 copy;                    // the head is its first input as it is
    u32 count;                   // groups
    u32 tiles;                   // of ELEMENTWISE_THREADS groups, or so many times the groups of a thread
    u32 group;                   // the axis along which a thread's eight elements lie
    u32 padding;
};

static_assert(sizeof(Elementwise) == 88 + 152 + 1080 + 72 + 24, "mirrored in bind/elementwise.rs");

// Asks for the cache line of an element, so that it is near when somebody loads it.
__device__ __forceinline__ void touch(u64 address) {
    u16 unused;
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(unused) : "l"(address));
}

// Has what the calls behind the head read in memory asked for at once: a chain comes to one operand after the other, each far away.
// `element_at` says where a thread's elements of an operand begin.
template <typename ElementAt>
__device__ __forceinline__ void touch_operands(const Tail& tail, ElementAt element_at) {
#pragma unroll 1
    for (u32 index = 0; index < tail.calls; ++index) {
        const TailCall& call = tail.call[index];
        if (call.function < TAIL_ADD) continue;
        const auto ask = [&](const TailOperand& o) {
            if (o.source == FROM_MEMORY) element_at(o, [&](i64 element) { touch(o.address + (o.dtype == F16 ? 2 : 4) * element); });
        };
        ask(call.a);
        ask(call.b);
    }
}
