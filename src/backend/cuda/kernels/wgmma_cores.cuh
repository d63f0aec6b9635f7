// Warpgroup matrix products m64nNk16 of f16 with f32 accumulators (PTX ISA, "wgmma.mma_async"), sm_90a, of operands that lie in
// shared memory as core matrices: 8 rows of 16 bytes, one behind the other, without swizzle.
#pragma once

#include "types.cuh"

// The descriptor of such an operand: bytes from the core matrix of the first 8 values of K to that of the last 8, and from 8
// rows to the next 8. Core matrices may overlap.
__device__ __forceinline__ u64 core_matrices(u32 address, u32 along_k, u32 along_rows) {
    return static_cast<u64>(along_rows >> 4) << 32 | along_k >> 4 << 16 | address >> 4;
}

// D += A * B for 64 rows and N columns. A thread holds N / 2 sums: of columns 8 j + 2 (lane % 4) + {0, 1}, sums 4 j + {0, 1} are
// of row 16 warp + lane / 4 and sums 4 j + {2, 3} of the row 8 below.
template <u32 N>
struct CoreProduct;

#define SUMS_4(I) "+f"(d[I]), "+f"(d[I + 1]), "+f"(d[I + 2]), "+f"(d[I + 3])
#define SUMS_16 SUMS_4(0), SUMS_4(4), SUMS_4(8), SUMS_4(12)
#define SUMS_28 SUMS_16, SUMS_4(16), SUMS_4(20), SUMS_4(24)
#define SUMS_32 SUMS_28, SUMS_4(28)
#define SUMS_44 SUMS_32, SUMS_4(32), SUMS_4(36), SUMS_4(40)
#define SUMS_52 SUMS_44, SUMS_4(44), SUMS_4(48)
#define SUMS_56 SUMS_52, SUMS_4(52)
#define SUMS_64 SUMS_56, SUMS_4(56), SUMS_4(60)

#define NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_28 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27"
#define NAMES_32 NAMES_28 ", %28, %29, %30, %31"
#define NAMES_44 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43"
#define NAMES_52 NAMES_44 ", %44, %45, %46, %47, %48, %49, %50, %51"
#define NAMES_56 NAMES_52 ", %52, %53, %54, %55"
#define NAMES_64 NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"

// N columns; SUMS = N / 2 names the sums, A and B are the operands behind them.
#define CORE_PRODUCT(N, SUMS, A, B)                                                               \
    template <>                                                                                   \
    struct CoreProduct<N> {                                                                       \
        static __device__ __forceinline__ void multiply(float (&d)[SUMS], u64 a, u64 b) {         \
            asm volatile(                                                                         \
                "{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"                                        \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES_##SUMS "}, "     \
                "%" #A ", %" #B ", p, 1, 1, 0, 0;\n}\n"                                           \
                : SUMS_##SUMS                                                                     \
                : "l"(a), "l"(b));                                                                \
        }                                                                                         \
    };

CORE_PRODUCT(32, 16, 16, 17)
CORE_PRODUCT(56, 28, 28, 29)
CORE_PRODUCT(64, 32, 32, 33)
CORE_PRODUCT(88, 44, 44, 45)
CORE_PRODUCT(104, 52, 52, 53)
CORE_PRODUCT(112, 56, 56, 57)
CORE_PRODUCT(128, 64, 64, 65)
