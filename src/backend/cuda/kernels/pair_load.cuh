// Operands of products of two computed matrices on their way to shared memory, a block of K after another: what a thread copies is found
// once, and stepped forward.
#pragma once

#include "copy_single.cuh"
#include "turned.cuh"

// Elements of an operand's block of DEPTH K in shared memory: SIDE lines of K, or K lines of SIDE where it is turned.
template <u32 SIDE, u32 DEPTH, bool TURNED>
constexpr u32 BLOCK = TURNED ? DEPTH * (SIDE + ROW_GAP) : SIDE * (DEPTH + ROW_GAP);

// A choice that stands when a kernel is compiled.
template <bool OF>
struct Truth {
    static constexpr bool VALUE = OF;
};

// An operand: where its first line begins, and the elements from line to line and from one k to the next.
struct Lines {
    u64 address;
    i64 line;
    i64 k;
    u32 count;  // of lines that there are
    bool wide;  // runs lie on 16 bytes
};

// Brings blocks of SIDE lines and DEPTH k, THREADS threads together. Runs from multiples of 8 bytes on come in the background, what is in no
// such runs is gathered; lines and k that there are not are zeros.
template <u32 SIDE, u32 DEPTH, bool TURNED, u32 THREADS>
struct PairLoader {
    // In shared memory as in device memory: rows of pieces, of which a thread has one and goes down.
    static constexpr u32 ROWS = TURNED ? DEPTH : SIDE, COLUMNS = TURNED ? SIDE : DEPTH;
    static constexpr u32 PIECES = COLUMNS / 8, DOWN = THREADS / PIECES, TURNS = ROWS / DOWN, PITCH = COLUMNS + ROW_GAP;
    static_assert(THREADS % PIECES == 0 && ROWS % DOWN == 0, "threads have whole rows between them");

    u64 address;  // of the thread's first piece in the next block
    u64 step;     // bytes to its next piece
    u64 each;     // bytes from one k to the next
    i64 inner;    // elements between neighbours of a row
    u32 to;       // of the first piece, from the block's beginning on
    u32 row;
    u32 column;
    u32 lines;
    bool wide;
    bool eights;

    __device__ __forceinline__ PairLoader(const Lines& from, u32 thread) {
        const i64 down = TURNED ? from.k : from.line;
        inner = TURNED ? from.line : from.k;
        row = thread / PIECES, column = thread % PIECES * 8;
        address = from.address + 2 * static_cast<u64>(row * down + column * inner);
        step = 2 * DOWN * static_cast<u64>(down);
        each = 2 * static_cast<u64>(from.k);
        to = 2 * (row * PITCH + column);
        lines = from.count;
        wide = from.wide;
        eights = inner == 1 && down % 4 == 0 && from.address % 8 == 0;
    }

    // Goes on from element `k` of the lines.
    __device__ __forceinline__ void skip(u32 k) { address += k * each; }

    // Brings the next block, of which `left` k are there, to `shared`. WIDE where it is known that runs lie on 16 bytes.
    template <bool WIDE>
    __device__ __forceinline__ void load(u32 shared, u32 left) {
        const u32 rows = TURNED ? left : lines, length = TURNED ? lines : left;
        const u32 after = column < length ? length - column : 0, count = after < 8 ? after : 8;
        const auto there = [&](u32 i) { return row + i * DOWN < rows; };
        const u32 target = shared + to;
        // Where nothing is read the address is any number.
        if (WIDE || wide) {
#pragma unroll
            for (u32 i = 0; i < TURNS; ++i) copy_16(target + 2 * i * DOWN * PITCH, address + i * step, there(i) ? 2 * count : 0);
        } else if (eights) {
            const u32 low = count < 4 ? count : 4, high = count - low;
#pragma unroll
            for (u32 i = 0; i < TURNS; ++i) {
                copy_8(target + 2 * i * DOWN * PITCH, address + i * step, there(i) ? 2 * low : 0);
                copy_8(target + 2 * i * DOWN * PITCH + 8, address + i * step + 8, there(i) ? 2 * high : 0);
            }
        } else {
            gather(target, rows, count);
        }
        address += DEPTH * each;
    }

    // The halves of several pieces are in flight together.
    __device__ __forceinline__ void gather(u32 target, u32 rows, u32 count) const {
        constexpr u32 TOGETHER = TURNS < 4 ? TURNS : 4;
#pragma unroll 1
        for (u32 turn = 0; turn < TURNS; turn += TOGETHER) {
            u16 halves[TOGETHER][8];
#pragma unroll
            for (u32 i = 0; i < TOGETHER; ++i) {
                const u64 piece = address + (turn + i) * step;
#pragma unroll
                for (u32 k = 0; k < 8; ++k) {
                    const bool there = row + (turn + i) * DOWN < rows && k < count;
                    halves[i][k] = there ? *pointer_to<u16>(piece, static_cast<i64>(k) * inner) : 0;
                }
            }
#pragma unroll
            for (u32 i = 0; i < TOGETHER; ++i) {
                u32 words[4];
#pragma unroll
                for (u32 k = 0; k < 4; ++k) words[k] = halves[i][2 * k] | static_cast<u32>(halves[i][2 * k + 1]) << 16;
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(target + 2 * (turn + i) * DOWN * PITCH), "r"(words[0]),
                             "r"(words[1]), "r"(words[2]), "r"(words[3])
                             : "memory");
            }
        }
    }
};
