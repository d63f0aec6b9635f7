// Attention of halves on tensor cores: scores and weights never leave the registers.
//
// A warp takes sixteen queries, or twice as many, and walks blocks of keys with a running maximum, rescaling its sums when that grows (Milakov and
// Gimelshein 2018; Dao et al. 2022). Where queries are few, warps in `STRANDS` share out the keys: strand `s` takes blocks s,
// s + STRANDS and so on, and their sums are joined at the end in ascending order. Blocks and strands follow from the shape
// alone, and rows know nothing of each other: so results depend neither on chunks nor on the grid.
//
// Weights are rounded to f16 before they meet the values; everything else is f32: scores take sixteen elements of a key at a
// time in ascending order, sums of values sixteen keys at a time.
#include "attention.cuh"
#include "attention_weights.cuh"
#include "chain.cuh"
#include "turned.cuh"


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

static_assert(sizeof(AttentionMma) == 5 * 88 + 72 + 40, "mirrored in bind/attention/mma.rs");

// Keys of a block; the class of an operator says how many strands it has.
template <u32 HEAD, u32 WIDTH, u32 STRANDS>
constexpr u32 KEYS = STRANDS == 1 ? 64 : HEAD + WIDTH <= 128 ? 32 : 16;

extern __shared__ uint4 shared_pieces[];

