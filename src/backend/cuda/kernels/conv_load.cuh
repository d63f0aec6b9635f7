// How the two operands of a convolution's matrix product come into shared memory.
//
// A stage holds a BM x BK block of pixels and a BN x BK block of weights, row by row, in pieces of 8 halves (16 bytes).
// Piece `c` of row `r` lies at place `c ^ swizzle(r)` of its row, so that the 8 rows which `ldmatrix` reads at once lie in
// different banks.
#pragma once

#include "conv_params.cuh"
#include "mma.cuh"

constexpr u32 PIECE = 8;

template <u32 BK>
__device__ __forceinline__ u32 swizzle(u32 row) {
    return BK == 64 ? row % 8 : row / 2 % 4;
}

// Byte of piece `piece` of row `row` of a block.
template <u32 BK>
__device__ __forceinline__ u32 piece_offset(u32 row, u32 piece) {
    return row * BK * 2 + (piece ^ swizzle<BK>(row)) * 16;
}

// Which taps lie inside the input for one output pixel: bit `j` for tap column `j`, bit `16 + i` for tap row `i`.
// A kernel has at most 15 columns, so the bit NO_TAP is never set: it stands for what lies behind the last tap.
constexpr u32 NO_TAP = 1u << 15;

__device__ __forceinline__ u32 tap_bits(u32 row, u32 column) { return (1u << (16 + row)) | (1u << column); }

// The corner of an output pixel's window.
struct Corner {
    i32 offset;  // of tap (0, 0), channel 0, in elements; may lie before the input
    u32 taps;    // those inside the input
};

__device__ __forceinline__ u32 low_bits(u32 count) { return (1u << count) - 1; }

// Bit `i` for each `i < count` with `0 <= first + i * step < extent`.
__device__ __forceinline__ u32 inside_bits(i32 first, const Divisor& step, u32 count, i32 extent) {
    const u32 round = step.divisor - 1;
    const u32 begin = first < 0 ? divide(static_cast<u32>(-first) + round, step) : 0;
    const u32 end = first < extent ? divide(static_cast<u32>(extent - first) + round, step) : 0;
    return low_bits(min(end, count)) & ~low_bits(min(begin, count));
}

// The corner of a pixel of the chunk. Behind the last pixel it is that of the last: what is computed there goes nowhere.
__device__ __forceinline__ Corner corner_of(const Convolution& p, u32 index) {
    constexpr u32 ALL_TAPS = ~NO_TAP;
    index = min(index, p.m - 1);
    if (p.walk == WALK_FLAT) return Corner{static_cast<i32>(p.first_pixel + index) * p.x_pixel, ALL_TAPS};
    const Place place = place_of(p, index);
    const i32 row = static_cast<i32>(place.row * p.stride_rows) - static_cast<i32>(p.pad_rows);
    const i32 column = static_cast<i32>(place.pixel * p.stride_pixels) - static_cast<i32>(p.pad_pixels);
    u32 taps = ALL_TAPS;
    if (p.walk == WALK_PADDED) {
        taps = inside_bits(row, p.dilation_rows, p.kernel_rows, static_cast<i32>(p.height)) << 16 |
               inside_bits(column, p.dilation_pixels, p.kernel_columns.divisor, static_cast<i32>(p.width));
    }
    return Corner{static_cast<i32>(place.batch) * p.x_batch + row * p.x_row + column * p.x_pixel, taps};
}

// Weights: rows of the packed matrix, one after another along K.
template <u32 BN, u32 BK, u32 THREADS>
struct WeightLoader {
    static constexpr u32 PIECES = BK / PIECE;
    static constexpr u32 STEP = THREADS / PIECES;
    static constexpr u32 COUNT = (BN + STEP - 1) / STEP;
    static_assert((BN < STEP || BN % STEP == 0) && STEP % 8 == 0, "whole rounds, with the same swizzle in every one");

    u64 source;
    u32 target;
    u32 rows;  // rows of the matrix from this thread's first on

