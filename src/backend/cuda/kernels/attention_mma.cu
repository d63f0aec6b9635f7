// Attention of halves on tensor cores: scores and weights never leave the registers.
//
// A warp takes sixteen queries and walks blocks of keys with a running maximum, rescaling its sums when that grows (Milakov and
// Gimelshein 2018; Dao et al. 2022). Where queries are few, warps in `STRANDS` share out the keys: strand `s` takes blocks s,
// s + STRANDS and so on, and their sums are joined at the end in ascending order. Blocks and strands follow from the shape
// alone, and rows know nothing of each other: so results depend neither on chunks nor on the grid.
//
// Weights are rounded to f16 before they meet the values; everything else is f32: scores take sixteen elements of a key at a
// time in ascending order, sums of values sixteen keys at a time.
#include "chain.cuh"
#include "divide.cuh"
#include "turned.cuh"

constexpr u32 LEADING = MAX_RANK - 2;
constexpr float LOG2_E = 1.44269504f;

struct AttentionMma {
    View y;                    // [..,M,E]; as the other tensors from the chunk's first leading coordinates on
    View queries;              // [..,M,D]
    View keys;                 // [..,D,K]
    View values;               // [..,K,E]
    View mask;                 // [..,M,K], added to the scores; address 0 for none
    Divisor leading[LEADING];  // extents of the chunk's leading axes
    Divisor steps;             // tiles of a matrix along its queries
    Divisor slices;            // and along the elements of its values
    u32 first_row;             // rows of the chunk
    u32 rows;
    u32 row_axis;
    u32 depth;
    u32 count;  // of keys
    u32 width;
    u32 tiles;
    float scale;
    u32 wide;  // bits: queries, keys, values are runs from multiples of 16 bytes on
    u32 padding;
};

static_assert(sizeof(AttentionMma) == 5 * 88 + 72 + 40, "mirrored in bind/attention_mma.rs");

// Keys of a block; the class of an operator says how many strands it has.
template <u32 HEAD, u32 WIDTH, u32 STRANDS>
constexpr u32 KEYS = STRANDS == 1 ? 64 : HEAD + WIDTH <= 128 ? 32 : 16;

__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// What a maximum is subtracted as: a row whose keys are all masked so far has none.
__device__ __forceinline__ float finite(float greatest) { return greatest == __uint_as_float(0xff800000u) ? 0.0f : greatest; }

extern __shared__ uint4 shared_pieces[];

