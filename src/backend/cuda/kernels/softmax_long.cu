// Softmax of rows that no block keeps, with the bits of softmax.cu: its sixteen partial sums take the exponentials one after the other.
//
// So blocks share the quotients of a row, and each finds its maximum and its sum anew: while one warp adds up a chunk of exponentials,
// the others make the next.
#include "chain.cuh"
#include "generic.cuh"
#include "parameters.cuh"

constexpr u32 LANES = 16;
constexpr u32 THREADS = 1024;
constexpr u32 CHUNK = 4096;  // exponentials
constexpr u32 AHEAD = 16;    // loads under way before their values are added in order

struct SoftmaxLong {
    Generic common;  // the box has one position along the axis; tiles are shares of rows
    View x;
    i64 x_step;      // along the axis
    i64 y_step;
    u32 extent;      // of the axis
    u32 axis;
    Divisor shares;  // of a row
    u32 length;      // of a share
};

static_assert(sizeof(SoftmaxLong) == sizeof(Generic) + 88 + 40, "mirrored in bind/softmax_long.rs");
static_assert(CHUNK % (LANES * AHEAD) == 0, "partial sums begin anew with a chunk");

// Adds a chunk of exponentials to a partial sum.
__device__ __forceinline__ float add_chunk(const float* chunk, u32 count, float sum) {
    u32 i = threadIdx.x % LANES;
    for (; i + (AHEAD - 1) * LANES < count; i += AHEAD * LANES) {
        float some[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) some[k] = chunk[i + k * LANES];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) sum = __fadd_rn(sum, some[k]);
    }
    for (; i < count; i += LANES) sum = __fadd_rn(sum, chunk[i]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax_long(const __grid_constant__ SoftmaxLong p) {
    __shared__ float kept[2][CHUNK];
    __shared__ float of_warps[THREADS / 32];
    __shared__ float total;
    const Generic& g = p.common;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 row = divide(tile, p.shares), begin = (tile - row * p.shares.divisor) * p.length, end = min(begin + p.length, p.extent);
        u32 at[MAX_RANK];
        coordinates(g.box, row, at);
        const i64 from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
        const auto value = [&](u32 i) { return load_float(p.x.address, p.x.dtype, from + static_cast<i64>(i) * p.x_step); };
        // A maximum is the same in any order: NaNs are passed over, and the sign of a zero does not reach the exponential.
        float greatest = __uint_as_float(0xff800000u);
#pragma unroll 8
        for (u32 i = threadIdx.x; i < p.extent; i += THREADS) greatest = greater(value(i), greatest);
        const auto of_warp = [&] {
#pragma unroll
            for (u32 other = 16; other > 0; other /= 2) greatest = greater(__shfl_xor_sync(0xffffffffu, greatest, other), greatest);
        };
        of_warp();
        if (lane == 0) of_warps[warp] = greatest;
        __syncthreads();
        greatest = of_warps[lane];
        of_warp();
        // Chunk `chunk`, by the threads from `first` on.
        const auto fill = [&](u32 chunk, u32 first) {
            const u32 start = chunk * CHUNK, count = min(CHUNK, p.extent - start);
#pragma unroll 4
            for (u32 i = threadIdx.x - first; i < count; i += THREADS - first) kept[chunk % 2][i] = exponential(__fsub_rn(value(start + i), greatest));
        };
        const u32 chunks = (p.extent + CHUNK - 1) / CHUNK;
        float sum = 0.0f;
        fill(0, 0);
        __syncthreads();
        for (u32 chunk = 0; chunk < chunks; ++chunk) {
            if (warp == 0) {
                sum = add_chunk(kept[chunk % 2], min(CHUNK, p.extent - chunk * CHUNK), sum);  // both halves of the warp the same
            } else if (chunk + 1 < chunks) {
                fill(chunk + 1, 32);
            }
            __syncthreads();
        }
        if (warp == 0) {
#pragma unroll
            for (u32 half = LANES / 2; half > 0; half /= 2) sum = __fadd_rn(sum, __shfl_down_sync(0xffffffffu, sum, half, LANES));
            if (lane == 0) total = sum;
        }
        __syncthreads();
        for (u32 i = begin + threadIdx.x; i < end; i += THREADS) {
            const float y = __fdiv_rn(exponential(__fsub_rn(value(i), greatest)), total);
            if (g.tail.calls == 0 && g.y.dtype == F16) {
                *(reinterpret_cast<u16*>(g.y.address) + to + static_cast<i64>(i) * p.y_step) = float_to_half(y);
                continue;
            }
            u32 here[MAX_RANK];
#pragma unroll
            for (u32 axis = 0; axis < MAX_RANK; ++axis) here[axis] = axis == p.axis ? i : at[axis];
            store_scalar(g.y.address, g.y.dtype, to + static_cast<i64>(i) * p.y_step, tail_scalar(g.tail, of_float(y), here));
        }
        __syncthreads();
    }
}
