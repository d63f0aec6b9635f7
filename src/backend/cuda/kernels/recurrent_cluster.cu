// A recurrent layer (LSTM, GRU) of halves on tensor cores, of more hidden units than a block keeps the weights of
// (recurrent_block.cu), on GPUs with clusters: all steps of a tile of rows in one launch, with the bits of recurrent_mma.cu.
//
// The blocks of a cluster share the units of a layer. A warp keeps the weights of one group of them in registers, and sends each
// step's h of its cells from registers into the shared memory of every block, its own among them, where a barrier counts
// the bytes: blocks never meet between steps. Pre-activations come in pieces of 16 bytes, some steps ahead, into a ring in shared
// memory, and rows of h leave in such pieces, a step later, from the state that the products read: a thread's own cells lie in
// eight rows, whose lines would each be a turn of the load unit. Layers whose rows are no whole pieces have kernels of their own, as
// what they do by halves would slow the others down, though they never do it.
#include "recurrent_mma.cuh"

#if __CUDA_ARCH__ >= 900
#include "cluster.cuh"

constexpr u32 RESIDENT = 16;                           // blocks of k whose weights a thread keeps: up to 256 hidden units
constexpr u32 STAGES = 4;                              // steps whose pre-activations are in shared memory
constexpr u32 PIECE = 8;                               // halves of 16 bytes
constexpr u32 CELL_BYTES = GROUP_UNITS * 2;            // a group's units of a row
constexpr u32 GROUP_BYTES = TILE_ROWS * CELL_BYTES;    // of 16 rows
constexpr u32 TURN = 8;                                // rows by which groups of odd numbers are turned

// A block's share of a layer: `WARPS` groups of units, for tiles of `PRODUCTS` times 16 rows.
template <u32 PRODUCTS, u32 WARPS>
struct Share {
    static constexpr u32 ROWS = PRODUCTS * TILE_ROWS, UNITS = WARPS * GROUP_UNITS, THREADS = WARPS * 32;
    static constexpr u32 PIECES = UNITS / PIECE;                        // of a row
    static constexpr u32 GATE_BYTES = UNITS * 2;
    static constexpr u32 GATES_PITCH = 4 * GATE_BYTES + 16, STAGE_BYTES = ROWS * GATES_PITCH;
    static_assert(ROWS * 4 * PIECES == PRODUCTS * THREADS, "each thread copies a piece for each product");
    static_assert(ROWS * PIECES <= THREADS, "a thread stores at most one piece");
};

// Where the units of a group lie in a state, in 16 rows of its tile: states are by group, then by row. Rows of groups of odd numbers are
// turned, so that the lanes of a quad meet different banks.
template <u32 PRODUCTS>
__device__ __forceinline__ u32 cell_address(u32 state, u32 group, u32 product, u32 row) {
    return state + (group * PRODUCTS + product) * GROUP_BYTES + (row ^ group % 2 * TURN) * CELL_BYTES;
}

__device__ __forceinline__ u32 load_word(u32 address) {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

__device__ __forceinline__ uint2 load_cell(u32 address) {
    uint2 cell;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(cell.x), "=r"(cell.y) : "r"(address) : "memory");
    return cell;
}

// The first operand of a block of k for 16 rows; `upper` and `lower` are where this lane's words lie in the first one, in rows up to 8 and in
// the others.
template <u32 PRODUCTS>
__device__ __forceinline__ void load_operand(u32 (&a)[4], u32 upper, u32 lower, u32 product, u32 deep) {
    constexpr u32 GROUP = PRODUCTS * GROUP_BYTES;
    const u32 at = deep * (DEEP / GROUP_UNITS) * GROUP + product * GROUP_BYTES;
    a[0] = load_word(upper + at), a[1] = load_word(lower + at), a[2] = load_word(upper + at + 2 * GROUP), a[3] = load_word(lower + at + 2 * GROUP);
}

// The tile's h before the first step, in a block's own state.
template <typename S, u32 PRODUCTS>
__device__ __forceinline__ void load_first_cells(const RecurrentMma& p, u32 tile_row) {
    for (u32 i = threadIdx.x; i < S::ROWS * p.hidden; i += S::THREADS) {
        const u32 row = i / p.hidden, unit = i - row * p.hidden;
        const u32 at = cell_address<PRODUCTS>(0, unit / GROUP_UNITS, row / TILE_ROWS, row % TILE_ROWS) / 2 + unit % GROUP_UNITS;
        states[at] = first_h(p, tile_row + row, unit);
    }
}

// The pieces of pre-activations that a thread brings for each step: one for each product.
template <typename S, u32 PRODUCTS, bool WIDE>
struct Pieces {
    const u16* from[PRODUCTS];  // at the next step
    u32 to[PRODUCTS];           // in a stage, in bytes
    u32 units[PRODUCTS];        // that are there: 0 behind the last row

