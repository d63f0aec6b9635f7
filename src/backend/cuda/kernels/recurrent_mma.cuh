// What the kernels of recurrent layers (LSTM, GRU) of halves on tensor cores share: 16 rows of the batch for all steps.
//
// A warp owns groups of four hidden units: a product of its 16 rows by their 16 gate values, ordered so that every thread
// ends with the four gates of one unit for two rows. The sum over k is ascending, in f32 from zero; then the
// pre-activation is added. c stays in f32, h is rounded to a half at every step: it is what the cells of a GRU keep.
#pragma once

#include "chain.cuh"
#include "math.cuh"
#include "mma.cuh"
#include "view.cuh"

constexpr u32 TILE_ROWS = 16;
constexpr u32 GROUP_UNITS = 4;      // hidden units of a warp's product
constexpr u32 DEEP = 16;            // k of an instruction
constexpr u32 TOGETHER = 4;         // blocks of k that are read together
constexpr u32 SKEW = 8;             // halves behind a row of h, so that its rows begin in different banks

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
    u32 wide;      // y has its rows in pieces of 16 bytes
    u32 padding;
};

static_assert(sizeof(RecurrentMma) == 5 * 88 + 48, "mirrored in bind/recurrent_mma.rs");

// h, twice: what a step reads, and what it writes.
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
// and without a branch: the chain of steps waits for them. What is below the normal numbers adds nothing to one, so it is zero.
__device__ __forceinline__ float quick_sigmoid(float x) {
    float power, result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(__fmul_rn(x, -1.44269504f)));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(__fadd_rn(1.0f, power)));
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

// Zeros in both states, of so many rows: what no cell writes is read as zero.
template <u32 ROWS = TILE_ROWS>
__device__ __forceinline__ void clear_states(const RecurrentMma& p) {
    for (u32 i = threadIdx.x; i < 2 * ROWS * pitch(p); i += blockDim.x) states[i] = 0;
}

// h of a row of the chunk before the first step; zero behind the last row.
__device__ __forceinline__ u16 first_h(const RecurrentMma& p, u32 row, u32 unit) {
    if (p.first_h.address == 0 || row >= p.rows) return 0;
    return float_to_half(load_float(p.first_h.address, p.first_h.dtype, (p.first_row + row) * p.first_h.strides[0] + unit * p.first_h.strides[1]));
}

// The tile's h before the first step.
template <u32 ROWS = TILE_ROWS>
__device__ __forceinline__ void load_first_h(const RecurrentMma& p, u32 tile_row) {
    for (u32 i = threadIdx.x; i < ROWS * p.hidden; i += blockDim.x) {
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
