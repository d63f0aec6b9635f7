// Attention by warpgroup products: a warpgroup's scores and sums in registers, and how those of segments of keys are joined.
#pragma once

#include "attention_weights.cuh"
#include "hopper.cuh"
#include "view.cuh"
#include "wgmma.cuh"

constexpr u32 BLOCK = 64;             // keys
constexpr u32 FRAGMENTS = BLOCK / 8;  // of a block's scores: eight keys each

// Keeps the compiler from moving reads of sums ahead of the end of the products.
template <u32 N>
__device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
    for (u32 i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// D = A * B, plus D if `more`, for 64 rows and 64 columns: A in registers, B in shared memory by its descriptor, its rows of K
// (K innermost) or of columns (TURNED).
template <u32 TURNED>
__device__ __forceinline__ void multiply_64(float* d, const u32 (&a)[4], u32 b, u32 more) {
    asm volatile(
        "{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.u32 p, %38, 0;\n"
        "mov.b64 b, {%36, %37};\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, b, p, 1, 1, %39;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(SWIZZLED_MATRIX), "r"(more), "n"(TURNED));
}

__device__ __forceinline__ void store_four(u32 address, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

// Weighed values of two rows (lane / 4 and 8 below it) and what they are weighed by: element 4 n + 2 half + i is of row `half`
// and column 8 n + lane % 4 * 2 + i. Sums of weights are of the lane's own keys.
template <u32 HEAD>
struct Sums {
    float total[HEAD / 2];
    float greatest[2];
    float sum[2];
};

// Leaves a thread's sums in shared memory, those of THREADS threads side by side.
template <u32 HEAD, u32 THREADS>
__device__ __forceinline__ void leave(u32 shared, const Sums<HEAD>& from) {
#pragma unroll
    for (u32 n = 0; n < HEAD / 8; ++n) {
        store_four(shared + n * THREADS * 16, from.total[4 * n], from.total[4 * n + 1], from.total[4 * n + 2], from.total[4 * n + 3]);
    }
    store_four(shared + HEAD / 8 * THREADS * 16, from.greatest[0], from.greatest[1], from.sum[0], from.sum[1]);
}

// Joins sums of HEAD columns that were left in shared memory, from fragment `first` on, with `it`: sums of segments that follow
// them (LEFT_LATER: that they follow).
template <u32 HEAD, u32 PART, u32 THREADS, bool LEFT_LATER>
__device__ __forceinline__ void join(u32 shared, u32 first, Sums<PART>& it, float unit) {
    const float4 left = load_four(shared + HEAD / 8 * THREADS * 16);
    const float greatest[2] = {left.x, left.y}, sum[2] = {left.z, left.w};
    float of_left[2] = {}, of_it[2] = {};
    const auto both = [&](float there, float here, u32 half) {
        return LEFT_LATER ? __fmaf_rn(there, of_left[half], __fmul_rn(here, of_it[half])) : __fmaf_rn(here, of_it[half], __fmul_rn(there, of_left[half]));
    };
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        const float most = fmaxf(greatest[half], it.greatest[half]), base = finite(most);
        of_left[half] = power_of_two(__fmul_rn(__fsub_rn(greatest[half], base), unit));
        of_it[half] = power_of_two(__fmul_rn(__fsub_rn(it.greatest[half], base), unit));
        it.greatest[half] = most;
        it.sum[half] = both(sum[half], it.sum[half], half);
    }
#pragma unroll
    for (u32 n = 0; n < PART / 8; ++n) {
        const float4 four = load_four(shared + (first + n) * THREADS * 16);
        it.total[4 * n] = both(four.x, it.total[4 * n], 0);
        it.total[4 * n + 1] = both(four.y, it.total[4 * n + 1], 0);
        it.total[4 * n + 2] = both(four.z, it.total[4 * n + 2], 1);
        it.total[4 * n + 3] = both(four.w, it.total[4 * n + 3], 1);
    }
}

// Loads what a mask adds to a thread's scores of a block in one of its rows, pairs of neighbours; `line` is the first element of row 0,
// rows from `rows` on read the last.
__device__ __forceinline__ void fetch_mask(u32 (&bits)[FRAGMENTS], const View& mask, u32 row_axis, i64 line, u32 query, u32 rows, u32 key, u32 count) {
    const i64 step = mask.strides[row_axis + 1];
    const u32 row = query < rows ? query : rows - 1;
    const u64 from = mask.address + 2 * (line + row * mask.strides[row_axis]);
    if (step == 1 && from % 4 == 0 && key + (FRAGMENTS - 1) * 8 + 1 < count) {
#pragma unroll
        for (u32 n = 0; n < FRAGMENTS; ++n) bits[n] = *reinterpret_cast<const u32*>(from + 2 * (key + n * 8));
    } else {
#pragma unroll
        for (u32 n = 0; n < FRAGMENTS; ++n) {
            const u32 at = key + n * 8, last = count - 1;
            const u32 low = *pointer_to<u16>(from, (at < last ? at : last) * step);
            const u32 high = *pointer_to<u16>(from, (at + 1 < last ? at + 1 : last) * step);
            bits[n] = low | high << 16;
        }
    }
}

// Adds it to the scaled scores of row `half`.
__device__ __forceinline__ void add_mask(float (&s)[BLOCK / 2], const u32 (&bits)[FRAGMENTS], u32 half) {
#pragma unroll
    for (u32 n = 0; n < FRAGMENTS; ++n) {
        float& low = s[4 * n + 2 * half];
        float& high = s[4 * n + 2 * half + 1];
        low = __fmaf_rn(half_to_float(static_cast<u16>(bits[n])), LOG2_E, low);
        high = __fmaf_rn(half_to_float(static_cast<u16>(bits[n] >> 16)), LOG2_E, high);
    }
}