template <u32 HEAD, u32 WIDTH, u32 STRANDS, u32 GROUPS>
__device__ __forceinline__ void attend(const AttentionMma& p) {
    constexpr u32 THREADS = 32 * STRANDS * GROUPS, QUERIES = 16 * GROUPS;
    constexpr u32 BLOCK = KEYS<HEAD, WIDTH, STRANDS>, STEP = BLOCK * STRANDS;
    constexpr u32 HEAD_PITCH = HEAD + ROW_GAP, WIDTH_PITCH = WIDTH + ROW_GAP;
    constexpr u32 STAGE = STEP * (HEAD_PITCH + WIDTH_PITCH);
    constexpr float LOWEST = -__builtin_huge_valf();
    __shared__ float strand_greatest[STRANDS][QUERIES], strand_sum[STRANDS][QUERIES];
    // Queries, then two stages of keys and values; at last, in place of the stages, each strand's sums.
    const u32 queries = shared_address(shared_pieces), stages = queries + 2 * QUERIES * HEAD_PITCH;
    float* const totals = reinterpret_cast<float*>(reinterpret_cast<u16*>(shared_pieces) + QUERIES * HEAD_PITCH);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 strand = warp / GROUPS, group = warp % GROUPS;
    const u32 row_axis = p.row_axis, column_axis = p.row_axis + 1;
    const float scale = __fmul_rn(p.scale, LOG2_E);
    const u32 turns = (p.count + STEP - 1) / STEP;
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 strip = divide(tile, p.slices);
        const u32 first_column = (tile - strip * p.slices.divisor) * WIDTH;
        u32 rest = divide(strip, p.steps);
        const u32 first = (strip - rest * p.steps.divisor) * QUERIES;
        i64 y_at = 0, q_at = 0, k_at = 0, v_at = 0, mask_at = 0;
#pragma unroll
        for (u32 i = 0; i < LEADING; ++i) {
            const u32 axis = LEADING - 1 - i;
            const u32 above = divide(rest, p.leading[axis]);
            const i64 at = rest - above * p.leading[axis].divisor;
            // Axes from the row axis on have an extent of 1 here.
            y_at += at * p.y.strides[axis], q_at += at * p.queries.strides[axis];
            k_at += at * p.keys.strides[axis], v_at += at * p.values.strides[axis];
            mask_at += at * p.mask.strides[axis];
            rest = above;
        }
        const u32 row = p.first_row + first;
        q_at += static_cast<i64>(row) * p.queries.strides[row_axis];
        y_at += static_cast<i64>(row) * p.y.strides[row_axis] + static_cast<i64>(first_column) * p.y.strides[column_axis];
        v_at += static_cast<i64>(first_column) * p.values.strides[column_axis];
        mask_at += static_cast<i64>(row) * p.mask.strides[row_axis];
        const u32 rows = p.rows - first, columns = p.width - first_column;
        const Rows from_queries{p.queries.address + 2 * q_at, p.queries.strides[row_axis], p.queries.strides[column_axis], rows, p.depth, (p.wide & 1) != 0};
        const Rows from_keys{p.keys.address + 2 * k_at, p.keys.strides[column_axis], p.keys.strides[row_axis], p.count, p.depth, (p.wide & 2) != 0};
        const Rows from_values{p.values.address + 2 * v_at, p.values.strides[row_axis], p.values.strides[column_axis], p.count, columns, (p.wide & 4) != 0};
        const auto fetch = [&](u32 turn) {
            const u32 to = stages + 2 * (turn % 2 * STAGE);
            fetch_rows<STEP, HEAD, THREADS>(to, from_keys, turn * STEP);
            fetch_rows<STEP, WIDTH, THREADS>(to + 2 * STEP * HEAD_PITCH, from_values, turn * STEP);
        };
        __syncthreads();
        fetch_rows<QUERIES, HEAD, THREADS>(queries, from_queries, 0);
        u32 q[HEAD / 16][4];
        float total[WIDTH / 8][4], greatest[2] = {LOWEST, LOWEST}, sum[2] = {0.0f, 0.0f};
#pragma unroll
        for (u32 n = 0; n < WIDTH / 8; ++n) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) total[n][i] = 0.0f;
        }
        // A stage is brought while the one before it is worked on.
        for (u32 next = 0; next <= turns; ++next) {
            if (next < turns) fetch(next);
            commit_copies();
            if (next == 0) continue;
            const u32 turn = next - 1;
            wait_copies<1>();
            __syncthreads();
            if (turn == 0) {
#pragma unroll
                for (u32 k = 0; k < HEAD / 16; ++k) load_matrices(q[k], queries + 2 * ((group * 16 + lane % 16) * HEAD_PITCH + k * 16 + lane / 16 * 8));
            }
            const u32 keys = stages + 2 * (turn % 2 * STAGE + strand * BLOCK * HEAD_PITCH);
            const u32 values = stages + 2 * (turn % 2 * STAGE + STEP * HEAD_PITCH + strand * BLOCK * WIDTH_PITCH);
            const u32 begin = turn * STEP + strand * BLOCK;
            float s[BLOCK / 8][4];
#pragma unroll
            for (u32 n = 0; n < BLOCK / 8; n += 2) {
#pragma unroll
                for (u32 i = 0; i < 4; ++i) s[n][i] = s[n + 1][i] = 0.0f;
#pragma unroll
                for (u32 k = 0; k < HEAD / 16; ++k) {
                    u32 b[4];
                    load_matrices(b, keys + 2 * ((n * 8 + lane / 16 * 8 + lane % 8) * HEAD_PITCH + k * 16 + lane / 8 % 2 * 8));
                    multiply(s[n], q[k], b[0], b[1]);
                    multiply(s[n + 1], q[k], b[2], b[3]);
                }
            }
            // Element i of fragment n: query lane / 4 + i / 2 * 8, key 8 * n + lane % 4 * 2 + i % 2.
            const u32 key = begin + lane % 4 * 2;
#pragma unroll
            for (u32 n = 0; n < BLOCK / 8; ++n) {
#pragma unroll
                for (u32 i = 0; i < 4; ++i) s[n][i] = __fmul_rn(s[n][i], scale);
            }
            if (p.mask.address != 0) {
#pragma unroll
                for (u32 n = 0; n < BLOCK / 8; ++n) {
#pragma unroll
                    for (u32 i = 0; i < 4; ++i) {
                        const u32 query = group * 16 + lane / 4 + i / 2 * 8, at = key + n * 8 + i % 2;
                        if (query >= rows || at >= p.count) continue;
                        const i64 element = mask_at + static_cast<i64>(query) * p.mask.strides[row_axis] + static_cast<i64>(at) * p.mask.strides[column_axis];
                        s[n][i] = __fmaf_rn(half_to_float(*pointer_to<u16>(p.mask.address, element)), LOG2_E, s[n][i]);
                    }
                }
            }
            if (begin + BLOCK > p.count) {
#pragma unroll
                for (u32 n = 0; n < BLOCK / 8; ++n) {
#pragma unroll
                    for (u32 i = 0; i < 4; ++i) s[n][i] = key + n * 8 + i % 2 < p.count ? s[n][i] : LOWEST;
                }
            }
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                float most = greatest[half];
#pragma unroll
                for (u32 n = 0; n < BLOCK / 8; ++n) most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
                const float base = finite(most), factor = power_of_two(__fsub_rn(greatest[half], base));
                greatest[half] = most;
                float weights = 0.0f;
#pragma unroll
                for (u32 n = 0; n < BLOCK / 8; ++n) {
#pragma unroll
                    for (u32 i = 2 * half; i < 2 * half + 2; ++i) {
                        s[n][i] = power_of_two(__fsub_rn(s[n][i], base));
                        weights = __fadd_rn(weights, s[n][i]);
                    }
                }
                sum[half] = __fmaf_rn(sum[half], factor, weights);
#pragma unroll
                for (u32 n = 0; n < WIDTH / 8; ++n) {
                    total[n][2 * half] = __fmul_rn(total[n][2 * half], factor);
                    total[n][2 * half + 1] = __fmul_rn(total[n][2 * half + 1], factor);
                }
            }
