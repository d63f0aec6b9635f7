// Products of the pixels of a patch in shared memory by weights: m64nNk16 of f16 with f32 accumulators (PTX ISA, "wgmma.mma_async"),
// sm_90a. The pixels are the rows, 8 neighbours of 8 rows of the picture; the output channels are the columns.
#pragma once

#include "wgmma.cuh"

// Upper half of the descriptor of pixels of `BYTES` bytes, in groups of 8 neighbours that lie `step` bytes apart, under the swizzle of
// as many bytes. The swizzle acts on addresses, so a matrix may begin at any pixel of a patch that a copy has swizzled.
template <u32 BYTES>
__device__ __forceinline__ constexpr u32 pixel_rows(u32 step) {
    static_assert(BYTES == 32 || BYTES == 64 || BYTES == 128, "pixels are as wide as a swizzle");
    return (BYTES == 128 ? 1u : BYTES == 64 ? 2u : 3u) << 30 | step >> 4;
}

// D += A * B for 64 pixels and N output channels, both with K innermost, given by `swizzled_matrix`; `rows` is the upper half of the
// pixels' descriptor. A thread holds N / 2 sums: of channels 8 j + 2 (lane % 4) + {0, 1}, sums 4 j + {0, 1} are of pixel
// 16 warp + lane / 4 and sums 4 j + {2, 3} of the pixel 8 further on.
template <int N>
struct PixelProduct;

// N channels; SUMS = N / 2 counts the sums, A, ROWS, B and HIGH name the operands behind them.
#define PIXEL_PRODUCT(N, SUMS, A, ROWS, B, HIGH)                                                                       \
    template <>                                                                                                        \
    struct PixelProduct<N> {                                                                                           \
        static __device__ __forceinline__ void multiply(float (&d)[SUMS], u32 patch, u32 rows, u32 weights) {          \
            asm volatile(                                                                                              \
                "{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.eq.u32 p, 0, 0;\n"                                           \
                "mov.b64 a, {%" #A ", %" #ROWS "};\nmov.b64 b, {%" #B ", %" #HIGH "};\n"                               \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES_##SUMS "}, "                          \
                "a, b, p, 1, 1, 0, 0;\n}\n"                                                                            \
                : D_##SUMS                                                                                             \
                : "r"(patch), "r"(rows), "r"(weights), "n"(SWIZZLED_MATRIX));                                          \
        }                                                                                                              \
    };

PIXEL_PRODUCT(16, 8, 8, 9, 10, 11)
PIXEL_PRODUCT(32, 16, 16, 17, 18, 19)
PIXEL_PRODUCT(64, 32, 32, 33, 34, 35)
