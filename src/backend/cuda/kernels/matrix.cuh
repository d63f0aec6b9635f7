// Operands of two axes in memory.
#pragma once

#include "types.cuh"

// A tensor of two axes, strides in elements.
template <class T>
struct Matrix {
    T* data;
    i64 row_stride;
    i64 column_stride;
    u32 rows;
    u32 columns;

    __device__ __forceinline__ T& at(u32 row, u32 column) const {
        return data[row * row_stride + column * column_stride];
    }
};

static_assert(sizeof(Matrix<float>) == 32, "mirrored in bind/vision/source.rs");
