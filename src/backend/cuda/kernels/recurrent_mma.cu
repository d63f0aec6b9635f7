// A recurrent layer (LSTM, GRU) of halves on tensor cores: all steps of 16 rows of the batch in one launch.
//
// A warp owns groups of four hidden units: a product of its 16 rows by their 16 gate values, ordered so that every thread
// ends with the four gates of one unit for two rows. The sum over k is ascending, in f32 from zero; then the
// pre-activation is added. c stays in f32, h is rounded to a half at every step: it is what the cells of a GRU keep.
//
// `recurrent_cluster`: the blocks of a cluster share the units of a layer, keep their weights in registers, and send each
// step's h into the shared memory of all of them, where a barrier counts its bytes: nobody meets between steps.
// `recurrent_stream`: a block reads all weights anew at every step. Both give the same bits.
#include "chain.cuh"
#include "cluster.cuh"
#include "math.cuh"
#include "mma.cuh"
#include "view.cuh"

constexpr u32 TILE_ROWS = 16;
constexpr u32 GROUP_UNITS = 4;      // hidden units of a warp's product
constexpr u32 DEEP = 16;            // k of an instruction
constexpr u32 TOGETHER = 4;         // blocks of k that are read together
constexpr u32 SKEW = 8;             // halves behind a row of h, so that its rows begin in different banks
constexpr u32 CLUSTER_WARPS = 8;
constexpr u32 RESIDENT = 16;        // blocks of k whose weights a thread keeps: up to 256 hidden units
constexpr u32 STREAM_WARPS = 16;

struct RecurrentMma {
    View gates;    // [T, B, 4H] pre-activations, gates in the order i, o, f, c, of GRUs z, r, n, x
    View first_h;  // [B, H], address 0 for zeros
    View first_c;
    View y;        // [T, B, H]
    View last_c;   // [B, H], address 0 if it is not asked for
    u64 weights;   // by group, block of k and lane: four pairs of halves
    u32 steps;
    u32 hidden;
    u32 deeps;     // blocks of k, a multiple of TOGETHER
    u32 groups;
    u32 reverse;
    u32 first_row;
    u32 rows;      // of the chunk
    u32 tiles;     // of TILE_ROWS rows
};

static_assert(sizeof(RecurrentMma) == 5 * 88 + 40, "mirrored in bind/recurrent_mma.rs");

// h, twice: what a step reads, and what it writes. In `recurrent_stream` c lies behind it.
extern __shared__ __align__(16) u16 states[];

__device__ __forceinline__ u32 pitch(const RecurrentMma& p) { return p.deeps * DEEP + SKEW; }

// Where a thread's two cells lie: one hidden unit, rows `row` and `row + 8` of a tile.
struct Cells {
    u32 row;
    u32 unit;
    i64 batch[2];         // rows of the batch
    bool present[2];
    const u16* gates[2];  // gate i at step 0
    u16* y[2];            // at step 0
};

__device__ __forceinline__ Cells cells_of(const RecurrentMma& p, u32 tile, u32 group) {
    const u32 lane = threadIdx.x % 32;
    Cells cells;
    cells.row = lane / 4;
    cells.unit = group * GROUP_UNITS + lane % 4;
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        const u32 row = tile * TILE_ROWS + cells.row + 8 * half;
        const i64 batch = static_cast<i64>(p.first_row) + row;
        cells.batch[half] = batch;
        cells.present[half] = row < p.rows && cells.unit < p.hidden;
        cells.gates[half] = pointer_to<u16>(p.gates.address, batch * p.gates.strides[1] + cells.unit * p.gates.strides[2]);
        cells.y[half] = reinterpret_cast<u16*>(p.y.address) + batch * p.y.strides[1] + cells.unit * p.y.strides[2];
    }
    return cells;
}

__device__ __forceinline__ u32 time_of(const RecurrentMma& p, u32 step) { return p.reverse ? p.steps - 1 - step : step; }

