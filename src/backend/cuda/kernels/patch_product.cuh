// Products of weights by the pixels of a patch in shared memory: m64nNk16 of f16 with f32 accumulators (PTX ISA,
// "wgmma.mma_async"), sm_90a. The weights are the rows, the pixels the columns: so few output channels keep the
// multiplier busy, and a thread holds neighbouring pixels of one channel.
#pragma once

#include "wgmma.cuh"

// Upper half of the descriptor of pixels in groups of 8, the groups `step` bytes apart. The swizzle acts on addresses, so a
// matrix may begin at any pixel of a patch that a copy has swizzled.
__device__ __forceinline__ u32 pixel_groups(u32 step) { return 1u << 30 | step >> 4; }

// D += A * B for 64 channels and N pixels, both with K innermost, given by `swizzled_matrix`; `rows` is the upper half of
// the pixels' descriptor. A thread holds N / 2 sums: of pixels 8 j + 2 (lane % 4) + {0, 1}, sums 4 j + {0, 1} are of
// channel 16 warp + lane / 4 and sums 4 j + {2, 3} of the channel 8 above.
template <int N>
struct PatchProduct;

// Sums as operands, and their names, past those of wgmma.cuh.
#define D_56 D_48, D_4(48), D_4(52)
#define D_104 D_80, D_4(80), D_4(84), D_4(88), D_4(92), D_4(96), D_4(100)
#define D_112 D_104, D_4(104), D_4(108)

#define NAMES_56 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NAMES_104                                                                                                       \
    NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, " \
             "%101, %102, %103"
#define NAMES_112 NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"

// N pixels; SUMS = N / 2 counts the sums, A, B, ROWS and HIGH name the operands behind them.
#define PATCH_PRODUCT(N, SUMS, A, B, ROWS, HIGH)                                                                       \
    template <>                                                                                                        \
    struct PatchProduct<N> {                                                                                           \
        static __device__ __forceinline__ void multiply(float (&d)[SUMS], u32 weights, u32 patch, u32 rows) {          \
            asm volatile(                                                                                              \
                "{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.eq.u32 p, 0, 0;\n"                                           \
                "mov.b64 a, {%" #A ", %" #HIGH "};\nmov.b64 b, {%" #B ", %" #ROWS "};\n"                               \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES_##SUMS "}, "                          \
                "a, b, p, 1, 1, 0, 0;\n}\n"                                                                            \
                : D_##SUMS                                                                                             \
                : "r"(weights), "r"(patch), "r"(rows), "n"(SWIZZLED_MATRIX));                                          \
        }                                                                                                              \
    };

PATCH_PRODUCT(64, 32, 32, 33, 34, 35)
PATCH_PRODUCT(112, 56, 56, 57, 58, 59)
PATCH_PRODUCT(224, 112, 112, 113, 114, 115)
