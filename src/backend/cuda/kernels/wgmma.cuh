// Warpgroup matrix products m64nNk16 of f16 with f32 accumulators (PTX ISA, "wgmma.mma_async"), sm_90a.
#pragma once

#include "types.cuh"

// Upper half of the descriptor of a matrix in shared memory with rows of 128 bytes of K under the 128-byte swizzle; groups
// of 8 rows lie 1024 bytes apart.
constexpr u32 SWIZZLED_MATRIX = 1u << 30 | 1024 >> 4;

// Its lower half; a step of 16 bytes along K adds 1.
__device__ __forceinline__ u32 swizzled_matrix(u32 address) { return address >> 4 | 1u << 16; }

// D += A * B for 64 rows and N columns; A and B lie in shared memory, both with K
// innermost, and are given by `swizzled_matrix`.
// A thread holds N / 2 sums: of columns 8 j + 2 (lane % 4) + {0, 1}, sums 4 j + {0, 1} are of row 16 warp + lane / 4 and
// sums 4 j + {2, 3} of the row 8 below.
template <int N>
struct Wgmma;

// Sums as operands, and their names.
#define D_4(I) "+f"(d[I]), "+f"(d[I + 1]), "+f"(d[I + 2]), "+f"(d[I + 3])
#define D_8 D_4(0), D_4(4)
#define D_16 D_8, D_4(8), D_4(12)
#define D_32 D_16, D_4(16), D_4(20), D_4(24), D_4(28)
#define D_48 D_32, D_4(32), D_4(36), D_4(40), D_4(44)
#define D_64 D_48, D_4(48), D_4(52), D_4(56), D_4(60)
#define D_80 D_64, D_4(64), D_4(68), D_4(72), D_4(76)

#define NAMES_4 "%0, %1, %2, %3"
#define NAMES_8 NAMES_4 ", %4, %5, %6, %7"
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_48 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_64 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_80 NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"

// N columns; SUMS = N / 2 counts the sums, A, B and HIGH name the operands behind them.
#define WGMMA(N, SUMS, OPERANDS, A, B, HIGH)                                                                  \
    template <>                                                                                               \
    struct Wgmma<N> {                                                                                         \
        static __device__ __forceinline__ void multiply(float (&d)[SUMS], u32 a, u32 b) {                     \
            asm volatile(                                                                                     \
                "{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.eq.u32 p, 0, 0;\n"                                  \
                "mov.b64 a, {%" #A ", %" #HIGH "};\nmov.b64 b, {%" #B ", %" #HIGH "};\n"                      \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES_##SUMS "}, "                 \
                "a, b, p, 1, 1, 0, 0;\n}\n"                                                                   \
                : OPERANDS                                                                                    \
                : "r"(a), "r"(b), "n"(SWIZZLED_MATRIX));                                                      \
        }                                                                                                     \
    };

WGMMA(8, 4, D_4(0), 4, 5, 6)
WGMMA(16, 8, D_8, 8, 9, 10)
WGMMA(32, 16, D_16, 16, 17, 18)
WGMMA(64, 32, D_32, 32, 33, 34)
WGMMA(96, 48, D_48, 48, 49, 50)
WGMMA(128, 64, D_64, 64, 65, 66)
WGMMA(160, 80, D_80, 80, 81, 82)