    __device__ __forceinline__ Pieces(const RecurrentMma& p, u32 tile_row, u32 first_unit) {
#pragma unroll
        for (u32 e = 0; e < PRODUCTS; ++e) {
            const u32 i = threadIdx.x + e * S::THREADS, piece = i % S::PIECES, gate = i / S::PIECES % 4, row = i / S::PIECES / 4;
            const u32 unit = first_unit + piece * PIECE;
            const bool live = tile_row + row < p.rows && unit < p.hidden;
            units[e] = live ? min(p.hidden - unit, PIECE) : 0;
            const i64 batch = static_cast<i64>(p.first_row) + (live ? tile_row + row : 0);
            const i64 column = live ? static_cast<i64>(gate) * p.hidden + unit : 0;
            from[e] = pointer_to<u16>(p.gates.address, batch * p.gates.strides[1] + time_of(p, 0) * p.gates.strides[0] + column * p.gates.strides[2]);
            to[e] = row * S::GATES_PITCH + gate * S::GATE_BYTES + piece * 16;
        }
    }

    // Asks for the pre-activations of the next step, if it is one.
    __device__ __forceinline__ void ask(const RecurrentMma& p, u32 step, u32 stage) {
        if (step < p.steps) {
#pragma unroll
            for (u32 e = 0; e < PRODUCTS; ++e) {
                if constexpr (WIDE) {
                    copy_16(stage + to[e], reinterpret_cast<u64>(from[e]), units[e] * 2);
                } else {
                    for (u32 u = 0; u < PIECE; ++u) {
                        const u16 z = u < units[e] ? from[e][u * p.gates.strides[2]] : static_cast<u16>(0);
                        asm volatile("st.shared.u16 [%0], %1;" ::"r"(stage + to[e] + u * 2), "h"(z) : "memory");
                    }
                }
                from[e] += p.reverse ? -p.gates.strides[0] : p.gates.strides[0];
            }
        }
        commit_copies();
    }
};

// The piece of its block's units of each step's h that a thread stores.
template <typename S, u32 PRODUCTS, bool WIDE>
struct Results {
    u16* to;      // at the next step
    u32 group;    // the first of two
    u32 row;
    u32 units;    // that are there

    __device__ __forceinline__ Results(const RecurrentMma& p, u32 tile_row, u32 first_unit) {
        const u32 piece = threadIdx.x % S::PIECES, unit = first_unit + piece * PIECE;
        row = threadIdx.x / S::PIECES;
        group = unit / GROUP_UNITS;
        units = row < S::ROWS && tile_row + row < p.rows && unit < p.hidden ? min(p.hidden - unit, PIECE) : 0;
        const i64 batch = static_cast<i64>(p.first_row) + tile_row + row;
        to = reinterpret_cast<u16*>(p.y.address) + batch * p.y.strides[1] + time_of(p, 0) * p.y.strides[0] + unit * p.y.strides[2];
    }

    // Stores what a state holds as the h of the next step.
    __device__ __forceinline__ void store(const RecurrentMma& p, u32 state) {
        if (units > 0) {
            const uint2 low = load_cell(cell_address<PRODUCTS>(state, group, row / TILE_ROWS, row % TILE_ROWS));
            const uint2 high = load_cell(cell_address<PRODUCTS>(state, group + 1, row / TILE_ROWS, row % TILE_ROWS));
            const u32 words[4] = {low.x, low.y, high.x, high.y};
            if constexpr (WIDE) {
                *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
            } else {
#pragma unroll
                for (u32 u = 0; u < PIECE; ++u) {
                    if (u < units) to[u * p.y.strides[2]] = static_cast<u16>(words[u / 2] >> u % 2 * 16);
                }
            }
        }
        to += p.reverse ? -p.y.strides[0] : p.y.strides[0];
    }
};

// Stores four words in the background to an address of `remote_address` that is a multiple of 16; the bytes count at a barrier of the same block.
__device__ __forceinline__ void send_four(u32 address, const u32 (&words)[4], u32 barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(barrier)
                 : "memory");
}

// Where a lane sends the h of its warp's cells: two rows of them, to every fourth block. Addresses of another block's shared memory lie as
// far apart as those of this one.
struct Peers {
    static constexpr u32 EACH = 2;
    u32 base[EACH];    // of its shared memory
    bool there[EACH];
    bool own[EACH];

