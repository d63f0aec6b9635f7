// Samples of halves whose channels lie side by side: eight of them at once, from places whose elements and weights are found before.
#pragma once

#include "run.cuh"
#include "sample.cuh"

constexpr u32 PIECE = 8;

// What a place is made of along an axis.
template <u32 COUNT>
struct alignas(COUNT == 1 ? 8 : 16) Along {
    i32 offsets[COUNT];  // in pieces; -1 for zeros outside
    float weights[COUNT];
};

// The pieces around a place; `from` is that of the picture's first element.
template <u32 COUNT>
__device__ __forceinline__ void load_pieces(const Along<COUNT>& columns, const Along<COUNT>& rows, const uint4* from,
                                            uint4 (&pieces)[COUNT][COUNT]) {
#pragma unroll
    for (u32 j = 0; j < COUNT; ++j) {
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) {
            const i32 row = rows.offsets[j], column = columns.offsets[i];
            pieces[j][i] = make_uint4(0, 0, 0, 0);
            if ((row | column) >= 0) pieces[j][i] = from[static_cast<u32>(row + column)];
        }
    }
}

template <u32 COUNT>
__device__ __forceinline__ void blend(const Along<COUNT>& columns, const Along<COUNT>& rows, const uint4 (&pieces)[COUNT][COUNT],
                                      float (&sums)[PIECE]) {
#pragma unroll
    for (u32 c = 0; c < PIECE; ++c) sums[c] = 0.0f;
#pragma unroll
    for (u32 j = 0; j < COUNT; ++j) {
        float line_sums[PIECE];
#pragma unroll
        for (u32 c = 0; c < PIECE; ++c) line_sums[c] = 0.0f;
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) {
            float v[PIECE];
            widen(pieces[j][i], v);
#pragma unroll
            for (u32 c = 0; c < PIECE; ++c) line_sums[c] = __fmaf_rn(columns.weights[i], v[c], line_sums[c]);
        }
#pragma unroll
        for (u32 c = 0; c < PIECE; ++c) sums[c] = __fmaf_rn(rows.weights[j], line_sums[c], sums[c]);
    }
}
