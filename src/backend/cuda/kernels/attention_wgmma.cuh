// What the kernels of attention by warpgroup products share: their parameter, where a tile's matrices lie in the maps, and a block's
// scores on their way to weights.
#pragma once

#include "attention.cuh"
#include "attention_panels.cuh"
#include "attention_sums.cuh"
#include "parameters.cuh"
#include "run.cuh"

struct AttentionWgmma {
    TensorMap maps[4];         // queries, keys, values, mask: their last axis, rows, then the leading axes from the last on
    View y;                    // [..,M,E]; as the other tensors from the chunk's first leading coordinates on
    View queries;              // [..,M,D]
    View keys;                 // [..,D,K]
    View values;               // [..,K,E]
    View mask;                 // [..,M,K], added to the scores; address 0 for none
    Divisor leading[LEADING];  // extents of the chunk's leading axes
    Divisor matrices;          // their product
    Divisor slices;            // parts of a matrix along the elements of its values
    u32 first_row;             // rows of the chunk
    u32 rows;
    u32 row_axis;
    u32 depth;
    u32 count;    // of keys
    u32 width;
    u32 segment;  // blocks of keys
    u32 tiles;
    float scale;
    u32 mapped;  // bits: queries, keys, values have maps; the mask is a constant
};

static_assert(sizeof(AttentionWgmma) == 4 * 128 + 5 * 88 + 72 + 40 + 24, "mirrored in bind/attention/wgmma.rs");

constexpr u32 QUERIES = 64;        // of a warpgroup
constexpr u32 WARPGROUP = 128;     // threads
// Keys of a last block that is worth less work: transformers of pictures have a few tokens beside a square of them.
constexpr u32 FEW = 16;

enum Input : u32 { QUERY, KEY, VALUE, MASK };

// What a kernel is compiled for. `ANY` operator; `PLAIN` ones have maps of everything, no mask and a scale above zero, and registers to
// spare; `MASKED` ones have maps of everything, and a mask.
enum Form { ANY, PLAIN, MASKED };

// So many keys of a block, as a type.
template <u32 N>
struct Keys {
    static constexpr u32 KEYS = N;
};

// A number that all threads of a warp have, so that the compiler knows, too.
__device__ __forceinline__ u32 uniform(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }

template <u32 THREADS>
__device__ __forceinline__ void meet(u32 barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

// True if the copy engine brings an input.
template <Form FORM>
__device__ __forceinline__ bool mapped(const AttentionWgmma& p, Input input) {
    return FORM != ANY || (p.mapped >> input & 1) != 0;
}

// Scales the scores of a block's first `KEYS` keys, and adds what a panel of the mask has for them in row `row` and eight below.
template <u32 KEYS>
__device__ __forceinline__ void mask_scores(float (&s)[BLOCK / 2], u32 panel, u32 row, u32 lane, float scale) {
#pragma unroll
    for (u32 n = 0; n < KEYS / 8; ++n) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            u32 bits;
            asm volatile("ld.shared.b32 %0, [%1];" : "=r"(bits) : "r"(panel + place<QUERIES>(row + half * 8, n) + lane % 4 * 4) : "memory");
            float& low = s[4 * n + 2 * half];
            float& high = s[4 * n + 2 * half + 1];
            low = __fmaf_rn(half_to_float(static_cast<u16>(bits)), LOG2_E, __fmul_rn(low, scale));
            high = __fmaf_rn(half_to_float(static_cast<u16>(bits >> 16)), LOG2_E, __fmul_rn(high, scale));
        }
    }
}

// Lowers the scores of those of a block's first `KEYS` keys that are not among the `left` ones.
template <u32 KEYS>
__device__ __forceinline__ void leave_out(float (&s)[BLOCK / 2], u32 left, u32 lane) {
#pragma unroll
    for (u32 i = 0; i < KEYS / 2; ++i) s[i] = lane % 4 * 2 + i / 4 * 8 + i % 2 < left ? s[i] : lowest();
}

// The greatest score of a block's first `KEYS` keys, of a lane's two rows; all four lanes of a row have it.
template <u32 KEYS>
__device__ __forceinline__ void find_greatest(float (&most)[2], const float (&s)[BLOCK / 2]) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        float parts[4] = {lowest(), lowest(), lowest(), lowest()};
#pragma unroll
        for (u32 n = 0; n < KEYS / 8; ++n) {
            const float greater = fmaxf(s[4 * n + 2 * half], s[4 * n + 2 * half + 1]);
            parts[n % 4] = n < 4 ? greater : fmaxf(parts[n % 4], greater);
        }
        most[half] = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
        most[half] = fmaxf(most[half], __shfl_xor_sync(0xffffffffu, most[half], 1));
        most[half] = fmaxf(most[half], __shfl_xor_sync(0xffffffffu, most[half], 2));
    }
}

