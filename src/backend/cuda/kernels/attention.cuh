// What the kernels of attention share: where a tile's matrices lie.
#pragma once

#include "divide.cuh"
#include "view.cuh"

constexpr u32 LEADING = MAX_RANK - 2;

// Elements from a chunk's first matrices to those with a number among the chunk's.
template <u32 COUNT>
struct Matrices {
    i64 at[COUNT];
};

// Axes from the row axis on have an extent of 1 in `leading`.
template <u32 COUNT>
__device__ __forceinline__ Matrices<COUNT> matrices_of(u32 number, const Divisor (&leading)[LEADING], const View* const (&views)[COUNT]) {
    Matrices<COUNT> found = {};
#pragma unroll
    for (u32 i = 0; i < LEADING; ++i) {
        const u32 axis = LEADING - 1 - i;
        const u32 above = divide(number, leading[axis]);
        const i64 at = number - above * leading[axis].divisor;
#pragma unroll
        for (u32 v = 0; v < COUNT; ++v) found.at[v] += at * views[v]->strides[axis];
        number = above;
    }
    return found;
}

__device__ __forceinline__ i64 matrix_of(u32 number, const Divisor (&leading)[LEADING], const View& view) {
    const View* const views[] = {&view};
    return matrices_of<1>(number, leading, views).at[0];
}
