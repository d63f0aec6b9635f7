// Products of pixels by the weights of a slab of channels: m64nNk16 of f16 with f32 accumulators (PTX ISA, "wgmma.mma_async"),
// sm_90a. The pixels are the rows and lie in a patch that a copy has swizzled; the weights lie as core matrices.
#pragma once

#include "wgmma.cuh"

// Upper half of the descriptor of pixels in groups of 8 neighbours, the groups `step` bytes apart. The swizzle acts on addresses,
// so a matrix may begin at any pixel of a patch.
constexpr u32 pixel_rows(u32 step) { return 1u << 30 | step >> 4; }

// The halves of the descriptor of weights as core matrices of 8 output channels by 8 values of K: those of the first 8 values one
// behind the other, then `along_k` bytes from the first those of the last 8.
constexpr u32 CORE_ROWS = 128 >> 4;
__device__ __forceinline__ u32 slab_weights(u32 address, u32 along_k) { return address >> 4 | along_k >> 4 << 16; }

// D += A * B for 64 pixels and N output channels, or D = A * B where they are the FIRST: sums that are set to zero beforehand would
// make products wait for each other. A and B are given by the lower halves of their descriptors, `swizzled_matrix` and
// `slab_weights`; PIXEL_ROWS is the upper half of the pixels'. A thread holds N / 2 sums: of channels 8 j + 2 (lane % 4) + {0, 1},
// sums 4 j + {0, 1} are of pixel 16 warp + lane / 4 and sums 4 j + {2, 3} of the pixel 8 behind.
template <u32 N>
struct GroupedProduct;

// Sums as operands, and their names, between those of wgmma.cuh.
#define D_20 D_16, D_4(16)
#define D_24 D_20, D_4(20)
#define D_28 D_24, D_4(24)

#define NAMES_20 NAMES_16 ", %16, %17, %18, %19"
#define NAMES_24 NAMES_20 ", %20, %21, %22, %23"
#define NAMES_28 NAMES_24 ", %24, %25, %26, %27"

// N channels; SUMS = N / 2 counts the sums, A, B, ROWS, CORES and ADDS name the operands behind them.
#define GROUPED_PRODUCT(N, SUMS, A, B, ROWS, CORES, ADDS)                                                              \
    template <>                                                                                                        \
    struct GroupedProduct<N> {                                                                                         \
        template <u32 PIXEL_ROWS, bool FIRST>                                                                          \
        static __device__ __forceinline__ void multiply(float (&d)[SUMS], u32 pixels, u32 weights) {                   \
            asm volatile(                                                                                              \
                "{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.ne.u32 p, %" #ADDS ", 0;\n"                                   \
                "mov.b64 a, {%" #A ", %" #ROWS "};\nmov.b64 b, {%" #B ", %" #CORES "};\n"                              \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES_##SUMS "}, "                          \
                "a, b, p, 1, 1, 0, 0;\n}\n"                                                                            \
                : D_##SUMS                                                                                             \
                : "r"(pixels), "r"(weights), "n"(PIXEL_ROWS), "n"(CORE_ROWS), "n"(FIRST ? 0 : 1));                     \
        }                                                                                                              \
    };

GROUPED_PRODUCT(16, 8, 8, 9, 10, 11, 12)
GROUPED_PRODUCT(32, 16, 16, 17, 18, 19, 20)
GROUPED_PRODUCT(40, 20, 20, 21, 22, 23, 24)
GROUPED_PRODUCT(48, 24, 24, 25, 26, 27, 28)
GROUPED_PRODUCT(56, 28, 28, 29, 30, 31, 32)
GROUPED_PRODUCT(64, 32, 32, 33, 34, 35, 36)
