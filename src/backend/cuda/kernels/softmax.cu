// Softmax along one axis: sixteen threads a row, each with the partial sum of the positions of its remainder, or a block a
// row for long rows.
//
// As on the CPU: the maximum, then `e^(x - max)` summed in sixteen partial sums by the position modulo sixteen, which are
// folded in halves, then the quotient. Sixteen threads read the values
// three times instead of keeping them, so rows may have any length; a block keeps its row, and gives the same bits.
#include "chain.cuh"
#include "generic.cuh"
#include "parameters.cuh"

struct Softmax {
    Generic common;  // the box has one position along the axis; tiles are of SOFTMAX_ROWS rows
    View x;
    i64 x_step;      // along the axis
    i64 y_step;
    u32 extent;      // of the axis
    u32 axis;
};

static_assert(sizeof(Softmax) == sizeof(Generic) + 88 + 24, "mirrored in bind/softmax.rs");

constexpr u32 LANES = 16;
constexpr u32 SOFTMAX_ROWS = GENERIC_THREADS / LANES;
constexpr u32 WIDE_THREADS = 1024;  // at most

// A function of 16 lanes folded in halves: lane 0's result, in all lanes.
template <typename F>
__device__ __forceinline__ float folded(float value, F f) {
#pragma unroll
    for (u32 half = LANES / 2; half > 0; half /= 2) value = f(value, __shfl_down_sync(0xffffffffu, value, half, LANES));
    return __shfl_sync(0xffffffffu, value, 0, LANES);
}

extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) softmax(const __grid_constant__ Softmax p) {
    wait_for_predecessors();
    release_successors();
    const Generic& g = p.common;
    const u32 lane = threadIdx.x % LANES;
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 row = tile * SOFTMAX_ROWS + threadIdx.x / LANES;
        // Threads without a row take part in the exchange of the others.
        const bool present = row < g.box.count;
        u32 at[MAX_RANK];
        coordinates(g.box, present ? row : 0, at);
        const i64 from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
        const auto value = [&](u32 i) { return load_float(p.x.address, p.x.dtype, from + static_cast<i64>(i) * p.x_step); };
        float greatest = __uint_as_float(0xff800000u);
#pragma unroll 4
        for (u32 i = lane; i < p.extent; i += LANES) greatest = greater(value(i), greatest);
        greatest = folded(greatest, [](float a, float b) { return greater(b, a); });
        float sum = 0.0f;
#pragma unroll 4
        for (u32 i = lane; i < p.extent; i += LANES) sum = __fadd_rn(sum, exponential(__fsub_rn(value(i), greatest)));
        sum = folded(sum, [](float a, float b) { return __fadd_rn(a, b); });
        if (!present) continue;
#pragma unroll 4
        for (u32 i = lane; i < p.extent; i += LANES) {
            const float y = __fdiv_rn(exponential(__fsub_rn(value(i), greatest)), sum);
            u32 here[MAX_RANK];
#pragma unroll
            for (u32 axis = 0; axis < MAX_RANK; ++axis) here[axis] = axis == p.axis ? i : at[axis];
            const Scalar result = tail_scalar(g.tail, of_float(y), here);
            store_scalar(g.y.address, g.y.dtype, to + static_cast<i64>(i) * p.y_step, result);
        }
    }
}

// A row's values, then their exponentials.
extern __shared__ float kept[];

// A block a row, of as many threads as it is launched with: tiles are rows.
extern "C" __global__ void __launch_bounds__(WIDE_THREADS) softmax_wide(const __grid_constant__ Softmax p) {
    __shared__ float of_warps[WIDE_THREADS / 32];
    __shared__ float total;
    const Generic& g = p.common;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 at[MAX_RANK];
    coordinates(g.box, blockIdx.x, at);
    i64 from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
    settle(static_cast<u32>(from) ^ static_cast<u32>(to));
    wait_for_predecessors();
    release_successors();
    for (u32 row = blockIdx.x; row < g.tiles; row += gridDim.x) {
        if (row != blockIdx.x) {
            coordinates(g.box, row, at);
            from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
        }
        // A maximum is the same in any order: NaNs are passed over, and the sign of a zero does not reach the exponential.
        float greatest = __uint_as_float(0xff800000u);
#pragma unroll 4
        for (u32 i = threadIdx.x; i < p.extent; i += blockDim.x) {
            kept[i] = load_float(p.x.address, p.x.dtype, from + static_cast<i64>(i) * p.x_step);
            greatest = greater(kept[i], greatest);
        }
        const auto of_warp = [&] {
#pragma unroll
            for (u32 other = 16; other > 0; other /= 2) greatest = greater(__shfl_xor_sync(0xffffffffu, greatest, other), greatest);
        };
        of_warp();
        if (lane == 0) of_warps[warp] = greatest;
        __syncthreads();
        greatest = of_warps[lane < blockDim.x / 32 ? lane : 0];
        of_warp();
        for (u32 i = threadIdx.x; i < p.extent; i += blockDim.x) kept[i] = exponential(__fsub_rn(kept[i], greatest));
        __syncthreads();
        if (threadIdx.x < 32) {
            // Both halves of the warp sum the same. Many loads are under way before their values are added in order.
            constexpr u32 AHEAD = 16;
            float sum = 0.0f;
            u32 i = lane % LANES;
            for (; i + (AHEAD - 1) * LANES < p.extent; i += AHEAD * LANES) {
                float some[AHEAD];
#pragma unroll
                for (u32 k = 0; k < AHEAD; ++k) some[k] = kept[i + k * LANES];
#pragma unroll
                for (u32 k = 0; k < AHEAD; ++k) sum = __fadd_rn(sum, some[k]);
            }
            for (; i < p.extent; i += LANES) sum = __fadd_rn(sum, kept[i]);
            sum = folded(sum, [](float a, float b) { return __fadd_rn(a, b); });
            if (threadIdx.x == 0) total = sum;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < p.extent; i += blockDim.x) {
            if (g.tail.calls == 0 && g.y.dtype == F16) {
                *(reinterpret_cast<u16*>(g.y.address) + to + static_cast<i64>(i) * p.y_step) = float_to_half(__fdiv_rn(kept[i], total));
                continue;
            }
            u32 here[MAX_RANK];
#pragma unroll
            for (u32 axis = 0; axis < MAX_RANK; ++axis) here[axis] = axis == p.axis ? i : at[axis];
            const Scalar result = tail_scalar(g.tail, of_float(__fdiv_rn(kept[i], total)), here);
            store_scalar(g.y.address, g.y.dtype, to + static_cast<i64>(i) * p.y_step, result);
        }
        __syncthreads();
    }
}