// The cells' pre-activations at a step, whose gates i lie `from` there and the others `next` behind each other; zeros of what
// is not there, whose h and c then stay zero.
__device__ __forceinline__ void load_gates(const Cells& cells, const u16* const (&from)[2], i64 next, u16 (&z)[2][4]) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        const u16* gate = from[half];
#pragma unroll
        for (u32 i = 0; i < 4; ++i, gate += next) z[half][i] = cells.present[half] ? *gate : static_cast<u16>(0);
    }
}

// What a cell keeps from step to step, before the first: c, of a GRU h.
template <bool GATED>
__device__ __forceinline__ float first_kept(const RecurrentMma& p, const Cells& cells, u32 half) {
    const View& view = GATED ? p.first_h : p.first_c;
    if (view.address == 0 || !cells.present[half]) return 0.0f;
    const float first = load_float(view.address, view.dtype, cells.batch[half] * view.strides[0] + cells.unit * view.strides[1]);
    return GATED ? rounded_to_half(first) : first;
}

__device__ __forceinline__ void store_last_c(const RecurrentMma& p, const Cells& cells, u32 half, float c) {
    if (p.last_c.address == 0 || !cells.present[half]) return;
    const i64 to = cells.batch[half] * p.last_c.strides[0] + cells.unit * p.last_c.strides[1];
    if (p.last_c.dtype == F16) {
        *(reinterpret_cast<u16*>(p.last_c.address) + to) = float_to_half(c);
    } else {
        *(reinterpret_cast<float*>(p.last_c.address) + to) = c;
    }
}

__device__ __forceinline__ void store_y(const Cells& cells, u16* const (&to)[2], const u16 (&h)[2]) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        if (cells.present[half]) *to[half] = h[half];
    }
}

// Gate functions by the approximate exponential and reciprocal of the hardware, a few units in the last place of f32 off
// and without a branch: the chain of steps waits for them.
__device__ __forceinline__ float quick_sigmoid(float x) {
    float power, result;
    asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(__fmul_rn(x, -1.44269504f)));
    asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(__fadd_rn(1.0f, power)));
    return result;
}

// Near zero by the polynomial of `hyperbolic_tangent`, where the difference would cancel.
__device__ __forceinline__ float quick_tangent(float x) {
    const float z = __fmul_rn(x, x);
    float q = __fmaf_rn(0.0022925576f, z, -0.00834378f);
    q = __fmaf_rn(q, z, 0.021768868f);
    q = __fmaf_rn(q, z, -0.053959254f);
    q = __fmaf_rn(q, z, 0.13333304f);
    q = __fmaf_rn(q, z, -0.33333334f);
    const float small = __fmaf_rn(__fmul_rn(q, z), x, x);
    const float large = __fmaf_rn(2.0f, quick_sigmoid(__fadd_rn(x, x)), -1.0f);
    return absolute(x) < 0.625f ? small : large;
}

// A cell's next h as a half, and what it keeps. `low` and `high` hold the sums of two gates each, in their order.
template <bool GATED>
__device__ __forceinline__ u16 advance(const u16 (&z)[4], const float* low, const float* high, float& kept) {
    const float first = quick_sigmoid(__fadd_rn(low[0], half_to_float(z[0])));
    const float second = quick_sigmoid(__fadd_rn(low[1], half_to_float(z[1])));
    const float third = __fadd_rn(high[0], half_to_float(z[2]));
    const float fourth = __fadd_rn(high[1], half_to_float(z[3]));
    if constexpr (GATED) {
        const float fresh = quick_tangent(__fmaf_rn(second, third, fourth));
        const u16 h = float_to_half(__fmaf_rn(first, __fsub_rn(kept, fresh), fresh));
        kept = half_to_float(h);
        return h;
    } else {
        kept = __fmaf_rn(quick_sigmoid(third), kept, __fmul_rn(first, quick_tangent(fourth)));
        return float_to_half(__fmul_rn(quick_tangent(kept), second));
    }
}