    __device__ __forceinline__ Peers(u32 base_here) {
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u32 block = threadIdx.x % 32 / 8 + 4 * i;
            there[i] = block < cluster_size();
            own[i] = block == cluster_rank();
            base[i] = remote_address(base_here, there[i] ? block : 0);
        }
    }

    // Sends the h of 16 rows to where their group lies in a state, from the base on, of every block or its own alone; there the bytes count at
    // a barrier.
    __device__ __forceinline__ void send(u32 to, u32 barrier, const u16 (&h)[2], bool alone) const {
        const u32 lane = threadIdx.x % 32;
        // Two units of a row in each lane: of the rows up to 8 in even lanes, of the others in odd ones.
        const u32 both = h[0] | static_cast<u32>(h[1]) << 16, theirs = __shfl_xor_sync(0xffffffffu, both, 1);
        const u32 pair = lane % 2 ? __byte_perm(theirs, both, 0x7632) : __byte_perm(both, theirs, 0x5410);
        u32 words[4];
#pragma unroll
        for (u32 k = 0; k < 4; ++k) words[k] = __shfl_sync(0xffffffffu, pair, (2 * (lane % 4) + k / 2) * 4 + k % 2 * 2 + lane % 8 / 4);
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            if (alone ? own[i] : there[i]) send_four(base[i] + to, words, base[i] + barrier);
        }
    }
};

