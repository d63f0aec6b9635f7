// Matrix products of two computed tensors of halves with any strides, on tensor cores.
//
// A block computes a tile of one matrix. Either operand goes into shared memory as it lies, along its rows or along its columns,
// and is turned on its way into the registers (pair_load.cuh). The four warps of a block have a quarter of the tile each. Where outputs are
// few and K is long, they are strands: each brings and sums a range of K for the whole tile, and the ranges are added in ascending order. Of
// a very long K there are more ranges than strands: they are summed in rounds, one after another, or side by side by the blocks of a
// cluster, which then share out the outputs and read each other's sums.
// Every sum takes sixteen k at a time in ascending order, whatever the tile; then come the bias and the tail, in f32.
#include "chain.cuh"
#include "cluster.cuh"
#include "divide.cuh"
#include "pair_load.cuh"
#include "parameters.cuh"
#include "tail.cuh"

constexpr u32 PAIR_THREADS = 128;
constexpr u32 STAGES = 4;

// Of a block of K in shared memory, as many as the smallest GPU's has room for.
template <u32 STRANDS>
constexpr u32 DEPTH_OF = STRANDS == 1 ? 64 : 32;

// Bits of PairMma::ways.
constexpr u32 A_WIDE = 1, B_WIDE = 2;  // runs from multiples of 16 bytes on, in the order in which they are read
constexpr u32 EIGHTS = 4;              // results are whole runs of halves from multiples of 8 bytes on, with nothing behind the product
constexpr u32 ADDS_EIGHTS = 8;         // but the sum with a tensor that lies so, too
constexpr u32 ADDS_FIRST = 16;         // which is the sum's first operand

struct PairMma {
    View y;
    View a;     // [.., M, K]
    View b;     // [.., K, N]
    View bias;  // of the output's shape; address 0 for none
    Tail tail;
    u32 start[MAX_RANK];      // of the chunk
    Divisor outer[MAX_RANK];  // extents of the chunk along the leading axes, 1 for rows and columns
    Divisor tiles_down;
    Divisor tiles_across;
    u32 row_axis;             // the last but one
    u32 rows;                 // of the chunk, from start[row_axis] on
    u32 columns;
    u32 depth;
    u32 range;                // of K that a strand sums in a round
    u32 tiles;
    u32 ways;
    u32 rounds;
};

static_assert(sizeof(PairMma) == 4 * 88 + 1080 + 24 + 72 + 24 + 32, "mirrored in bind/pair_mma.rs");

extern __shared__ uint4 shared_pieces[];

// Bias and tail of `count` neighbours. Out of line, so that kernels share the interpreter.
__device__ __noinline__ void follow(const PairMma& p, float (&values)[8], const u32 (&at)[MAX_RANK], u32 count) {
    const u32 axis = p.row_axis + 1;
    if (p.bias.address != 0) {
        float bias[8];
        load_run(p.bias.address, p.bias.dtype, element_of(p.bias.strides, at), p.bias.strides[axis], count, bias);
#pragma unroll
        for (u32 j = 0; j < 8; ++j) values[j] = __fadd_rn(values[j], bias[j]);
    }
    tail_run(p.tail, values, count, at, axis);
}

// The same at a row and a column of the chunk, of the matrix at `outer`. Works on copies: what a call takes by reference lies in
// memory everywhere.
__device__ __forceinline__ void follow_at(const PairMma& p, float (&values)[8], const u32 (&outer)[MAX_RANK], u32 row, u32 column, u32 count) {
    float copies[8];
    u32 at[MAX_RANK];
#pragma unroll
    for (u32 j = 0; j < 8; ++j) copies[j] = values[j];
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; ++axis) {
        at[axis] = axis == p.row_axis ? p.start[axis] + row : axis == p.row_axis + 1 ? column : outer[axis];
    }
    follow(p, copies, at, count);
#pragma unroll
    for (u32 j = 0; j < 8; ++j) values[j] = copies[j];
}