// Zeros in both states: what no cell writes is read as zero.
__device__ __forceinline__ void clear_states(const RecurrentMma& p) {
    for (u32 i = threadIdx.x; i < 2 * TILE_ROWS * pitch(p); i += blockDim.x) states[i] = 0;
}

// h of a row of the chunk before the first step; zero behind the last row.
__device__ __forceinline__ u16 first_h(const RecurrentMma& p, u32 row, u32 unit) {
    if (p.first_h.address == 0 || row >= p.rows) return 0;
    return float_to_half(load_float(p.first_h.address, p.first_h.dtype, (p.first_row + row) * p.first_h.strides[0] + unit * p.first_h.strides[1]));
}

// The tile's h before the first step.
__device__ __forceinline__ void load_first_h(const RecurrentMma& p, u32 tile_row) {
    for (u32 i = threadIdx.x; i < TILE_ROWS * p.hidden; i += blockDim.x) {
        const u32 row = i / p.hidden, unit = i % p.hidden;
        states[row * pitch(p) + unit] = first_h(p, tile_row + row, unit);
    }
}

// Address of the 16 bytes that this lane names to `load_matrices` in the first block of k of a state.
__device__ __forceinline__ u32 operand_address(const RecurrentMma& p, u32 state) {
    const u32 lane = threadIdx.x % 32;
    return shared_address(states + (state * TILE_ROWS + lane % 16) * pitch(p) + lane / 16 * 8);
}

__device__ __forceinline__ uint4 weights_of(const RecurrentMma& p, u32 group, u32 deep) {
    return *pointer_to<uint4>(p.weights, (static_cast<i64>(group) * p.deeps + deep) * 32 + threadIdx.x % 32);
}

template <bool GATED>
__device__ __forceinline__ void stream(const RecurrentMma& p) {
    wait_for_predecessors();
    release_successors();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* kept = reinterpret_cast<float*>(states + 2 * TILE_ROWS * pitch(p));  // two of a thread side by side, by group
    clear_states(p);
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        __syncthreads();
        load_first_h(p, tile * TILE_ROWS);
        for (u32 group = warp; group < p.groups; group += STREAM_WARPS) {
            const Cells cells = cells_of(p, tile, group);
#pragma unroll
            for (u32 half = 0; half < 2; ++half) kept[(group * 32 + lane) * 2 + half] = first_kept<GATED>(p, cells, half);
        }
        __syncthreads();
        for (u32 step = 0; step < p.steps; ++step) {
            const u32 operand = operand_address(p, step % 2);
            u16* next = states + (step + 1) % 2 * TILE_ROWS * pitch(p);
            for (u32 group = warp; group < p.groups; group += STREAM_WARPS) {
                const Cells cells = cells_of(p, tile, group);
                const i64 gates = time_of(p, step) * p.gates.strides[0], y = time_of(p, step) * p.y.strides[0];
                u16 z[2][4];
                load_gates(cells, {cells.gates[0] + gates, cells.gates[1] + gates}, p.hidden * p.gates.strides[2], z);
                float low[4] = {}, high[4] = {};
#pragma unroll 4
                for (u32 deep = 0; deep < p.deeps; ++deep) {
                    const uint4 w = weights_of(p, group, deep);
                    u32 a[4];
                    load_matrices(a, operand + deep * DEEP * 2);
                    multiply(low, a, w.x, w.y);
                    multiply(high, a, w.z, w.w);
                }
                u16 h[2];
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    float& c = kept[(group * 32 + lane) * 2 + half];
                    h[half] = advance<GATED>(z[half], low + 2 * half, high + 2 * half, c);
                    next[(cells.row + 8 * half) * pitch(p) + cells.unit] = h[half];
                    if (step + 1 == p.steps) store_last_c(p, cells, half, c);
                }
                store_y(cells, {cells.y[0] + y, cells.y[1] + y}, h);
            }
            __syncthreads();
        }
    }
}

