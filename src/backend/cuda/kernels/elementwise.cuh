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

// What every launch needs: what stands before the tail's calls, and behind them.
constexpr u32 ELEMENTWISE_FRONT = sizeof(View) + sizeof(TailCall) + 16, ELEMENTWISE_BACK = sizeof(Divisor) * MAX_RANK + 24;

static_assert(sizeof(Elementwise) == 88 + 152 + 1080 + 72 + 24, "mirrored in bind/elementwise.rs");
