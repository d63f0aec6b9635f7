// Products of few rows with a large constant matrix of f16, which is read once: the time is that of its bytes.
//
// K is cut into at most 32 ranges of equal length, a multiple of 8. Lane r of a warp takes range r from its first element
// to its last, starting from 0; the ranges' sums are added in order, and the bias comes last. A warp computes four outputs
// of up to ROWS rows at a time. The packed weights are [output][step][range][8], so that a warp's read is 512 bytes in one
// piece.
#include "chain.cuh"
#include "tail.cuh"

constexpr u32 MATVEC_THREADS = 64;
constexpr u32 WARPS = MATVEC_THREADS / 32;
constexpr u32 OUTPUTS = 4;  // of a warp

struct MatVec {
    View y;        // [M, N] or [M, N, 1, 1]
    View x;        // [M, K], K side by side, or [M, K, 1, 1]
    View bias;     // strides along M and N; address 0 for none
    Tail tail;
    u64 weights;
    u32 depth;     // K
    u32 share;     // of K in a range, a multiple of 8
    u32 ranges;
    u32 columns;   // N
    u32 first_row;
    u32 rows;      // of the chunk
    u32 tiles;     // of WARPS * OUTPUTS columns
    u32 padding;
};

static_assert(sizeof(MatVec) == 3 * 88 + 1080 + 8 + 32, "mirrored in bind/matvec.rs");

template <u32 ROWS>
__device__ __forceinline__ void few_rows(const MatVec& p, u32 first_row, u32 first_column, float (&sums)[32][33]) {
    const u32 lane = threadIdx.x % 32;
    const u32 steps = p.share / 8;
    float acc[ROWS][OUTPUTS];
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
#pragma unroll
        for (u32 o = 0; o < OUTPUTS; ++o) acc[r][o] = 0.0f;
    }
    // Columns behind the last read the last's weights, and are not stored.
    u64 weights[OUTPUTS];
#pragma unroll
    for (u32 o = 0; o < OUTPUTS; ++o) {
        const u32 column = first_column + o < p.columns ? first_column + o : p.columns - 1;
        weights[o] = p.weights + (static_cast<u64>(column) * steps * 32 + lane) * 16;
    }
#pragma unroll 2
    for (u32 step = 0; step < steps; ++step) {
        uint4 w[OUTPUTS];
#pragma unroll
        for (u32 o = 0; o < OUTPUTS; ++o) w[o] = *reinterpret_cast<const uint4*>(weights[o] + static_cast<u64>(step) * 512);
        const u32 k = lane * p.share + step * 8;
        const u32 count = k >= p.depth ? 0 : p.depth - k < 8 ? p.depth - k : 8;
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            float x[8];
            const u32 row = r < p.rows - first_row ? first_row + r : first_row;
            load_run(p.x.address, F16, (p.first_row + row) * p.x.strides[0] + k, 1, count, x);
#pragma unroll
            for (u32 o = 0; o < OUTPUTS; ++o) {
                const u32 words[4] = {w[o].x, w[o].y, w[o].z, w[o].w};
#pragma unroll
                for (u32 i = 0; i < 8; ++i) {
                    acc[r][o] = __fmaf_rn(x[i], half_to_float(static_cast<u16>(words[i / 2] >> (i % 2 * 16))), acc[r][o]);
                }
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
#pragma unroll
        for (u32 o = 0; o < OUTPUTS; ++o) sums[r * OUTPUTS + o][lane] = acc[r][o];
    }
    __syncwarp();
    const u32 r = lane / OUTPUTS, column = first_column + lane % OUTPUTS;
    if (r >= ROWS || first_row + r >= p.rows || column >= p.columns) return;
    const u32 row = p.first_row + first_row + r;
    float v[1] = {sums[lane][0]};
    for (u32 range = 1; range < p.ranges; ++range) v[0] = __fadd_rn(v[0], sums[lane][range]);
    const u32 at[MAX_RANK] = {row, column, 0, 0, 0, 0};
    if (p.bias.address != 0) v[0] = __fadd_rn(v[0], load_float(p.bias.address, p.bias.dtype, element_of(p.bias.strides, at)));
    tail_run(p.tail, v, 1, at, 1);
    *(reinterpret_cast<u16*>(p.y.address) + element_of(p.y.strides, at)) = float_to_half(v[0]);
}

extern "C" __global__ void __launch_bounds__(MATVEC_THREADS) matvec(const __grid_constant__ MatVec p) {
    wait_for_predecessors();
    release_successors();
    __shared__ float sums[WARPS][32][33];
    const u32 warp = threadIdx.x / 32;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 first_column = (tile * WARPS + warp) * OUTPUTS;
        if (first_column >= p.columns) continue;
        u32 row = 0;
        for (; row + 1 < p.rows; row += 8) few_rows<8>(p, row, first_column, sums[warp]);
        if (row < p.rows) few_rows<1>(p, row, first_column, sums[warp]);
    }
}
