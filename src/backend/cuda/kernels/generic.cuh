// The frame of the generic kernels: one thread computes one element of the output, whatever the layouts and types.
#pragma once

#include "divide.cuh"
#include "scalar.cuh"

constexpr u32 GENERIC_THREADS = 128;

// The elements of a chunk, numbered so that neighbours in memory have neighbouring numbers.
struct Box {
    u32 count;
    u32 channels_last;           // axis 1 runs fastest, then the others from the last on
    u32 start[MAX_RANK];         // first coordinate, by axis
    Divisor extents[MAX_RANK];   // 1 beyond the rank
};

struct Generic {
    View y;
    Box box;
    Tail tail;
    u32 tiles;  // of GENERIC_THREADS elements
    u32 padding;
};

static_assert(sizeof(Box) == 104 && sizeof(Generic) == 88 + 104 + 1080 + 8, "mirrored in bind/frame.rs");

__device__ __forceinline__ void coordinates(const Box& box, u32 index, u32 (&at)[MAX_RANK]) {
    u32 rest = index;
    const auto take = [&](u32 axis) {
        const u32 above = divide(rest, box.extents[axis]);
        at[axis] = box.start[axis] + rest - above * box.extents[axis].divisor;
        rest = above;
    };
    if (box.channels_last) take(1);
#pragma unroll
    for (u32 i = 0; i < MAX_RANK; ++i) {
        const u32 axis = MAX_RANK - 1 - i;
        if (axis != 1 || !box.channels_last) take(axis);
    }
}

// Computes every element of the chunk: `head` gives the head's value at coordinates.
template <typename Head>
__device__ __forceinline__ void every_element(const Generic& p, Head head) {
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = tile * GENERIC_THREADS + threadIdx.x;
        if (index >= p.box.count) continue;
        u32 at[MAX_RANK];
        coordinates(p.box, index, at);
        const Scalar value = tail_scalar(p.tail, head(at), at);
        store_scalar(p.y.address, p.y.dtype, element_of(p.y.strides, at), value);
    }
}