// By cell, as bind/recurrent_mma.rs names them.
#define STREAM(NAME, GATED)                                                                                              \
    extern "C" __global__ void __launch_bounds__(STREAM_WARPS * 32) NAME(const __grid_constant__ RecurrentMma p) {        \
        stream<GATED>(p);                                                                                                \
    }
STREAM(recurrent_stream_lstm, false)
STREAM(recurrent_stream_gru, true)

#if __CUDA_ARCH__ >= 900
// In a cluster a state lies by the block that makes it, so that a block's share is one run of bytes; then by row: 32 units,
// whose pieces of 8 are permuted, so that the same piece of 8 rows meets different banks.
constexpr u32 BLOCK_UNITS = CLUSTER_WARPS * GROUP_UNITS;
constexpr u32 SHARE_ROW_BYTES = BLOCK_UNITS * 2, SHARE_BYTES = TILE_ROWS * SHARE_ROW_BYTES;

__device__ __forceinline__ u32 piece_address(u32 share, u32 row, u32 piece) {
    return share + row * SHARE_ROW_BYTES + (piece ^ row / 2 % 4) * 16;
}

// Writes the h of a warp's cells into its block's share of a state: two lanes of a quad the four units of a row each.
__device__ __forceinline__ void put(u32 share, u32 warp, u32 row, const u16 (&h)[2]) {
    const u32 lane = threadIdx.x % 32, upper = lane % 2, both = h[0] | static_cast<u32>(h[1]) << 16;
    u32 of[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) of[i] = __shfl_sync(0xffffffffu, both, lane / 4 * 4 + i);
    const u32 pick = upper ? 0x7632u : 0x5410u;
    const u32 first = __byte_perm(of[0], of[1], pick), second = __byte_perm(of[2], of[3], pick);
    const u32 to = piece_address(share, row + 8 * upper, warp / 2) + warp % 2 * 8;
    if (lane % 4 < 2) asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(first), "r"(second) : "memory");
}

// The tile's h before the first step, for a cluster.
__device__ __forceinline__ void load_first_shares(const RecurrentMma& p, u32 tile_row) {
    for (u32 i = threadIdx.x; i < TILE_ROWS * p.hidden; i += blockDim.x) {
        const u32 row = i / p.hidden, unit = i % p.hidden;
        const u32 at = piece_address(unit / BLOCK_UNITS * SHARE_BYTES, row, unit % BLOCK_UNITS / 8) / 2 + unit % 8;
        states[at] = first_h(p, tile_row + row, unit);
    }
}