#pragma unroll
            for (u32 k = 0; k < BLOCK / 16; ++k) {
                const u32 a[4] = {two_rounded(s[2 * k][0], s[2 * k][1]), two_rounded(s[2 * k][2], s[2 * k][3]),
                                  two_rounded(s[2 * k + 1][0], s[2 * k + 1][1]), two_rounded(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
                for (u32 n = 0; n < WIDTH / 8; n += 2) {
                    u32 b[4];
                    load_matrices_turned(b, values + 2 * ((k * 16 + lane % 16) * WIDTH_PITCH + n * 8 + lane / 16 * 8));
                    multiply(total[n], a, b[0], b[1]);
                    multiply(total[n + 1], a, b[2], b[3]);
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            sum[half] = __fadd_rn(sum[half], __shfl_xor_sync(0xffffffffu, sum[half], 1));
            sum[half] = __fadd_rn(sum[half], __shfl_xor_sync(0xffffffffu, sum[half], 2));
            const u32 query = group * 16 + lane / 4 + half * 8;
            if (lane % 4 == 0) strand_greatest[strand][query] = greatest[half], strand_sum[strand][query] = sum[half];
            float* const to = totals + (strand * QUERIES + query) * WIDTH_PITCH + lane % 4 * 2;
#pragma unroll
            for (u32 n = 0; n < WIDTH / 8; ++n) *reinterpret_cast<float2*>(to + n * 8) = make_float2(total[n][2 * half], total[n][2 * half + 1]);
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < QUERIES * (WIDTH / 8); i += THREADS) {
            const u32 query = i / (WIDTH / 8), column = i % (WIDTH / 8) * 8;
            if (query >= rows || column >= columns) continue;
            float most = strand_greatest[0][query];
#pragma unroll
            for (u32 other = 1; other < STRANDS; ++other) most = fmaxf(most, strand_greatest[other][query]);
            float all = 0.0f, mean[8] = {};
#pragma unroll
            for (u32 other = 0; other < STRANDS; ++other) {
                const float factor = power_of_two(__fsub_rn(strand_greatest[other][query], finite(most)));
                const float* part = totals + (other * QUERIES + query) * WIDTH_PITCH + column;
                all = __fmaf_rn(strand_sum[other][query], factor, all);
#pragma unroll
                for (u32 j = 0; j < 8; ++j) mean[j] = __fmaf_rn(part[j], factor, mean[j]);
            }
#pragma unroll
            for (u32 j = 0; j < 8; ++j) mean[j] = __fdiv_rn(mean[j], all);
            const u32 left = columns - column, count = left < 8 ? left : 8;
            const i64 step = p.y.strides[column_axis];
            store_run(p.y.address, F16, y_at + static_cast<i64>(query) * p.y.strides[row_axis] + column * step, count, mean, step);
        }
    }
}

#define ATTENTION(NAME, HEAD, WIDTH, STRANDS, GROUPS)                                                                      \
    extern "C" __global__ void __launch_bounds__(32 * STRANDS * GROUPS) NAME(const __grid_constant__ AttentionMma p) {     \
        attend<HEAD, WIDTH, STRANDS, GROUPS>(p);                                                                           \
    }

// Elements of a key and of a value at most, strands, groups of sixteen queries: as in plan/tactic/attention.rs.
ATTENTION(attention_16_32_1_4, 16, 32, 1, 4)
ATTENTION(attention_16_32_4_1, 16, 32, 4, 1)
ATTENTION(attention_16_32_4_2, 16, 32, 4, 2)
ATTENTION(attention_32_32_1_4, 32, 32, 1, 4)
ATTENTION(attention_32_32_4_1, 32, 32, 4, 1)
ATTENTION(attention_32_32_4_2, 32, 32, 4, 2)
ATTENTION(attention_64_64_1_4, 64, 64, 1, 4)
ATTENTION(attention_64_64_4_1, 64, 64, 4, 1)
ATTENTION(attention_64_64_4_2, 64, 64, 4, 2)
ATTENTION(attention_96_96_1_4, 96, 96, 1, 4)
ATTENTION(attention_96_96_4_1, 96, 96, 4, 1)
ATTENTION(attention_96_96_4_2, 96, 96, 4, 2)
ATTENTION(attention_128_128_1_4, 128, 128, 1, 4)
ATTENTION(attention_128_128_4_1, 128, 128, 4, 1)
ATTENTION(attention_128_128_4_2, 128, 128, 4, 2)
