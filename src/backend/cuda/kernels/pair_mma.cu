// Matrix products of two computed tensors of halves with any strides, on tensor cores.
//
// A block computes a tile of one matrix. Either operand goes into shared memory as it lies, along its rows or along its columns,
// and is turned on its way into the registers; what is in runs neither of 16 bytes nor of 8 is gathered. Where outputs are few and K is long,
// the four warps of a block are strands: each sums a range of K for the whole tile, and the ranges are added in ascending order. Of a
// very long K there are more ranges than strands: they are summed in rounds, one after another, or side by side by the blocks of a
// cluster, which then share out the outputs and read each other's sums. Of a short K that is one range, the first strand sums it, and
// the others help to finish small tiles.
// Every sum takes sixteen k at a time in ascending order, whatever the tile; then come the bias and the tail, in f32.
#include "chain.cuh"
#include "cluster.cuh"
#include "divide.cuh"
#include "tail.cuh"
#include "turned.cuh"

constexpr u32 PAIR_THREADS = 128;
constexpr u32 WARP_SIDE = 32;  // outputs of a warp, along rows and along columns
constexpr u32 STAGES = 4;

// Of a block of K in shared memory, as many as the smallest GPU's has room for.
template <u32 STRANDS>
constexpr u32 DEPTH_OF = STRANDS == 1 ? 64 : 32;

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
    u32 wide;                 // bits: a, b are runs from multiples of 16 bytes on, in the order in which they are read
    u32 rounds;
};

static_assert(sizeof(PairMma) == 4 * 88 + 1080 + 24 + 72 + 24 + 32, "mirrored in bind/pair_mma.rs");

extern __shared__ uint4 shared_pieces[];

// Elements of a block of K of one strand: SIDE lines of K, or K lines of SIDE where the operand is turned.
template <u32 SIDE, u32 DEPTH, bool TURNED>
constexpr u32 BLOCK = TURNED ? DEPTH * (SIDE + ROW_GAP) : SIDE * (DEPTH + ROW_GAP);

// Copies 8 bytes from device to shared memory in the background; `bytes` of them are read, the rest is zero.
__device__ __forceinline__ void copy_8(u32 shared, u64 address, u32 bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared), "l"(address), "r"(bytes) : "memory");
}

// fetch_rows for rows that are not wide: runs from multiples of 8 bytes on come in the background; of others the halves of several
// pieces are in flight together.
template <u32 ROWS, u32 COLUMNS>
__device__ __forceinline__ void fetch_narrow(u32 shared, const Rows& from) {
    constexpr u32 PIECES = COLUMNS / 8, DOWN = PAIR_THREADS / PIECES, TURNS = ROWS / DOWN;
    static_assert(PAIR_THREADS % PIECES == 0 && ROWS % DOWN == 0, "threads have whole rows between them");
    // A thread stays at its piece of a row and goes down.
    const u32 at = threadIdx.x % PIECES * 8, left = at < from.length ? from.length - at : 0;
    const u32 count = left < 8 ? left : 8;
    u32 row = threadIdx.x / PIECES;
    u32 to = shared + 2 * (row * (COLUMNS + ROW_GAP) + at);
    u64 address = from.address + static_cast<u64>(2 * (static_cast<i64>(row) * from.step + static_cast<i64>(at) * from.inner));
    const u64 step = static_cast<u64>(2 * DOWN * from.step);
    const auto down = [&] { row += DOWN, to += 2 * DOWN * (COLUMNS + ROW_GAP), address += step; };
    if (from.inner == 1 && from.step % 4 == 0 && from.address % 8 == 0) {
#pragma unroll
        for (u32 turn = 0; turn < TURNS; ++turn) {
            const u32 low = row >= from.rows ? 0 : count < 4 ? count : 4, high = row >= from.rows || count < 4 ? 0 : count - 4;
            copy_8(to, low > 0 ? address : from.address, 2 * low);
            copy_8(to + 8, high > 0 ? address + 8 : from.address, 2 * high);
            down();
        }
        return;
    }
    constexpr u32 TOGETHER = TURNS < 4 ? TURNS : 4;
#pragma unroll 1
    for (u32 turn = 0; turn < TURNS; turn += TOGETHER) {
        u16 halves[TOGETHER][8];
#pragma unroll
        for (u32 i = 0; i < TOGETHER; ++i) {
#pragma unroll
            for (u32 k = 0; k < 8; ++k) {
                const bool there = row + i * DOWN < from.rows && k < count;
                halves[i][k] = there ? *pointer_to<u16>(address + i * step, static_cast<i64>(k) * from.inner) : 0;
            }
        }
#pragma unroll
        for (u32 i = 0; i < TOGETHER; ++i) {
            u32 words[4];
#pragma unroll
            for (u32 k = 0; k < 4; ++k) words[k] = halves[i][2 * k] | static_cast<u32>(halves[i][2 * k + 1]) << 16;
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
            down();
        }
    }
}

