// A recurrent layer (LSTM, GRU) of halves on tensor cores, of more hidden units than a block keeps the weights of
// (recurrent_block.cu): all steps of 16 rows of the batch in one launch.
//
// `recurrent_cluster`: the blocks of a cluster share the units of a layer, keep their weights in registers, and send each
// step's h into the shared memory of all of them, where a barrier counts its bytes: nobody meets between steps.
// `recurrent_stream`: a block reads all weights anew at every step, and c lies behind its states. Both give the same bits.
#include "cluster.cuh"
#include "recurrent_mma.cuh"

constexpr u32 CLUSTER_WARPS = 8;
constexpr u32 RESIDENT = 16;        // blocks of k whose weights a thread keeps: up to 256 hidden units
constexpr u32 STREAM_WARPS = 16;

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
                if (warp < blocks && warp != rank && elected()) {
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