template <bool GATED>
__device__ __forceinline__ void share_units(const RecurrentMma& p) {
    const u32 blocks = cluster_size(), rank = cluster_rank(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 group = rank * CLUSTER_WARPS + warp;
    const bool active = group < p.groups;  // warps behind the last unit only wait with the others
    uint4 weights[RESIDENT];
#pragma unroll
    for (u32 deep = 0; deep < RESIDENT; ++deep) {
        weights[deep] = active && deep < p.deeps ? weights_of(p, group, deep) : make_uint4(0, 0, 0, 0);
    }
    const u32 base = shared_address(states), state_bytes = p.deeps * DEEP * TILE_ROWS * 2;
    for (u32 i = threadIdx.x; i < 2 * state_bytes / 4; i += blockDim.x) reinterpret_cast<u32*>(states)[i] = 0;
    // For each state a barrier that counts the bytes of the other blocks' shares.
    const u32 barriers = base + 2 * state_bytes, bytes = (blocks - 1) * SHARE_BYTES;
    if (threadIdx.x == 0) {
        barrier_init(barriers, 1);
        barrier_init(barriers + 8, 1);
        barrier_init_fence();
    }
    // Before the first write into another block it must run, and have cleared its states.
    copy_fence();
    cluster_meet();
    wait_for_predecessors();
    release_successors();
    const u32 stride = gridDim.x / blocks;
    u32 parities = 0;
    for (u32 tile = blockIdx.x / blocks; tile < p.tiles; tile += stride) {
        const Cells cells = cells_of(p, tile, group);
        // The others may be at the first step already: it writes the other state.
        load_first_shares(p, tile * TILE_ROWS);
        float c[2] = {first_kept<GATED>(p, cells, 0), first_kept<GATED>(p, cells, 1)};
        // Where the step's gates and y lie.
        const i64 first = time_of(p, 0), gates_step = p.reverse ? -p.gates.strides[0] : p.gates.strides[0];
        const i64 y_step = p.reverse ? -p.y.strides[0] : p.y.strides[0], next = p.hidden * p.gates.strides[2];
        const u16* gates[2] = {cells.gates[0] + first * p.gates.strides[0], cells.gates[1] + first * p.gates.strides[0]};
        u16* y[2] = {cells.y[0] + first * p.y.strides[0], cells.y[1] + first * p.y.strides[0]};
        u16 z[2][4];
        load_gates(cells, gates, next, z);
        __syncthreads();
        for (u32 step = 0; step < p.steps; ++step) {
            const u32 state = step % 2, other = state ^ 1;
            const bool last = step + 1 == p.steps;
            if (!last && threadIdx.x == 0 && bytes != 0) barrier_arrive_expecting(barriers + other * 8, bytes);
            if (step > 0 && bytes != 0) {
                barrier_wait(barriers + state * 8, parities >> state & 1);
                parities ^= 1 << state;
            }
            u16 h[2] = {0, 0};
            if (active) {
                const u32 from = base + state * state_bytes;
                const u32 even = piece_address(from, lane % 16, lane / 16), odd = piece_address(from, lane % 16, lane / 16 + 2);
                float low[4] = {}, high[4] = {};
#pragma unroll
                for (u32 first = 0; first < RESIDENT; first += TOGETHER) {
                    if (first >= p.deeps) continue;
                    u32 a[TOGETHER][4];
#pragma unroll
                    for (u32 i = 0; i < TOGETHER; ++i) load_matrices(a[i], ((first + i) % 2 ? odd : even) + (first + i) / 2 * SHARE_BYTES);
#pragma unroll
                    for (u32 i = 0; i < TOGETHER; ++i) {
                        multiply(low, a[i], weights[first + i].x, weights[first + i].y);
                        multiply(high, a[i], weights[first + i].z, weights[first + i].w);
                    }
                }
#pragma unroll
                for (u32 half = 0; half < 2; ++half) h[half] = advance<GATED>(z[half], low + 2 * half, high + 2 * half, c[half]);
                // Whoever has all of this h has had all of the one before, so that its state may be written anew.
                if (!last) put(base + other * state_bytes + rank * SHARE_BYTES, warp, cells.row, h);
            }
            if (!last) {
                const u32 own = base + other * state_bytes + rank * SHARE_BYTES;
                copy_fence();
                __syncthreads();
                if (lane == 0 && warp < blocks && warp != rank) {
                    send_run(remote_address(own, warp), own, SHARE_BYTES, remote_address(barriers + other * 8, warp));
                }
            }
            // While the others' h is on its way.
            store_y(cells, y, h);
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                gates[half] += gates_step;
                y[half] += y_step;
            }
            if (!last) load_gates(cells, gates, next, z);
        }
        store_last_c(p, cells, 0, c[0]);
        store_last_c(p, cells, 1, c[1]);
        // Before the next tile, and before the end of a block whose h may still be on its way to others.
        cluster_meet();
    }
}

#define CLUSTER(NAME, GATED)                                                                                             \
    extern "C" __global__ void __launch_bounds__(CLUSTER_WARPS * 32) NAME(const __grid_constant__ RecurrentMma p) {       \
        share_units<GATED>(p);                                                                                           \
    }
CLUSTER(recurrent_cluster_lstm, false)
CLUSTER(recurrent_cluster_gru, true)
#endif