// Eight sums, 16 bytes at a time.
__device__ __forceinline__ void load_sums(float (&values)[8], const float* from) {
    const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

// Adds eight sums to those before them, of which there are none at `first`.
__device__ __forceinline__ void gather_sums(float (&values)[8], const float (&more)[8], bool first) {
#pragma unroll
    for (u32 j = 0; j < 8; ++j) values[j] = first ? more[j] : __fadd_rn(values[j], more[j]);
}

// Eight sums of another block, by an address of `remote_address`.
__device__ __forceinline__ void load_remote_sums(float (&values)[8], u32 from) {
    const float4 low = load_remote(from), high = load_remote(from + 16);
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

// Eight results, or four, from a multiple of 8 bytes on.
__device__ __forceinline__ void store_eights(u64 to, u32 count, const float (&v)[8]) {
    *reinterpret_cast<uint2*>(to) = make_uint2(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]));
    if (count > 4) *reinterpret_cast<uint2*>(to + 8) = make_uint2(two_rounded(v[4], v[5]), two_rounded(v[6], v[7]));
}

// What is added to eight results, or to four.
__device__ __forceinline__ uint4 load_eights(u64 from, u32 count) {
    const uint2 low = *reinterpret_cast<const uint2*>(from);
    const uint2 high = count > 4 ? *reinterpret_cast<const uint2*>(from + 8) : make_uint2(0, 0);
    return make_uint4(low.x, low.y, high.x, high.y);
}