// Makes weights of the scores of a block's first `KEYS` keys: rounded, in the `a` of a product, and their sum over a lane's own keys.
template <u32 KEYS>
__device__ __forceinline__ void weigh_keys(u32 (&a)[BLOCK / 16][4], float (&all)[2], const float (&s)[BLOCK / 2], float unit, const float (&shift)[2]) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        float weights[4] = {};
#pragma unroll
        for (u32 n = 0; n < KEYS / 8; ++n) {
            const float low = power_of_two(__fmaf_rn(s[4 * n + 2 * half], unit, shift[half]));
            const float high = power_of_two(__fmaf_rn(s[4 * n + 2 * half + 1], unit, shift[half]));
            const float both = __fadd_rn(low, high);
            weights[n % 4] = n < 4 ? both : __fadd_rn(weights[n % 4], both);
            a[n / 2][n % 2 * 2 + half] = two_rounded(low, high);
        }
        all[half] = __fadd_rn(__fadd_rn(weights[0], weights[1]), __fadd_rn(weights[2], weights[3]));
    }
}

// Where a tile lies, and its matrix along the leading axes of the maps: axes that are not stepped along have one position.
struct Spot {
    u32 first, rows;           // row of the chunk, and those of the tile and behind it
    u32 first_column, columns; // the same along the elements of the values
    u32 matrix;
    i64 y;                     // element of the result
    i32 at[4][MAPPED_LEADING]; // by input

    // Tiles with few rows come last.
    __device__ __forceinline__ Spot(const AttentionWgmma& p, u32 tile, u32 queries, u32 head) {
        const u32 strip = divide(tile, p.slices), step = divide(strip, p.matrices);
        first_column = (tile - strip * p.slices.divisor) * head;
        first = step * queries;
        matrix = strip - step * p.matrices.divisor;
        rows = p.rows - first, columns = p.width - first_column;
        const View* const views[] = {&p.queries, &p.keys, &p.values, &p.mask};
        u32 rest = matrix;
#pragma unroll
        for (u32 i = 0; i < MAPPED_LEADING; ++i) {
            const u32 axis = MAPPED_LEADING - 1 - i, above = divide(rest, p.leading[axis]);
#pragma unroll
            for (u32 input = 0; input < 4; ++input) {
                at[input][axis] = axis < p.row_axis && views[input]->strides[axis] != 0 ? rest - above * p.leading[axis].divisor : 0;
            }
            rest = above;
        }
        y = matrix_of(matrix, p.leading, p.y) + (p.first_row + first) * p.y.strides[p.row_axis] + first_column * p.y.strides[p.row_axis + 1];
    }

    // A number that all of it goes into: what has been found ahead of a wait.
    __device__ __forceinline__ u32 found() const {
        u32 all = first ^ first_column ^ static_cast<u32>(y);
#pragma unroll
        for (u32 input = 0; input < 4; ++input) {
#pragma unroll
            for (u32 axis = 0; axis < MAPPED_LEADING; ++axis) all ^= at[input][axis];
        }
        return all;
    }
};

// Asks for the maps: each comes from far away when it is first used.
__device__ __forceinline__ void prefetch_maps(const AttentionWgmma& p) {
#pragma unroll
    for (u32 input = QUERY; input <= MASK; ++input) {
        if (input == MASK ? p.mask.address != 0 : (p.mapped >> input & 1) != 0) prefetch_map(&p.maps[input]);
    }
}

// Rounds a warp's results from column `8 * own` on, whose sums of weights lie in the four lanes of a row, and stores them: in place of the
// warp's queries, then to memory in pieces. `top` is the warp's first row.
template <u32 ROWS, u32 OWN>
__device__ __forceinline__ void store_results(const AttentionWgmma& p, const Spot& spot, const float (&total)[OWN * 4], const float (&sums)[2],
                                              u32 queries, u32 top, u32 own, u32 lane) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        float sum = __fadd_rn(sums[half], __shfl_xor_sync(0xffffffffu, sums[half], 1));
        sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
        const float share = __frcp_rn(sum);
        const u32 r = top + lane / 4 + half * 8;
#pragma unroll
        for (u32 n = 0; n < OWN; ++n) {
            const u32 bits = two_rounded(__fmul_rn(total[4 * n + 2 * half], share), __fmul_rn(total[4 * n + 2 * half + 1], share));
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(queries + place<ROWS>(r, own + n) + lane % 4 * 4), "r"(bits) : "memory");
        }
    }
    __syncwarp();
    const i64 inner = p.y.strides[p.row_axis + 1], step = p.y.strides[p.row_axis];
    u16* const y = reinterpret_cast<u16*>(p.y.address) + spot.y;
#pragma unroll
    for (u32 i = lane; i < 16 * OWN; i += 32) {
        const u32 r = top + i / OWN, piece = own + i % OWN, column = piece * 8;
        if (r >= spot.rows || column >= spot.columns) continue;
        uint4 bits;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                     : "r"(queries + place<ROWS>(r, piece))
                     : "memory");
        u16* const to = y + static_cast<i64>(r) * step + column * inner;
        if (inner == 1 && spot.columns - column >= 8 && reinterpret_cast<u64>(to) % 16 == 0) {
            *reinterpret_cast<uint4*>(to) = bits;
            continue;
        }
        const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll 1
        for (u32 j = 0; j < 8 && column + j < spot.columns; ++j) to[static_cast<i64>(j) * inner] = static_cast<u16>(words[j / 2] >> (j % 2 * 16));
    }
}
