// Fragments of matrices that lie in shared memory the other way round, and rows on their way there.
#pragma once

#include "mma.cuh"
#include "run.cuh"

// Four 8x8 matrices of halves, each turned; lane `l` gives the address of row `l % 8` of matrix `l / 8`.
__device__ __forceinline__ void load_matrices_turned(u32 (&registers)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(shared)
                 : "memory");
}

// What lies behind a row of halves in shared memory: neighbouring rows begin in different banks.
constexpr u32 ROW_GAP = 8;

// A matrix of halves in device memory.
struct Rows {
    u64 address;
    i64 step;    // elements from row to row
    i64 inner;   // elements from one element of a row to the next
    u32 rows;
    u32 length;  // of a row
    bool wide;   // rows are runs from multiples of 16 bytes on
};

// Up to eight halves, `inner` elements apart, as they lie in shared memory; zeros behind them.
__device__ __forceinline__ uint4 gather_halves(u64 address, i64 inner, u32 count) {
    u32 words[4] = {0, 0, 0, 0};
    if (inner == 1 && count % 4 == 0 && address % 8 == 0) {
        const uint2* pairs = reinterpret_cast<const uint2*>(address);
        if (count > 0) {
            const uint2 low = pairs[0];
            words[0] = low.x, words[1] = low.y;
        }
        if (count > 4) {
            const uint2 high = pairs[1];
            words[2] = high.x, words[3] = high.y;
        }
    } else {
        const u16* halves = reinterpret_cast<const u16*>(address);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            const u32 half = i < count ? halves[static_cast<i64>(i) * inner] : 0;
            words[i / 2] |= half << (i % 2 * 16);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// Brings ROWS rows of COLUMNS halves from row `first` on into shared memory, COLUMNS + ROW_GAP apart; zeros where there are
// none. Wide rows come in the background.
template <u32 ROWS, u32 COLUMNS, u32 THREADS>
__device__ __forceinline__ void fetch_rows(u32 shared, const Rows& from, u32 first) {
    constexpr u32 PIECES = COLUMNS / 8;
    // Piece `i`: where it goes, where it comes from, and how many halves of it there are.
    const auto piece = [&](u32 i, u32& to, u64& address) {
        const u32 row = i / PIECES, at = i % PIECES * 8;
        to = shared + 2 * (row * (COLUMNS + ROW_GAP) + at);
        const bool inside = first + row < from.rows && at < from.length;
        const i64 element = static_cast<i64>(first + row) * from.step + static_cast<i64>(at) * from.inner;
        address = inside ? from.address + static_cast<u64>(2 * element) : from.address;
        const u32 left = from.length - at;
        return inside ? (left < 8 ? left : 8) : 0;
    };
    u32 to;
    u64 address;
    if (from.wide && THREADS % PIECES == 0) {
        // A thread stays at its piece of a row and goes down.
        constexpr u32 DOWN = THREADS / PIECES;
        const u32 at = threadIdx.x % PIECES * 8, left = from.rows > first ? from.rows - first : 0;
        const u32 piece_of_row = at < from.length ? (from.length - at < 8 ? from.length - at : 8) : 0;
        u32 row = threadIdx.x / PIECES;
        to = shared + 2 * (row * (COLUMNS + ROW_GAP) + at);
        address = from.address + static_cast<u64>(2 * (static_cast<i64>(first + row) * from.step + static_cast<i64>(at)));
        const u64 step = static_cast<u64>(2 * DOWN * from.step);
#pragma unroll
        for (u32 turn = 0; turn < (ROWS + DOWN - 1) / DOWN; ++turn) {
            const bool inside = row < left && piece_of_row > 0;
            if (ROWS % DOWN == 0 || row < ROWS) copy_16(to, inside ? address : from.address, inside ? 2 * piece_of_row : 0);
            row += DOWN, address += step, to += 2 * DOWN * (COLUMNS + ROW_GAP);
        }
    } else if (from.wide) {
#pragma unroll 4
        for (u32 i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
            const u32 count = piece(i, to, address);
            copy_16(to, address, 2 * count);
        }
    } else {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
            const u32 count = piece(i, to, address);
            const uint4 bits = gather_halves(address, from.inner, count);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w) : "memory");
        }
    }
}