// SIDE outputs of a tile along rows and columns. A is turned where its rows lie side by side, B where its columns do not. MATES blocks
// are a cluster and sum a round each; one alone sums all rounds.
template <u32 SIDE, u32 STRANDS, u32 MATES, bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void pair(const PairMma& p) {
    constexpr u32 DEPTH = DEPTH_OF<STRANDS>;
    constexpr u32 A_BLOCK = BLOCK<SIDE, DEPTH, A_TURNED>, B_BLOCK = BLOCK<SIDE, DEPTH, !B_TURNED>;
    constexpr u32 STAGE = STRANDS * (A_BLOCK + B_BLOCK), PITCH = SIDE + ROW_GAP;
    constexpr u32 WARP_SIDE = STRANDS > 1 ? SIDE : SIDE / 2, PARTS = WARP_SIDE / 16;  // of a warp, and in sixteens
    constexpr u32 LOADERS = PAIR_THREADS / STRANDS;
    constexpr u32 GROUPS = SIDE * (SIDE / 8), EACH = MATES > 1 ? 1 : GROUPS / PAIR_THREADS;  // of eight outputs, and of a thread
    static_assert(STRANDS == 1 || GROUPS == PAIR_THREADS, "each thread adds a group");
    const u32 stages = shared_address(shared_pieces);
    float* const sums = reinterpret_cast<float*>(shared_pieces);  // in place of the stages, a tile a strand
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 strand = STRANDS > 1 ? warp : 0;
    const u32 down = STRANDS > 1 ? 0 : warp / 2 * WARP_SIDE, across = STRANDS > 1 ? 0 : warp % 2 * WARP_SIDE;
    const u32 column_axis = p.row_axis + 1;
    const i64 a_row = p.a.strides[p.row_axis], a_k = p.a.strides[column_axis];
    const i64 b_k = p.b.strides[p.row_axis], b_column = p.b.strides[column_axis];
    const i64 y_row = p.y.strides[p.row_axis], y_column = p.y.strides[column_axis];
    const TailOperand &one = p.tail.call[0].a, &other = p.tail.call[0].b;
    const bool adds_first = (p.ways & ADDS_FIRST) != 0;
    const u64 addends_of = adds_first ? one.address : other.address;
    const i64 addend_row = adds_first ? one.strides[p.row_axis] : other.strides[p.row_axis];
    const u32 turns = (p.range + DEPTH - 1) / DEPTH;
    bring_around(p, p.tail);
    const u32 first_tile = blockIdx.x / MATES;
    for (u32 tile = first_tile; tile < p.tiles; tile += gridDim.x / MATES) {
        const u32 strip = divide(tile, p.tiles_across);
        const u32 first_column = (tile - strip * p.tiles_across.divisor) * SIDE;
        u32 rest = divide(strip, p.tiles_down);
        const u32 first_row = (strip - rest * p.tiles_down.divisor) * SIDE;
        u32 at[MAX_RANK];
#pragma unroll
        for (u32 i = 0; i < MAX_RANK; ++i) {
            const u32 axis = MAX_RANK - 1 - i;
            const u32 above = divide(rest, p.outer[axis]);
            at[axis] = axis < p.row_axis ? p.start[axis] + rest - above * p.outer[axis].divisor : 0;
            rest = above;
        }
        const i64 row_of_all = p.start[p.row_axis] + first_row;
        const u64 a = p.a.address + 2 * (element_of(p.a.strides, at) + row_of_all * a_row);
        const u64 b = p.b.address + 2 * (element_of(p.b.strides, at) + static_cast<i64>(first_column) * b_column);
        const i64 y = element_of(p.y.strides, at) + row_of_all * y_row + static_cast<i64>(first_column) * y_column;
        const u32 rows = p.rows - first_row, columns = p.columns - first_column;
        const u32 thread = threadIdx.x % LOADERS;
        const PairLoader<SIDE, DEPTH, A_TURNED, LOADERS> from_a(Lines{a, a_row, a_k, rows, (p.ways & A_WIDE) != 0}, thread);
        const PairLoader<SIDE, DEPTH, !B_TURNED, LOADERS> from_b(Lines{b, b_column, b_k, columns, (p.ways & B_WIDE) != 0}, thread);
        // Where the tile lies is known before the wait.
        if (tile == first_tile) {
            settle(static_cast<u32>(from_a.address) ^ static_cast<u32>(from_b.address) ^ static_cast<u32>(y));
            wait_for_predecessors();
            release_successors();
        }
        // Ranges behind the end of K add nothing, nor a zero.
        const auto is_live = [&](u32 round, u32 s) { return round * STRANDS + s == 0 || (round * STRANDS + s) * p.range < p.depth; };
        float total[8];  // of a thread's group, over the rounds
        const auto group_at = [&](u32 i) { return i / (SIDE / 8) * PITCH + i % (SIDE / 8) * 8; };
        const auto is_there = [&](u32 i) { return i / (SIDE / 8) < rows && i % (SIDE / 8) * 8 < columns; };
        const auto count_of = [&](u32 i) { return columns - i % (SIDE / 8) * 8 < 8 ? columns - i % (SIDE / 8) * 8 : 8; };
        uint4 addends[EACH];
        const i64 addend_first = (adds_first ? element_of(one.strides, at) : element_of(other.strides, at)) + row_of_all * addend_row + first_column;
        const auto addend = [&](u32 i) {
            const i64 element = addend_first + i / (SIDE / 8) * addend_row + i % (SIDE / 8) * 8;
            const bool there = (p.ways & ADDS_EIGHTS) && is_there(i);
            return there ? load_eights(addends_of + 2 * static_cast<u64>(element), count_of(i)) : make_uint4(0, 0, 0, 0);
        };
        const u32 first_round = MATES > 1 ? cluster_rank() : 0, last_round = MATES > 1 ? first_round : p.rounds - 1;
#pragma unroll 1
        for (u32 round = first_round; round <= last_round; ++round) {
            float d[PARTS][2 * PARTS][4];
#pragma unroll
            for (u32 i = 0; i < PARTS * 2 * PARTS * 4; ++i) d[i / (8 * PARTS)][i / 4 % (2 * PARTS)][i % 4] = 0.0f;
            const u32 from = (round * STRANDS + strand) * p.range;
            const u32 end = from + p.range < p.depth ? from + p.range : p.depth;
            auto load_a = from_a;
            auto load_b = from_b;
            load_a.skip(from), load_b.skip(from);
            const auto stage_of = [&](u32 turn) { return stages + 2 * (turn % STAGES * STAGE + strand * (A_BLOCK + B_BLOCK)); };
            const auto multiply_stage = [&](u32 at_a) {
                const u32 at_b = at_a + 2 * A_BLOCK;
#pragma unroll
                for (u32 k = 0; k < DEPTH; k += 16) {
                    u32 x[PARTS][4], w[PARTS][4];
#pragma unroll
                    for (u32 i = 0; i < PARTS; ++i) {
                        const u32 m = down + i * 16, n = across + i * 16;
                        if constexpr (A_TURNED) {
                            load_matrices_turned(x[i], at_a + 2 * ((k + lane % 8 + lane / 16 * 8) * PITCH + m + lane / 8 % 2 * 8));
                        } else {
                            load_matrices(x[i], at_a + 2 * ((m + lane % 16) * (DEPTH + ROW_GAP) + k + lane / 16 * 8));
                        }
                        if constexpr (B_TURNED) {
                            load_matrices(w[i], at_b + 2 * ((n + lane / 16 * 8 + lane % 8) * (DEPTH + ROW_GAP) + k + lane / 8 % 2 * 8));
                        } else {
                            load_matrices_turned(w[i], at_b + 2 * ((k + lane % 16) * PITCH + n + lane / 16 * 8));
                        }
                    }
#pragma unroll
                    for (u32 i = 0; i < PARTS; ++i) {
#pragma unroll
                        for (u32 j = 0; j < 2 * PARTS; ++j) multiply(d[i][j], x[i], w[j / 2][j % 2 * 2], w[j / 2][j % 2 * 2 + 1]);
                    }
                }
            };
            // Beyond the last turn an empty group, so that groups and turns count alike.
            const auto sum = [&](auto wide) {
                constexpr bool WIDE = decltype(wide)::VALUE;
                const auto fetch = [&](u32 turn) {
                    if (turn < turns) {
                        const u32 to = stage_of(turn), k = from + turn * DEPTH, left = k < end ? end - k : 0;
                        load_a.template load<WIDE>(to, left), load_b.template load<WIDE>(to + 2 * A_BLOCK, left);
                    }
                    commit_copies();
                };
#pragma unroll 1
                for (u32 turn = 0; turn + 1 < STAGES; ++turn) fetch(turn);
#pragma unroll 1
                for (u32 turn = 0; turn < turns; ++turn) {
                    wait_copies<STAGES - 2>();
                    // All copies of the block are there, of strands those of the warp, and the stage before has been read.
                    if (STRANDS > 1) {
                        __syncwarp();
                    } else {
                        __syncthreads();
                    }
                    fetch(turn + STAGES - 1);
                    multiply_stage(stage_of(turn));
                }
            };
            __syncthreads();
            if ((p.ways & (A_WIDE | B_WIDE)) == (A_WIDE | B_WIDE)) {
                sum(Truth<true>{});
            } else {
                sum(Truth<false>{});
            }
            // What is added comes while the sums change hands.
            if (round == last_round && MATES == 1) {
#pragma unroll
                for (u32 g = 0; g < EACH; ++g) addends[g] = addend(threadIdx.x + g * PAIR_THREADS);
            }
            __syncthreads();
#pragma unroll
            for (u32 i = 0; i < PARTS; ++i) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    float* const to = sums + (strand * SIDE + down + i * 16 + half * 8 + lane / 4) * PITCH + across + lane % 4 * 2;
#pragma unroll
                    for (u32 j = 0; j < 2 * PARTS; ++j) *reinterpret_cast<float2*>(to + j * 8) = make_float2(d[i][j][2 * half], d[i][j][2 * half + 1]);
                }
            }
            __syncthreads();
            if constexpr (STRANDS > 1 && MATES == 1) {
#pragma unroll
                for (u32 s = 0; s < STRANDS; ++s) {
                    if (!is_live(round, s)) continue;
                    float more[8];
                    load_sums(more, sums + s * (SIDE * PITCH) + group_at(threadIdx.x));
                    gather_sums(total, more, round == 0 && s == 0);
                }
            }
        }
        const auto finish_eights = [&](float (&values)[8], u32 i, uint4 addend) {
            if (!is_there(i)) return;
            if (p.ways & ADDS_EIGHTS) {
                float others[8];
                widen(addend, others);
                tail_round(p.tail.head_rounded, values);
#pragma unroll
                for (u32 j = 0; j < 8; ++j) values[j] = __fadd_rn(values[j], others[j]);
            }
            const i64 element = y + i / (SIDE / 8) * y_row + i % (SIDE / 8) * 8;
            store_eights(p.y.address + 2 * static_cast<u64>(element), count_of(i), values);
        };
        const auto finish_any = [&](float (&values)[8], u32 i) {
            if (!is_there(i)) return;
            const u32 row = i / (SIDE / 8), column = i % (SIDE / 8) * 8, count = count_of(i);
            if (p.bias.address != 0 || p.tail.calls > 0) follow_at(p, values, at, first_row + row, first_column + column, count);
            store_run(p.y.address, p.y.dtype, y + row * y_row + column * y_column, count, values, y_column);
        };
        const auto finish = [&](float (&values)[8], u32 i, uint4 addend) {
            if (p.ways & EIGHTS) {
                finish_eights(values, i, addend);
            } else {
                finish_any(values, i);
            }
        };
        if constexpr (STRANDS == 1) {
            float values[8];
            if (p.ways & EIGHTS) {
#pragma unroll
                for (u32 g = 0; g < EACH; ++g) {
                    load_sums(values, sums + group_at(threadIdx.x + g * PAIR_THREADS));
                    finish_eights(values, threadIdx.x + g * PAIR_THREADS, addends[g]);
                }
            } else {
#pragma unroll 1
                for (u32 i = threadIdx.x; i < GROUPS; i += PAIR_THREADS) {
                    load_sums(values, sums + group_at(i));
                    finish_any(values, i);
                }
            }
        } else if constexpr (MATES == 1) {
            finish(total, threadIdx.x, addends[0]);
        } else {
            constexpr u32 OWN = GROUPS / MATES;
            const u32 i = first_round * OWN + threadIdx.x;
            if (threadIdx.x < OWN) addends[0] = addend(i);
            cluster_meet();
            if (threadIdx.x < OWN) {
                const u32 from = stages + 4 * group_at(i);
#pragma unroll 1
                for (u32 mate = 0; mate < MATES; ++mate) {
                    float more[STRANDS][8];
                    const u32 theirs = remote_address(from, mate);
#pragma unroll
                    for (u32 s = 0; s < STRANDS; ++s) load_remote_sums(more[s], theirs + s * (SIDE * PITCH * 4));
#pragma unroll
                    for (u32 s = 0; s < STRANDS; ++s) {
                        if (is_live(mate, s)) gather_sums(total, more[s], mate == 0 && s == 0);
                    }
                }
                finish(total, i, addends[0]);
            }
            cluster_meet();  // nobody writes its sums anew, or ends, while others read them
        }
    }
}

