// A recurrent layer (LSTM, GRU) of halves on tensor cores, where neither a block (recurrent_block.cu) nor a cluster (recurrent_cluster.cu)
// keeps its weights: all steps of 16 rows of the batch in one launch, whose blocks read all weights anew at every step. c lies behind
// the states.
#include "recurrent_mma.cuh"

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