// ROWS rows of COLUMNS halves.
template <u32 ROWS, u32 COLUMNS>
__device__ __forceinline__ void fetch_some(u32 shared, const Rows& from) {
    if (from.wide) {
        fetch_rows<ROWS, COLUMNS, PAIR_THREADS>(shared, from, 0);
    } else {
        fetch_narrow<ROWS, COLUMNS>(shared, from);
    }
}

// An operand of a strand from `k` on, as far as `end`: `line` elements apart along its rows or columns, `step` along K.
template <u32 SIDE, u32 DEPTH, bool TURNED>
__device__ __forceinline__ void fetch_block(u32 shared, u64 address, i64 line, i64 step, u32 lines, u32 k, u32 end, bool wide) {
    const u32 left = k < end ? end - k : 0;
    const u64 from = address + 2 * static_cast<i64>(left > 0 ? k : 0) * step;
    if constexpr (TURNED) {
        fetch_some<DEPTH, SIDE>(shared, Rows{from, step, line, left, lines, wide});
    } else {
        fetch_some<SIDE, DEPTH>(shared, Rows{from, line, step, lines, left, wide});
    }
}

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

// SIDE outputs of a tile along rows and columns. A is turned where its rows lie side by side, B where its columns do not. MATES blocks
// are a cluster and sum a round each; one alone sums all rounds.
template <u32 SIDE, u32 STRANDS, u32 MATES, bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void pair(const PairMma& p) {
    constexpr u32 DEPTH = DEPTH_OF<STRANDS>;
    constexpr u32 A_BLOCK = BLOCK<SIDE, DEPTH, A_TURNED>, B_BLOCK = BLOCK<SIDE, DEPTH, !B_TURNED>;
    constexpr u32 STAGE = STRANDS * (A_BLOCK + B_BLOCK), PITCH = SIDE + ROW_GAP;
    constexpr u32 ACROSS = SIDE / WARP_SIDE;
    constexpr u32 GROUPS = SIDE * (SIDE / 8);  // of eight outputs
    static_assert(STRANDS == 1 || GROUPS == PAIR_THREADS, "each thread adds a group");
    const u32 stages = shared_address(shared_pieces);
    float* const sums = reinterpret_cast<float*>(shared_pieces);  // in place of the stages, a tile a strand
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 strand = STRANDS > 1 ? warp : 0;
    const u32 down = STRANDS > 1 ? 0 : warp / ACROSS * WARP_SIDE, across = STRANDS > 1 ? 0 : warp % ACROSS * WARP_SIDE;
    const u32 column_axis = p.row_axis + 1;
    const i64 a_row = p.a.strides[p.row_axis], a_k = p.a.strides[column_axis];
    const i64 b_k = p.b.strides[p.row_axis], b_column = p.b.strides[column_axis];
    const u32 turns = (p.range + DEPTH - 1) / DEPTH;
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x / MATES; tile < p.tiles; tile += gridDim.x / MATES) {
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
        const u64 a = p.a.address + 2 * (element_of(p.a.strides, at) + static_cast<i64>(p.start[p.row_axis] + first_row) * a_row);
        const u64 b = p.b.address + 2 * (element_of(p.b.strides, at) + static_cast<i64>(first_column) * b_column);
        const u32 rows = p.rows - first_row, columns = p.columns - first_column;
        // Beyond the last turn an empty group, so that groups and turns count alike.
        const auto fetch = [&](u32 round, u32 turn) {
            if (turn >= turns) return commit_copies();
            u32 to = stages + 2 * (turn % STAGES * STAGE);
#pragma unroll
            for (u32 s = 0; s < STRANDS; ++s) {
                const u32 number = round * STRANDS + s;
                const u32 k = number * p.range + turn * DEPTH, most = (number + 1) * p.range, end = most < p.depth ? most : p.depth;
                fetch_block<SIDE, DEPTH, A_TURNED>(to, a, a_row, a_k, rows, k, end, p.wide & 1);
                fetch_block<SIDE, DEPTH, !B_TURNED>(to + 2 * A_BLOCK, b, b_column, b_k, columns, k, end, p.wide & 2);
                to += 2 * (A_BLOCK + B_BLOCK);
            }
            commit_copies();
        };
        // Ranges behind the end of K add nothing, nor a zero.
        const auto is_live = [&](u32 round, u32 s) { return round * STRANDS + s == 0 || (round * STRANDS + s) * p.range < p.depth; };
        float total[8];  // of a thread's group, over the rounds
        const auto group_at = [&](u32 i) { return i / (SIDE / 8) * PITCH + i % (SIDE / 8) * 8; };
        const u32 first_round = MATES > 1 ? cluster_rank() : 0, last_round = MATES > 1 ? first_round : p.rounds - 1;
#pragma unroll 1
        for (u32 round = first_round; round <= last_round; ++round) {
            float d[2][4][4];
#pragma unroll
            for (u32 i = 0; i < 32; ++i) d[i / 16][i / 4 % 4][i % 4] = 0.0f;
            __syncthreads();
#pragma unroll 1
            for (u32 next = 0; next < turns + STAGES - 1; ++next) {
                const bool full = next + 1 >= STAGES;
                if (full) {
                    wait_copies<STAGES - 2>();
                    __syncthreads();  // everybody's copies are there, and the stage before has been read
                }
                fetch(round, next);
                if (!full) continue;
                const u32 turn = next + 1 - STAGES;
                const u32 at_a = stages + 2 * (turn % STAGES * STAGE + strand * (A_BLOCK + B_BLOCK)), at_b = at_a + 2 * A_BLOCK;
#pragma unroll
                for (u32 k = 0; k < DEPTH; k += 16) {
                    u32 x[2][4], w[2][4];
#pragma unroll
                    for (u32 i = 0; i < 2; ++i) {
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
                    for (u32 i = 0; i < 2; ++i) {
#pragma unroll
                        for (u32 j = 0; j < 4; ++j) multiply(d[i][j], x[i], w[j / 2][j % 2 * 2], w[j / 2][j % 2 * 2 + 1]);
                    }
                }
            }
            __syncthreads();
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    float* const to = sums + (strand * SIDE + down + i * 16 + half * 8 + lane / 4) * PITCH + across + lane % 4 * 2;
#pragma unroll
                    for (u32 j = 0; j < 4; ++j) *reinterpret_cast<float2*>(to + j * 8) = make_float2(d[i][j][2 * half], d[i][j][2 * half + 1]);
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
        const i64 y_row = p.y.strides[p.row_axis], y_column = p.y.strides[column_axis];
        const i64 y = element_of(p.y.strides, at) + static_cast<i64>(p.start[p.row_axis] + first_row) * y_row + static_cast<i64>(first_column) * y_column;
        const auto finish = [&](float (&values)[8], u32 i) {
            const u32 row = i / (SIDE / 8), column = i % (SIDE / 8) * 8;
            if (row >= rows || column >= columns) return;
            const u32 left = columns - column, count = left < 8 ? left : 8;
            if (p.bias.address != 0 || p.tail.calls > 0) follow_at(p, values, at, first_row + row, first_column + column, count);
            store_run(p.y.address, p.y.dtype, y + row * y_row + column * y_column, count, values, y_column);
        };
        if constexpr (STRANDS == 1) {
#pragma unroll 1
            for (u32 i = threadIdx.x; i < GROUPS; i += PAIR_THREADS) {
                float values[8];
                load_sums(values, sums + group_at(i));
                finish(values, i);
            }
        } else if constexpr (MATES == 1) {
            finish(total, threadIdx.x);
        } else {
            constexpr u32 OWN = GROUPS / MATES;
            cluster_meet();
            if (threadIdx.x < OWN) {
                const u32 i = first_round * OWN + threadIdx.x, from = stages + 4 * group_at(i);
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
                finish(total, i);
            }
            cluster_meet();  // nobody writes its sums anew, or ends, while others read them
        }
    }
}

#define PAIR(NAME, SIDE, STRANDS, MATES, A_TURNED, B_TURNED)                                                          \
    extern "C" __global__ void __launch_bounds__(PAIR_THREADS) NAME(const __grid_constant__ PairMma p) {              \
        pair<SIDE, STRANDS, MATES, A_TURNED, B_TURNED>(p);                                                            \
    }

// Outputs of a tile along either side, strands, and whether a and b are turned; with `mates` for clusters.
PAIR(pair_64_1_00, 64, 1, 1, false, false)
PAIR(pair_64_1_01, 64, 1, 1, false, true)
PAIR(pair_64_1_10, 64, 1, 1, true, false)
PAIR(pair_64_1_11, 64, 1, 1, true, true)
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