#define PAIR(NAME, SIDE, STRANDS, MATES, A_TURNED, B_TURNED)                                                          \
    extern "C" __global__ void __launch_bounds__(PAIR_THREADS, 4) NAME(const __grid_constant__ PairMma p) {              \
        pair<SIDE, STRANDS, MATES, A_TURNED, B_TURNED>(p);                                                            \
    }

// Outputs of a tile along either side, strands, and whether a and b are turned; with `mates` for clusters.
PAIR(pair_64_1_00, 64, 1, 1, false, false)
PAIR(pair_64_1_01, 64, 1, 1, false, true)
PAIR(pair_64_1_10, 64, 1, 1, true, false)
PAIR(pair_64_1_11, 64, 1, 1, true, true)
PAIR(pair_32_1_00, 32, 1, 1, false, false)
PAIR(pair_32_1_01, 32, 1, 1, false, true)
PAIR(pair_32_1_10, 32, 1, 1, true, false)
PAIR(pair_32_1_11, 32, 1, 1, true, true)
PAIR(pair_32_4_00, 32, 4, 1, false, false)
PAIR(pair_32_4_01, 32, 4, 1, false, true)
PAIR(pair_32_4_10, 32, 4, 1, true, false)
PAIR(pair_32_4_11, 32, 4, 1, true, true)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
PAIR(pair_32_4_mates_00, 32, 4, 4, false, false)
PAIR(pair_32_4_mates_01, 32, 4, 4, false, true)
PAIR(pair_32_4_mates_10, 32, 4, 4, true, false)
PAIR(pair_32_4_mates_11, 32, 4, 4, true, true)
#endif
