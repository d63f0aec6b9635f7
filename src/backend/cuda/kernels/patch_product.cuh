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

template <>
struct PatchProduct<64> {
    static __device__ __forceinline__ void multiply(float (&d)[32], u32 weights, u32 patch, u32 rows) {
        asm volatile(
            "{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.eq.u32 p, 0, 0;\n"
            "mov.b64 a, {%32, %35};\nmov.b64 b, {%33, %34};\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
            "a, b, p, 1, 1, 0, 0;\n}\n"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
            : "r"(weights), "r"(patch), "r"(rows), "n"(SWIZZLED_MATRIX));
    }
};

template <>
struct PatchProduct<112> {
    static __device__ __forceinline__ void multiply(float (&d)[56], u32 weights, u32 patch, u32 rows) {
        asm volatile(
            "{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.eq.u32 p, 0, 0;\n"
            "mov.b64 a, {%56, %59};\nmov.b64 b, {%57, %58};\n"
            "wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55}, "
            "a, b, p, 1, 1, 0, 0;\n}\n"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
              "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
              "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
              "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
            : "r"(weights), "r"(patch), "r"(rows), "n"(SWIZZLED_MATRIX));
    }
};