    __device__ __forceinline__ WeightLoader(const Convolution& p, u32 first_row, u32 first_k) {
        const u32 row = threadIdx.x / PIECES, piece = threadIdx.x % PIECES;
        rows = p.n > first_row + row ? p.n - first_row - row : 0;
        source = p.weights + 2 * (static_cast<u64>(first_row + row) * p.k_padded + first_k + piece * PIECE);
        target = piece_offset<BK>(row, piece);
    }

    // Copies the next BK columns to the block at `shared`; zeros without `more`.
    __device__ __forceinline__ void load(const Convolution& p, u32 shared, bool more) {
        const u64 step = 2ull * STEP * p.k_padded;
        const u32 readable = more ? rows : 0;
        if (BN < STEP && threadIdx.x / PIECES >= BN) return;
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) copy_16(shared + target + i * STEP * BK * 2, source + i * step, i * STEP < readable ? 16 : 0);
        source += BK * 2;
    }
};

// Pixels with a multiple of 8 channels: a piece lies in one tap and is 16 aligned bytes of the input, or zeros.
template <u32 BM, u32 BK, u32 THREADS>
struct TapLoader {
    static constexpr bool SPLITS = true;  // serves operators whose K is split
    static constexpr bool AFFINE = false;
    static constexpr u32 PIECES = BK / PIECE;
    static constexpr u32 STEP = THREADS / PIECES;
    static constexpr u32 COUNT = BM / STEP;
    static_assert(BM % STEP == 0 && STEP % 8 == 0, "all threads copy, and the swizzle is the same in every round");

    Corner corners[COUNT];
    u32 target;
    u32 channel, column, row;  // of this thread's piece in the next block

    __device__ __forceinline__ static u32 table_bytes(const Convolution&) { return 0; }
    __device__ __forceinline__ static void make_table(const Convolution&, u32) {}

    __device__ __forceinline__ TapLoader(const Convolution& p, u32 first_pixel, u32 first_k, u32) {
        const u32 pixel = threadIdx.x / PIECES, piece = threadIdx.x % PIECES;
        target = piece_offset<BK>(pixel, piece);
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) corners[i] = corner_of(p, first_pixel + pixel + i * STEP);
        const u32 k = first_k + piece * PIECE;
        const u32 tap = divide(k, p.channels);
        row = divide(tap, p.kernel_columns);
        column = tap - row * p.kernel_columns.divisor;
        channel = k - tap * p.channels.divisor;
    }

    // Copies the next BK columns to the block at `shared`; zeros without `more`.
    __device__ __forceinline__ void begin(const Convolution& p, u32 shared, bool more) {
        const u32 bits = more && row < p.kernel_rows ? tap_bits(row, column) : NO_TAP;
        const i32 offset = static_cast<i32>(row) * p.tap_row + static_cast<i32>(column) * p.tap_column + static_cast<i32>(channel);
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) {
            const u64 address = p.x + static_cast<i64>(corners[i].offset + offset) * 2;
            copy_16(shared + target + i * STEP * BK * 2, address, (corners[i].taps & bits) == bits ? 16 : 0);
        }
        // One step along K, digit by digit.
        channel += p.step_channels;
        const bool next_tap = channel >= p.channels.divisor;
        channel -= next_tap ? p.channels.divisor : 0;
        column += p.step_columns + next_tap;
        const bool next_row = column >= p.kernel_columns.divisor;
        column -= next_row ? p.kernel_columns.divisor : 0;
        row += p.step_rows + next_row;
    }

    __device__ __forceinline__ void end(u32) {}
};

// Pixels under a window of one tap that are scaled, shifted and cut off at zero on their way into the tensor cores. The table
// in shared memory holds 16 bytes for each 4 of the 16 channels of an instruction, as its lanes need them: with `q` of 0 to
// 3, the scales of channels 2q, 2q + 1, 2q + 8, 2q + 9, then their shifts.
template <u32 BM, u32 BK, u32 THREADS>
struct AffineLoader : TapLoader<BM, BK, THREADS> {
    static constexpr bool AFFINE = true;
    using TapLoader<BM, BK, THREADS>::TapLoader;

