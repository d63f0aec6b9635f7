// Matrix products of floats with any strides, on ordinary arithmetic units: 64 x 64 outputs a block, 4 x 4 a thread.
//
// Every output starts at its bias (or 0) and takes one fused multiply-add for each k, ascending, as on the CPU.
#include "chain.cuh"
#include "divide.cuh"
#include "tail.cuh"

constexpr u32 MATMUL_THREADS = 256;
constexpr u32 SIDE = 64;   // outputs of a tile, along rows and along columns
constexpr u32 DEPTH = 16;  // of a block of K in shared memory
constexpr u32 EACH = 4;    // outputs of a thread, along rows and along columns

struct MatMul {
    View y;
    View a;     // [.., M, K]
    View b;     // [.., K, N]
    View bias;  // of the output's shape; address 0 for none
    Tail tail;
    u32 start[MAX_RANK];            // of the chunk
    Divisor outer[MAX_RANK];        // extents of the chunk along the leading axes, 1 for rows and columns
    Divisor tiles_down;
    Divisor tiles_across;
    u32 row_axis;                   // the last but one
    u32 rows;                       // of the chunk, from start[row_axis] on
    u32 columns;
    u32 depth;
    u32 tiles;
    u32 padding;
};

static_assert(sizeof(MatMul) == 4 * 88 + 1080 + 24 + 72 + 24 + 24, "mirrored in bind/matmul.rs");

extern "C" __global__ void __launch_bounds__(MATMUL_THREADS) matmul(const __grid_constant__ MatMul p) {
    wait_for_predecessors();
    release_successors();
    // One more column than needed, so that stores down a column go to different banks.
    __shared__ float as[DEPTH][SIDE + 1];
    __shared__ float bs[DEPTH][SIDE + 1];
    const u32 column_axis = p.row_axis + 1;
    const i64 a_row = p.a.strides[p.row_axis], a_k = p.a.strides[column_axis];
    const i64 b_k = p.b.strides[p.row_axis], b_column = p.b.strides[column_axis];
    // Threads that are neighbours read neighbours in memory.
    const bool a_along_k = a_row != 1, b_along_k = b_column != 1 && b_k == 1;
    const u32 row = threadIdx.x / (SIDE / EACH), column = threadIdx.x % (SIDE / EACH);
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
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
        const i64 a0 = element_of(p.a.strides, at) + (p.start[p.row_axis] + first_row) * a_row;
        const i64 b0 = element_of(p.b.strides, at) + first_column * b_column;
        const u32 rows = p.rows - first_row, columns = p.columns - first_column;
        float sums[EACH][EACH];
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
            for (u32 j = 0; j < EACH; ++j) sums[i][j] = 0.0f;
        }
        const auto place = [&](u32 i, u32 j) {
#pragma unroll
            for (u32 axis = 0; axis < MAX_RANK; ++axis) {
                if (axis == p.row_axis) at[axis] = p.start[axis] + first_row + i;
                if (axis == column_axis) at[axis] = first_column + j;
            }
        };
        if (p.bias.address != 0) {
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
                for (u32 j = 0; j < EACH; ++j) {
                    if (row * EACH + i >= rows || column * EACH + j >= columns) continue;
                    place(row * EACH + i, column * EACH + j);
                    sums[i][j] = load_float(p.bias.address, p.bias.dtype, element_of(p.bias.strides, at));
                }
            }
        }
        for (u32 k0 = 0; k0 < p.depth; k0 += DEPTH) {
            const u32 depth = p.depth - k0 < DEPTH ? p.depth - k0 : DEPTH;
#pragma unroll
            for (u32 i = threadIdx.x; i < SIDE * DEPTH; i += MATMUL_THREADS) {
                const u32 m = a_along_k ? i / DEPTH : i % SIDE, ka = a_along_k ? i % DEPTH : i / SIDE;
                as[ka][m] = m < rows && ka < depth ? load_float(p.a.address, p.a.dtype, a0 + m * a_row + (k0 + ka) * a_k) : 0.0f;
                const u32 n = b_along_k ? i / DEPTH : i % SIDE, kb = b_along_k ? i % DEPTH : i / SIDE;
                bs[kb][n] = n < columns && kb < depth ? load_float(p.b.address, p.b.dtype, b0 + n * b_column + (k0 + kb) * b_k) : 0.0f;
            }
            __syncthreads();
            for (u32 k = 0; k < depth; ++k) {
                float x[EACH], w[EACH];
#pragma unroll
                for (u32 i = 0; i < EACH; ++i) x[i] = as[k][row * EACH + i], w[i] = bs[k][column * EACH + i];
#pragma unroll
                for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
                    for (u32 j = 0; j < EACH; ++j) sums[i][j] = __fmaf_rn(x[i], w[j], sums[i][j]);
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            if (row * EACH + i >= rows || column * EACH >= columns) continue;
            const u32 left = columns - column * EACH, count = left < EACH ? left : EACH;
            place(row * EACH + i, column * EACH);
            tail_run(p.tail, sums[i], count, at, column_axis);
            const i64 to = element_of(p.y.strides, at);
#pragma unroll
            for (u32 j = 0; j < EACH; ++j) {
                if (j >= count) continue;
                const i64 element = to + j * p.y.strides[column_axis];
                if (p.y.dtype == F16) {
                    *(reinterpret_cast<u16*>(p.y.address) + element) = float_to_half(sums[i][j]);
                } else {
                    *(reinterpret_cast<float*>(p.y.address) + element) = sums[i][j];
                }
            }
        }
    }
}
