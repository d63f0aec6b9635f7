// Panels of 64 halves of rows in shared memory, swizzled as the copy engine swizzles them: where a piece lies, and who brings it.
#pragma once

#include "copy_single.cuh"
#include "hopper.cuh"
#include "view.cuh"

constexpr u32 PANEL = 64;          // halves of a row that lie together in shared memory
constexpr u32 ROW_BYTES = 2 * PANEL;
constexpr u32 BOX = 64 * ROW_BYTES;  // bytes of 64 rows of a panel: what a map's copy brings
constexpr u32 PIECE = 16;          // bytes that lie together under the swizzle
constexpr u32 PIECES = ROW_BYTES / PIECE;
constexpr u32 MAPPED_LEADING = 3;  // leading axes of a map

// Four 8x8 matrices of halves; lane `l` gives the address of row `l % 8` of matrix `l / 8`.
__device__ __forceinline__ void load_matrices(u32 (&registers)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(shared)
                 : "memory");
}

// A box of 64 rows of a panel.
__device__ __forceinline__ void copy_panel(u32 to, const TensorMap* map, u32 barrier, i32 column, i32 row, const i32 (&matrix)[MAPPED_LEADING]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(matrix[2]), "r"(matrix[1]), "r"(matrix[0])
        : "memory");
}

// Rows of halves that have no map.
struct Rows {
    u64 address;
    i64 step;    // elements from row to row
    i64 inner;   // elements from one element of a row to the next
    u32 rows;
    u32 length;  // of a row
};

// Where a piece of a row lies in panels of so many rows.
template <u32 ROWS>
__device__ __forceinline__ u32 place(u32 row, u32 piece) {
    return piece / PIECES * (ROWS * ROW_BYTES) + row * ROW_BYTES + (piece % PIECES ^ row % 8) * PIECE;
}

// Arrives for this thread once what it copies in the background is there.
__device__ __forceinline__ void arrive_behind_copies(u32 barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// Stores one half of a row.
__device__ __forceinline__ void store_half(u32 address, u32 half) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(static_cast<u16>(half)) : "memory");
}

// Brings rows whose elements lie apart while rows lie side by side: WIDTH rows' elements at a time, on as many halves.
template <u32 WIDTH, u32 ROWS, u32 PANELS, u32 THREADS>
__device__ __forceinline__ void turn_panels(u32 shared, const Rows& from, u32 first, u32 thread) {
    constexpr u32 ACROSS = PANELS * PANEL, WORDS = WIDTH / 2, ALL = ACROSS * (ROWS / WIDTH);
    // Loads in flight, as far as registers go.
    constexpr u32 MOST = WORDS == 4 ? 4 : 8, BATCH = ALL < MOST * THREADS ? ALL / THREADS : MOST;
    static_assert(ALL % (THREADS * BATCH) == 0, "threads have whole batches between them");
#pragma unroll 1
    for (u32 begin = thread; begin < ALL; begin += THREADS * BATCH) {
        u32 words[BATCH][WORDS];
#pragma unroll
        for (u32 j = 0; j < BATCH; ++j) {
            const u32 i = begin + j * THREADS, element = i % ACROSS, row = first + i / ACROSS * WIDTH;
            const bool there = element < from.length && row < from.rows;
            const u64 address = from.address + 2 * (static_cast<i64>(element) * from.inner + row);
            if constexpr (WORDS == 4) {
                const uint4 bits = there ? *reinterpret_cast<const uint4*>(address) : make_uint4(0, 0, 0, 0);
                words[j][0] = bits.x, words[j][1] = bits.y, words[j][2] = bits.z, words[j][3] = bits.w;
            } else {
                words[j][0] = there ? *reinterpret_cast<const u32*>(address) : 0;
            }
        }
#pragma unroll
        for (u32 j = 0; j < BATCH; ++j) {
            const u32 i = begin + j * THREADS, element = i % ACROSS, row = i / ACROSS * WIDTH;
#pragma unroll
            for (u32 k = 0; k < WIDTH; ++k) store_half(shared + place<ROWS>(row + k, element / 8) + element % 8 * 2, words[j][k / 2] >> (k % 2 * 16));
        }
    }
}

// Brings ROWS rows from row `first` on into panels, and arrives when they are there; zeros where there are none. What reads them
// through another proxy makes a fence behind the barrier.
template <u32 ROWS, u32 PANELS, u32 THREADS>
__device__ __forceinline__ void gather_panels(u32 shared, const Rows& from, u32 first, u32 thread, u32 barrier) {
    if (from.inner == 1 && from.step % 4 == 0 && from.length % 4 == 0 && from.address % 8 == 0) {
        // A thread stays at its piece of a row and goes down.
        constexpr u32 ACROSS = PANELS * PIECES, DOWN = THREADS / ACROSS;
        static_assert(THREADS % ACROSS == 0 && ROWS % DOWN == 0, "threads have whole rows between them");
        const u32 piece = thread % ACROSS;
        u32 row = thread / ACROSS;
        u64 address = from.address + 2 * (static_cast<i64>(first + row) * from.step + piece * 8);
        const u64 step = 2 * DOWN * from.step;
#pragma unroll
        for (u32 turn = 0; turn < ROWS / DOWN; ++turn) {
            const u32 to = shared + place<ROWS>(row, piece), length = first + row < from.rows ? from.length : 0;
            const bool low = piece * 8 < length, high = piece * 8 + 4 < length;
            copy_8(to, low ? address : from.address, low ? 8 : 0);
            copy_8(to + 8, high ? address + 8 : from.address, high ? 8 : 0);
            row += DOWN, address += step;
        }
        return arrive_behind_copies(barrier);
    }
    const bool turned = from.step == 1;
    if (turned && from.address % 16 == 0 && from.inner % 8 == 0 && from.rows % 8 == 0) {
        turn_panels<8, ROWS, PANELS, THREADS>(shared, from, first, thread);
        return barrier_arrive(barrier);
    }
    if (turned && from.address % 4 == 0 && from.inner % 2 == 0 && from.rows % 2 == 0) {
        turn_panels<2, ROWS, PANELS, THREADS>(shared, from, first, thread);
        return barrier_arrive(barrier);
    }
#pragma unroll 1
    for (u32 i = thread; i < ROWS * PANELS * PIECES; i += THREADS) {
        const u32 row = i / (PANELS * PIECES), piece = i % (PANELS * PIECES);
        u32 halves[8];
#pragma unroll
        for (u32 j = 0; j < 8; ++j) {
            const u32 at = piece * 8 + j;
            const i64 element = static_cast<i64>(first + row) * from.step + static_cast<i64>(at) * from.inner;
            halves[j] = first + row < from.rows && at < from.length ? *pointer_to<u16>(from.address, element) : 0;
        }
        u32 words[4];
#pragma unroll
        for (u32 j = 0; j < 4; ++j) words[j] = halves[2 * j] | halves[2 * j + 1] << 16;
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared + place<ROWS>(row, piece)), "r"(words[0]), "r"(words[1]),
                     "r"(words[2]), "r"(words[3])
                     : "memory");
    }
    barrier_arrive(barrier);
}