// A warp has TILES times sixteen queries, a block GROUPS such warps a strand.
template <u32 HEAD, u32 WIDTH, u32 STRANDS, u32 GROUPS, u32 TILES>
__device__ __forceinline__ void attend(const AttentionMma& p) {
    constexpr u32 THREADS = 32 * STRANDS * GROUPS, QUERIES = 16 * GROUPS * TILES;
    constexpr u32 BLOCK = KEYS<HEAD, WIDTH, STRANDS>, STEP = BLOCK * STRANDS;
    constexpr u32 HEAD_PITCH = HEAD + ROW_GAP, WIDTH_PITCH = WIDTH + ROW_GAP;
    constexpr u32 STAGE = STEP * (HEAD_PITCH + WIDTH_PITCH);
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
        const u32 matrix = divide(strip, p.steps);
        const u32 first = (strip - matrix * p.steps.divisor) * QUERIES;
        const View* const views[] = {&p.y, &p.queries, &p.keys, &p.values, &p.mask};
        const Matrices<5> from = matrices_of<5>(matrix, p.leading, views);
        const i64 row = p.first_row + first, k_at = from.at[2];
        const i64 y_at = from.at[0] + row * p.y.strides[row_axis] + static_cast<i64>(first_column) * p.y.strides[column_axis];
        const i64 q_at = from.at[1] + row * p.queries.strides[row_axis];
        const i64 v_at = from.at[3] + static_cast<i64>(first_column) * p.values.strides[column_axis];
        const i64 mask_at = from.at[4] + row * p.mask.strides[row_axis];
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
        u32 q[TILES][HEAD / 16][4];
        float total[TILES][WIDTH / 8][4], greatest[TILES][2], sum[TILES][2];
#pragma unroll
        for (u32 t = 0; t < TILES; ++t) {
#pragma unroll
            for (u32 n = 0; n < WIDTH / 8; ++n) {
#pragma unroll
                for (u32 i = 0; i < 4; ++i) total[t][n][i] = 0.0f;
            }
            greatest[t][0] = greatest[t][1] = lowest();
            sum[t][0] = sum[t][1] = 0.0f;
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
                for (u32 i = 0; i < TILES * (HEAD / 16); ++i) {
                    const u32 t = i / (HEAD / 16), k = i % (HEAD / 16);
                    load_matrices(q[t][k], queries + 2 * (((group * TILES + t) * 16 + lane % 16) * HEAD_PITCH + k * 16 + lane / 16 * 8));
                }
            }
            const u32 keys = stages + 2 * (turn % 2 * STAGE + strand * BLOCK * HEAD_PITCH);
            const u32 values = stages + 2 * (turn % 2 * STAGE + STEP * HEAD_PITCH + strand * BLOCK * WIDTH_PITCH);
            const u32 begin = turn * STEP + strand * BLOCK;
            float s[TILES][BLOCK / 8][4];
#pragma unroll
            for (u32 n = 0; n < BLOCK / 8; n += 2) {
#pragma unroll
                for (u32 i = 0; i < 4 * TILES; ++i) s[i / 4][n][i % 4] = s[i / 4][n + 1][i % 4] = 0.0f;
#pragma unroll
                for (u32 k = 0; k < HEAD / 16; ++k) {
                    u32 b[4];
                    load_matrices(b, keys + 2 * ((n * 8 + lane / 16 * 8 + lane % 8) * HEAD_PITCH + k * 16 + lane / 8 % 2 * 8));
#pragma unroll
                    for (u32 t = 0; t < TILES; ++t) {
                        multiply(s[t][n], q[t][k], b[0], b[1]);
                        multiply(s[t][n + 1], q[t][k], b[2], b[3]);
                    }
                }
            }
            // Element i of fragment n: query lane / 4 + i / 2 * 8, key 8 * n + lane % 4 * 2 + i % 2.
            const u32 key = begin + lane % 4 * 2;
#pragma unroll
            for (u32 t = 0; t < TILES; ++t) {
                const u32 query = (group * TILES + t) * 16 + lane / 4;
#pragma unroll
                for (u32 n = 0; n < BLOCK / 8; ++n) {
#pragma unroll
                    for (u32 i = 0; i < 4; ++i) s[t][n][i] = __fmul_rn(s[t][n][i], scale);
                }
                if (p.mask.address != 0) {
#pragma unroll
                    for (u32 n = 0; n < BLOCK / 8; ++n) {
#pragma unroll
                        for (u32 i = 0; i < 4; ++i) {
                            const u32 row = query + i / 2 * 8, at = key + n * 8 + i % 2;
                            if (row >= rows || at >= p.count) continue;
                            const i64 element = mask_at + static_cast<i64>(row) * p.mask.strides[row_axis] + static_cast<i64>(at) * p.mask.strides[column_axis];
                            s[t][n][i] = __fmaf_rn(half_to_float(*pointer_to<u16>(p.mask.address, element)), LOG2_E, s[t][n][i]);
                        }
                    }
                }
                if (begin + BLOCK > p.count) {
#pragma unroll
                    for (u32 n = 0; n < BLOCK / 8; ++n) {
#pragma unroll
                        for (u32 i = 0; i < 4; ++i) s[t][n][i] = key + n * 8 + i % 2 < p.count ? s[t][n][i] : lowest();
                    }
                }
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    float most = greatest[t][half];
#pragma unroll
                    for (u32 n = 0; n < BLOCK / 8; ++n) most = fmaxf(most, fmaxf(s[t][n][2 * half], s[t][n][2 * half + 1]));
                    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
                    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
                    const float base = finite(most), factor = power_of_two(__fsub_rn(greatest[t][half], base));
                    greatest[t][half] = most;
                    float weights = 0.0f;
#pragma unroll
                    for (u32 n = 0; n < BLOCK / 8; ++n) {
#pragma unroll
                        for (u32 i = 2 * half; i < 2 * half + 2; ++i) {
                            s[t][n][i] = power_of_two(__fsub_rn(s[t][n][i], base));
                            weights = __fadd_rn(weights, s[t][n][i]);
                        }
                    }
                    sum[t][half] = __fmaf_rn(sum[t][half], factor, weights);
#pragma unroll
                    for (u32 n = 0; n < WIDTH / 8; ++n) {
                        total[t][n][2 * half] = __fmul_rn(total[t][n][2 * half], factor);
                        total[t][n][2 * half + 1] = __fmul_rn(total[t][n][2 * half + 1], factor);
                    }
                }
            }
