// Sums and norms of rows of halves in 32 ranges, in the order of reduce.cuh, where a row lies side by side: a lane takes a range, a warp
// as many rows at once as it has loads for; or the block brings a long one into shared memory.
#include "reduce.cuh"

constexpr u32 LANES_WARPS = 4;                        // of a block
constexpr u32 LANES_LOADS = 16;                       // that a thread has in flight
constexpr u32 LONG_THREADS = 512;
constexpr u32 LONG_LOADS = 8;
constexpr u32 LONG_MOST = LONG_THREADS * LONG_LOADS;  // elements of a row

__device__ __forceinline__ u16 half_at(u64 address) { return *reinterpret_cast<const u16*>(address); }

__device__ __forceinline__ float squared_or_not(bool squares, float sum, float x) { return __fmaf_rn(x, squares ? x : 1.0f, sum); }

// Elements of a lane's range.
__device__ __forceinline__ u32 own_elements(const Reduce& p, u32 first) {
    return first < p.count ? (p.count - first < p.share ? p.count - first : p.share) : 0;
}

// Where a row begins, and where its result goes, in elements.
struct RowPlaces {
    u64 from;
    i64 to;

    // Of the row with the number `row`, of those behind the last the last's.
    __device__ __forceinline__ void find(const Reduce& p, u32 row) {
        const Generic& g = p.common;
        u32 at[MAX_RANK];
        coordinates(g.box, row < g.box.count ? row : g.box.count - 1, at);
        from = p.x.address + 2 * static_cast<u64>(element_of(p.x.strides, at));
        to = element_of(g.y.strides, at);
    }

    // The first ones, before the launch waits.
    __device__ __forceinline__ void find_first(const Reduce& p, u32 row) {
        bring_around(p, p.common.tail);
        find(p, row);
        settle(static_cast<u32>(from) + static_cast<u32>(to));
    }
};

// Stores what the ranges of a row have come to.
__device__ __forceinline__ void finish_row(const Reduce& p, const float* partials, i64 to) {
    float v[1] = {value_of(p, sum_of_run(partials))};
    through_function(p.common.tail, v);
    store_value(p.common.y, to, v[0]);
}

// Where ranges have SHARE elements at most.
template <u32 SHARE>
__device__ __forceinline__ void reduce_lanes(const Reduce& p) {
    constexpr u32 ROWS = LANES_LOADS / SHARE;
    __shared__ __align__(16) float partials[LANES_WARPS][ROWS][RUN_STEP];
    const Generic& g = p.common;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 first = lane * p.share, own = own_elements(p, first);
    // The lane finishes one of the rows.
    const auto row_of = [&](u32 tile) { return (tile * LANES_WARPS + warp) * ROWS + lane % ROWS; };
    RowPlaces places;
    places.find_first(p, row_of(blockIdx.x));
    wait_for_predecessors();
    release_successors();
    const bool squares = p.kind == REDUCE_NORM;
    for (u32 tile = blockIdx.x; tile < g.tiles;) {
        // What is not there is 0, and changes no sum: none is -0.
        u16 halves[ROWS][SHARE];
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            const u64 begin = __shfl_sync(0xffffffff, places.from, r) + 2 * first;
#pragma unroll
            for (u32 j = 0; j < SHARE; ++j) halves[r][j] = j < own ? half_at(begin + 2 * j) : static_cast<u16>(0);
        }
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            float sum = 0.0f;
#pragma unroll
            for (u32 j = 0; j < SHARE; ++j) sum = squared_or_not(squares, sum, half_to_float(halves[r][j]));
            partials[warp][r][lane] = sum;
        }
        __syncwarp();
        if (lane < ROWS && row_of(tile) < g.box.count) finish_row(p, partials[warp][lane], places.to);
        tile += gridDim.x;
        if (tile < g.tiles) {
            places.find(p, row_of(tile));
            __syncwarp();
        }
    }
}

extern "C" __global__ void __launch_bounds__(LANES_WARPS * 32) reduce_lanes_2(const __grid_constant__ Reduce p) { reduce_lanes<2>(p); }
extern "C" __global__ void __launch_bounds__(LANES_WARPS * 32) reduce_lanes_4(const __grid_constant__ Reduce p) { reduce_lanes<4>(p); }
extern "C" __global__ void __launch_bounds__(LANES_WARPS * 32) reduce_lanes_8(const __grid_constant__ Reduce p) { reduce_lanes<8>(p); }
extern "C" __global__ void __launch_bounds__(LANES_WARPS * 32) reduce_lanes_16(const __grid_constant__ Reduce p) { reduce_lanes<16>(p); }

// From element to place in shared memory: the elements of lanes whose ranges have an even number lie in different banks.
__device__ __forceinline__ u32 long_place(u32 element) { return element + element / 32; }

// A row a block.
extern "C" __global__ void __launch_bounds__(LONG_THREADS) reduce_long(const __grid_constant__ Reduce p) {
    __shared__ float elements[LONG_MOST + LONG_MOST / 32];
    __shared__ __align__(16) float partials[MAX_SPLITS];
    const Generic& g = p.common;
    const u32 first = threadIdx.x % 32 * p.share, own = own_elements(p, first);
    RowPlaces places;
    places.find_first(p, blockIdx.x);
    wait_for_predecessors();
    release_successors();
    const bool squares = p.kind == REDUCE_NORM;
    for (u32 tile = blockIdx.x; tile < g.tiles;) {
        u16 halves[LONG_LOADS];
#pragma unroll
        for (u32 i = 0; i < LONG_LOADS; ++i) {
            const u32 element = i * LONG_THREADS + threadIdx.x;
            if (element < p.count) halves[i] = half_at(places.from + 2 * element);
        }
#pragma unroll
        for (u32 i = 0; i < LONG_LOADS; ++i) {
            const u32 element = i * LONG_THREADS + threadIdx.x;
            if (element < p.count) elements[long_place(element)] = half_to_float(halves[i]);
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            float sum = 0.0f;
#pragma unroll 1
            for (u32 i = 0; i < p.share; i += LANES_LOADS) {
                float x[LANES_LOADS];
#pragma unroll
                for (u32 j = 0; j < LANES_LOADS; ++j) x[j] = i + j < own ? elements[long_place(first + i + j)] : 0.0f;
#pragma unroll
                for (u32 j = 0; j < LANES_LOADS; ++j) sum = squared_or_not(squares, sum, x[j]);
            }
            partials[threadIdx.x] = sum;
            __syncwarp();
            if (threadIdx.x == 0) finish_row(p, partials, places.to);
        }
        tile += gridDim.x;
        if (tile < g.tiles) {
            places.find(p, tile);
            __syncthreads();
        }
    }
}