template <bool GATED, u32 PRODUCTS, u32 WARPS, bool WIDE>
__device__ __forceinline__ void share_units(const RecurrentMma& p) {
    using S = Share<PRODUCTS, WARPS>;
    const u32 blocks = cluster_size(), rank = cluster_rank(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 group = rank * WARPS + warp;
    const bool active = group < p.groups;  // warps behind the last unit only wait with the others
    uint4 weights[RESIDENT];
#pragma unroll
    for (u32 deep = 0; deep < RESIDENT; ++deep) {
        weights[deep] = active && deep < p.deeps ? weights_of(p, group, deep) : make_uint4(0, 0, 0, 0);
    }
    // States, a barrier for each that counts the bytes of all groups, after the last step of its own block's alone, and the ring: from the
    // base on.
    const u32 base = shared_address(states), state_bytes = p.deeps * (DEEP / GROUP_UNITS) * PRODUCTS * GROUP_BYTES;
    const u32 barriers = 2 * state_bytes, stages = base + barriers + 16;
    for (u32 i = threadIdx.x; i < 2 * state_bytes / 4; i += S::THREADS) reinterpret_cast<u32*>(states)[i] = 0;
    const u32 all = p.groups * PRODUCTS * GROUP_BYTES;
    const u32 own = (p.groups > rank * WARPS ? min(p.groups - rank * WARPS, WARPS) : 0) * PRODUCTS * GROUP_BYTES;
    if (threadIdx.x == 0) {
        barrier_init(base + barriers, 1);
        barrier_init(base + barriers + 8, 1);
        barrier_init_fence();
    }
    // Before the first write into another block it must run, and have cleared its states.
    cluster_meet();
    const Peers peers(base);
    wait_for_predecessors();
    release_successors();
    const u32 stride = gridDim.x / blocks;
    u32 parities = 0;
    const auto expect = [&](u32 state, u32 step) {
        if (threadIdx.x == 0 && step < p.steps) barrier_arrive_expecting(base + barriers + state * 8, step + 1 == p.steps ? own : all);
    };
    const auto await = [&](u32 state) {
        barrier_wait(base + barriers + state * 8, parities >> state & 1);
        parities ^= 1 << state;
    };
    // Where this lane's words of operands, its warp's first row and its cells' pre-activations lie in a state, or a stage.
    const u32 upper = cell_address<PRODUCTS>(0, lane % 4 / 2, 0, lane / 4) + lane % 2 * 4;
    const u32 lower = cell_address<PRODUCTS>(0, lane % 4 / 2, 0, lane / 4 + 8) + lane % 2 * 4;
    const u32 sent = cell_address<PRODUCTS>(0, group, 0, 2 * (lane % 8));
    const u16* const gates = states + (barriers + 16 + lane / 4 * S::GATES_PITCH) / 2 + warp * GROUP_UNITS + lane % 4;
    for (u32 tile = blockIdx.x / blocks; tile < p.tiles; tile += stride) {
        Pieces<S, PRODUCTS, WIDE> pieces(p, tile * S::ROWS, rank * S::UNITS);
#pragma unroll
        for (u32 ahead = 0; ahead + 1 < STAGES; ++ahead) pieces.ask(p, ahead, stages + ahead * S::STAGE_BYTES);
        Results<S, PRODUCTS, WIDE> results(p, tile * S::ROWS, rank * S::UNITS);
        // The others may be at the first step already: it writes the other state.
        load_first_cells<S, PRODUCTS>(p, tile * S::ROWS);
        float kept[PRODUCTS][2];
#pragma unroll
        for (u32 m = 0; m < PRODUCTS; ++m) {
            const Cells cells = cells_of(p, tile * PRODUCTS + m, group);
            kept[m][0] = first_kept<GATED>(p, cells, 0), kept[m][1] = first_kept<GATED>(p, cells, 1);
        }
        expect(1, 0);
        wait_copies<STAGES - 2>();
        __syncthreads();
        for (u32 step = 0; step < p.steps; ++step) {
            const u32 state = step % 2, other = state ^ 1, from = base + state * state_bytes;
            // What is there before h is: all else waits until this step's is on its way.
            u16 z[PRODUCTS][2][4];
#pragma unroll
            for (u32 m = 0; m < PRODUCTS; ++m) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const u16* const at = gates + step % STAGES * (S::STAGE_BYTES / 2) + (m * TILE_ROWS + half * 8) * (S::GATES_PITCH / 2);
#pragma unroll
                    for (u32 i = 0; i < 4; ++i) z[m][half][i] = at[i * S::UNITS];
                }
            }
            if (step > 0) await(state);
            if (active) {
                float low[PRODUCTS][4] = {}, high[PRODUCTS][4] = {};
#pragma unroll
                for (u32 first = 0; first < RESIDENT; first += TOGETHER) {
                    if (first >= p.deeps) continue;
                    u32 a[PRODUCTS][TOGETHER][4];
#pragma unroll
                    for (u32 i = 0; i < TOGETHER; ++i) {
#pragma unroll
                        for (u32 m = 0; m < PRODUCTS; ++m) load_operand<PRODUCTS>(a[m][i], from + upper, from + lower, m, first + i);
                    }
#pragma unroll
                    for (u32 i = 0; i < TOGETHER; ++i) {
#pragma unroll
                        for (u32 m = 0; m < PRODUCTS; ++m) {
                            multiply(low[m], a[m][i], weights[first + i].x, weights[first + i].y);
                            multiply(high[m], a[m][i], weights[first + i].z, weights[first + i].w);
                        }
                    }
                }
                // Whoever has all of this h has had all of the one before, so that its state may be written anew.
#pragma unroll
                for (u32 m = 0; m < PRODUCTS; ++m) {
                    u16 h[2];
#pragma unroll
                    for (u32 half = 0; half < 2; ++half) h[half] = advance<GATED>(z[m][half], low[m] + 2 * half, high[m] + 2 * half, kept[m][half]);
                    peers.send(other * state_bytes + sent + m * GROUP_BYTES, barriers + other * 8, h, step + 1 == p.steps);
                }
            }
            expect(state, step + 1);
            pieces.ask(p, step + STAGES - 1, stages + (step + STAGES - 1) % STAGES * S::STAGE_BYTES);
            if (step > 0) results.store(p, from);
            // The next step's pre-activations are there for all, and nobody reads the stage that is written next.
            wait_copies<STAGES - 2>();
            __syncthreads();
        }
        if (p.steps > 0) {
            const u32 state = p.steps % 2;
            await(state);
            results.store(p, base + state * state_bytes);
        }
#pragma unroll
        for (u32 m = 0; m < PRODUCTS; ++m) {
            const Cells cells = cells_of(p, tile * PRODUCTS + m, group);
            store_last_c(p, cells, 0, kept[m][0]);
            store_last_c(p, cells, 1, kept[m][1]);
        }
        wait_copies<0>();
        // Before the next tile, and before the end of a block whose h may still be on its way to others.
        cluster_meet();
    }
}

// By cell, rows of a tile and warps of a block, and whether rows are whole pieces, as bind/recurrent_mma.rs names them.
#define CLUSTER(NAME, GATED, PRODUCTS, WARPS, WIDE)                                                                  \
    extern "C" __global__ void __launch_bounds__(WARPS * 32) NAME(const __grid_constant__ RecurrentMma p) {           \
        share_units<GATED, PRODUCTS, WARPS, WIDE>(p);                                                                \
    }
#define CLUSTERS(NAME, GATED)                          \
    CLUSTER(NAME##_16x8, GATED, 1, 8, true)            \
    CLUSTER(NAME##_16x16, GATED, 1, 16, true)          \
    CLUSTER(NAME##_32x16, GATED, 2, 16, true)          \
    CLUSTER(NAME##_16x8_halves, GATED, 1, 8, false)    \
    CLUSTER(NAME##_16x16_halves, GATED, 1, 16, false)  \
    CLUSTER(NAME##_32x16_halves, GATED, 2, 16, false)
CLUSTERS(recurrent_cluster_lstm, false)
CLUSTERS(recurrent_cluster_gru, true)
#endif