    __device__ __forceinline__ static void make_table(const Convolution& p, u32 table) {
        for (u32 i = threadIdx.x; i < p.k_padded / 4; i += THREADS) {
            const uint4 entry = reinterpret_cast<const uint4*>(p.affine)[i];
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(table + i * 16), "r"(entry.x), "r"(entry.y), "r"(entry.z),
                         "r"(entry.w)
                         : "memory");
        }
        __syncthreads();
    }
};

// Pixels with any number of channels: halves are gathered one by one through a table of K, held in registers while the
// tensor cores work on the block before, and then stored.
template <u32 BM, u32 BK, u32 THREADS>
struct GatherLoader {
    static constexpr bool SPLITS = false;
    static constexpr bool AFFINE = false;
    static constexpr u32 PIECES = BK / PIECE;
    static constexpr u32 STEP = THREADS / PIECES;
    static constexpr u32 COUNT = BM / STEP;
    static_assert(BM % STEP == 0 && STEP % 8 == 0, "all threads copy, and the swizzle is the same in every round");

    Corner corners[COUNT];
    u32 target;
    u32 entry;  // shared address of the table's next entry for this thread
    u32 held[COUNT][PIECE / 2];

    // An entry for each k: offset from the corner in elements, and the bits of its tap.
    __device__ __forceinline__ static u32 table_bytes(const Convolution& p) { return p.k_padded * 8; }
    __device__ __forceinline__ static void make_table(const Convolution& p, u32 table) {
        for (u32 k = threadIdx.x; k < p.k_padded; k += THREADS) {
            const u32 tap = divide(k, p.channels);
            const u32 row = divide(tap, p.kernel_columns);
            const u32 column = tap - row * p.kernel_columns.divisor;
            const i32 offset = static_cast<i32>(row) * p.tap_row + static_cast<i32>(column) * p.tap_column +
                               static_cast<i32>(k - tap * p.channels.divisor) * p.x_channel;
            const u32 bits = row < p.kernel_rows ? tap_bits(row, column) : NO_TAP;
            asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(table + k * 8), "r"(offset), "r"(bits) : "memory");
        }
        __syncthreads();
    }

    __device__ __forceinline__ GatherLoader(const Convolution& p, u32 first_pixel, u32 first_k, u32 table) {
        const u32 pixel = threadIdx.x / PIECES, piece = threadIdx.x % PIECES;
        target = piece_offset<BK>(pixel, piece);
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) corners[i] = corner_of(p, first_pixel + pixel + i * STEP);
        entry = table + (first_k + piece * PIECE) * 8;
    }

    __device__ __forceinline__ u32 half_at(const Convolution& p, const Corner& corner, i32 offset, u32 bits) const {
        u16 half = 0;
        if ((corner.taps & bits) == bits) {
            const i64 element = corner.offset + offset;
            half = p.x_single ? float_to_half(reinterpret_cast<const float*>(p.x)[element]) : reinterpret_cast<const u16*>(p.x)[element];
        }
        return half;
    }

    __device__ __forceinline__ void begin(const Convolution& p, u32, bool more) {
        if (!more) return;
#pragma unroll
        for (u32 j = 0; j < PIECE / 2; ++j) {
            i32 even, odd;
            u32 even_bits, odd_bits;
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(even), "=r"(even_bits), "=r"(odd), "=r"(odd_bits)
                         : "r"(entry + j * 16)
                         : "memory");
#pragma unroll
            for (u32 i = 0; i < COUNT; ++i) {
                held[i][j] = half_at(p, corners[i], even, even_bits) | half_at(p, corners[i], odd, odd_bits) << 16;
            }
        }
        entry += BK * 8;
    }

    __device__ __forceinline__ void end(u32 shared) {
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) {
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared + target + i * STEP * BK * 2), "r"(held[i][0]),
                         "r"(held[i][1]), "r"(held[i][2]), "r"(held[i][3])
                         : "memory");
        }
    }
};