#pragma unroll
            for (u32 k = 0; k < BLOCK / 16; ++k) {
                u32 a[TILES][4];
#pragma unroll
                for (u32 i = 0; i < 4 * TILES; ++i) {
                    const float(&pair)[4] = s[i / 4][2 * k + i % 4 / 2];
                    a[i / 4][i % 4] = two_rounded(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
                }
#pragma unroll
                for (u32 n = 0; n < WIDTH / 8; n += 2) {
                    u32 b[4];
                    load_matrices_turned(b, values + 2 * ((k * 16 + lane % 16) * WIDTH_PITCH + n * 8 + lane / 16 * 8));
#pragma unroll
                    for (u32 t = 0; t < TILES; ++t) {
                        multiply(total[t][n], a[t], b[0], b[1]);
                        multiply(total[t][n + 1], a[t], b[2], b[3]);
                    }
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (u32 i = 0; i < 2 * TILES; ++i) {
            const u32 t = i / 2, half = i % 2;
            float all = __fadd_rn(sum[t][half], __shfl_xor_sync(0xffffffffu, sum[t][half], 1));
            all = __fadd_rn(all, __shfl_xor_sync(0xffffffffu, all, 2));
            const u32 query = (group * TILES + t) * 16 + lane / 4 + half * 8;
            if (lane % 4 == 0) strand_greatest[strand][query] = greatest[t][half], strand_sum[strand][query] = all;
            float* const to = totals + (strand * QUERIES + query) * WIDTH_PITCH + lane % 4 * 2;
#pragma unroll
            for (u32 n = 0; n < WIDTH / 8; ++n) *reinterpret_cast<float2*>(to + n * 8) = make_float2(total[t][n][2 * half], total[t][n][2 * half + 1]);
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

#define ATTENTION(NAME, HEAD, WIDTH, STRANDS, GROUPS, TILES)                                                               \
    extern "C" __global__ void __launch_bounds__(32 * STRANDS * GROUPS) NAME(const __grid_constant__ AttentionMma p) {     \
        attend<HEAD, WIDTH, STRANDS, GROUPS, TILES>(p);                                                                    \
    }

// Elements of a key and of a value at most, strands, warps a strand, sixteens of queries a warp: as in plan/tactic/attention.rs.
ATTENTION(attention_16_32_1_4_1, 16, 32, 1, 4, 1)
ATTENTION(attention_16_32_1_4_2, 16, 32, 1, 4, 2)
ATTENTION(attention_16_32_4_1_1, 16, 32, 4, 1, 1)
ATTENTION(attention_16_32_4_2_1, 16, 32, 4, 2, 1)
ATTENTION(attention_16_32_4_2_2, 16, 32, 4, 2, 2)
ATTENTION(attention_32_32_1_4_1, 32, 32, 1, 4, 1)
ATTENTION(attention_32_32_1_4_2, 32, 32, 1, 4, 2)
ATTENTION(attention_32_32_4_1_1, 32, 32, 4, 1, 1)
ATTENTION(attention_32_32_4_2_1, 32, 32, 4, 2, 1)
ATTENTION(attention_32_32_4_2_2, 32, 32, 4, 2, 2)
ATTENTION(attention_64_64_1_4_1, 64, 64, 1, 4, 1)
ATTENTION(attention_64_64_1_4_2, 64, 64, 1, 4, 2)
ATTENTION(attention_64_64_4_1_1, 64, 64, 4, 1, 1)
ATTENTION(attention_64_64_4_2_1, 64, 64, 4, 2, 1)
ATTENTION(attention_64_64_4_2_2, 64, 64, 4, 2, 2)
ATTENTION(attention_96_96_1_4_1, 96, 96, 1, 4, 1)
ATTENTION(attention_96_96_4_1_1, 96, 96, 4, 1, 1)
ATTENTION(attention_96_96_4_2_1, 96, 96, 4, 2, 1)
ATTENTION(attention_128_128_1_4_1, 128, 128, 1, 4, 1)
ATTENTION(attention_128_128_4_1_1, 128, 128, 4, 1, 1)
ATTENTION(attention_128_128_4_2_1, 128, 128, 4, 2, 1)
