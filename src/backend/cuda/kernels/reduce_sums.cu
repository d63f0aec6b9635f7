// Sums and norms of halves in 32 ranges or in many, in the order of reduce.cuh, where neighbours that are kept lie side by side and
// reduced elements at equal distances: a thread takes a range of two neighbours, a block a run of ranges. The blocks of a cluster share
// the runs, and its first adds them.
#include "cluster.cuh"
#include "mma.cuh"
#include "reduce.cuh"

constexpr u32 SUMS_PAIR = 2;                                  // neighbours of a thread
constexpr u32 SUMS_NEIGHBOURS = 16;                           // of a block: a sector of memory
constexpr u32 SUMS_GROUPS = SUMS_NEIGHBOURS / SUMS_PAIR;
constexpr u32 SUMS_THREADS = MAX_SPLITS * SUMS_GROUPS;

// BATCH elements of a thread are in flight.
template <bool SQUARES, u32 BATCH>
__device__ __forceinline__ void reduce_sums(const Reduce& p) {
    __shared__ __align__(16) float partials[SUMS_NEIGHBOURS][RUN_STEP];
    const Generic& g = p.common;
    const u32 group = threadIdx.x % SUMS_GROUPS, range = threadIdx.x / SUMS_GROUPS;
    u32 run = 0, begin = blockIdx.x, turn = gridDim.x;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr u32 SUMS_RUNS = 8;  // at most, blocks of a cluster
    // In the first block: what the others send.
    __shared__ __align__(8) u64 barriers[1];
    __shared__ __align__(8) float2 totals[SUMS_RUNS][SUMS_NEIGHBOURS];
    const u32 runs = cluster_size(), barrier = shared_address(barriers);
    u32 parity = 0;
    if (runs > 1) {
        run = cluster_rank(), begin = begin / runs, turn = turn / runs;
        if (threadIdx.x == 0 && run == 0) {
            barrier_init(barrier, 1);
            barrier_init_fence();
        }
        __syncwarp();
        cluster_arrive_relaxed();
    }
#endif
    const u32 first = (run * MAX_SPLITS + range) * p.share;
    const u32 own = first < p.count ? (p.count - first < p.share ? p.count - first : p.share) : 0;
    const u32 step = 2 * static_cast<u32>(p.steps[0]);
    u64 from;       // of the thread's first element
    i64 to;         // of the result that the thread finishes
    u32 neighbour;  // of the block's first, in the chunk
    const auto find = [&](u32 tile) {
        const u32 place = divide(tile, p.groups);
        u32 at[MAX_RANK];
        coordinates(g.box, place, at);
        neighbour = (tile - place * p.groups.divisor) * SUMS_NEIGHBOURS;
        from = p.x.address + 2 * static_cast<u64>(element_of(p.x.strides, at) + p.first + neighbour + group * SUMS_PAIR) +
               static_cast<u64>(first) * step;
        to = element_of(g.y.strides, at) + (p.first + neighbour + threadIdx.x % SUMS_NEIGHBOURS) * g.y.strides[p.axis];
    };
    bring_around(p, p.common.tail);
    find(begin);
    settle(static_cast<u32>(from) + static_cast<u32>(to));
    wait_for_predecessors();
    release_successors();
    for (u32 tile = begin; tile < g.tiles;) {
        const u32 mine = neighbour + group * SUMS_PAIR < p.neighbours ? own : 0;
        float low = 0.0f, high = 0.0f;
        // All threads alike stop behind the longest range. What is not there is 0, and changes no sum: none is -0.
#pragma unroll 1
        for (u32 i = 0; i < p.share; i += BATCH) {
            u32 words[BATCH];
#pragma unroll
            for (u32 j = 0; j < BATCH; ++j) {
                words[j] = 0;
                if (i + j < mine) words[j] = *reinterpret_cast<const u32*>(from + static_cast<u64>(step) * j);
            }
            from += static_cast<u64>(step) * BATCH;
#pragma unroll
            for (u32 j = 0; j < BATCH; ++j) {
                const float a = half_to_float(static_cast<u16>(words[j])), b = half_to_float(static_cast<u16>(words[j] >> 16));
                low = SQUARES ? __fmaf_rn(a, a, low) : __fadd_rn(low, a);
                high = SQUARES ? __fmaf_rn(b, b, high) : __fadd_rn(high, b);
            }
        }
        partials[group * SUMS_PAIR][range] = low;
        partials[group * SUMS_PAIR + 1][range] = high;
        __syncthreads();
        const u32 next = tile + turn;
        float total = 0.0f;
        if (threadIdx.x < SUMS_NEIGHBOURS) total = sum_of_run(partials[threadIdx.x]);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        if (runs > 1) {
            if (run == 0 && threadIdx.x == 0) barrier_arrive_expecting(barrier, (runs - 1) * sizeof(totals[0]));
            __syncwarp();
            // The first block has begun, and has read what it was sent before.
            cluster_wait();
            if (threadIdx.x < SUMS_NEIGHBOURS) {
                if (run > 0) {
                    const u32 there = remote_address(shared_address(&totals[run][threadIdx.x]), 0);
                    send_pair(there, __float_as_uint(total), 0, remote_address(barrier, 0));
                } else {
                    barrier_wait(barrier, parity);
#pragma unroll
                    for (u32 other = 1; other < SUMS_RUNS; ++other) {
                        if (other < runs) total = __fadd_rn(total, totals[other][threadIdx.x].x);
                    }
                }
            }
            parity ^= 1;
            __syncwarp();
            if (next < g.tiles) cluster_arrive();
        }
#endif
        if (threadIdx.x < SUMS_NEIGHBOURS && run == 0 && neighbour + threadIdx.x < p.neighbours) {
            float v[1] = {value_of(p, total)};
            through_function(g.tail, v);
            store_value(g.y, to, v[0]);
        }
        tile = next;
        if (tile < g.tiles) {
            find(tile);
            __syncthreads();
        }
    }
}

extern "C" __global__ void __launch_bounds__(SUMS_THREADS, 2) reduce_sums_8(const __grid_constant__ Reduce p) { reduce_sums<false, 8>(p); }
extern "C" __global__ void __launch_bounds__(SUMS_THREADS, 2) reduce_sums_16(const __grid_constant__ Reduce p) { reduce_sums<false, 16>(p); }
extern "C" __global__ void __launch_bounds__(SUMS_THREADS, 2) reduce_norms_8(const __grid_constant__ Reduce p) { reduce_sums<true, 8>(p); }
extern "C" __global__ void __launch_bounds__(SUMS_THREADS, 2) reduce_norms_16(const __grid_constant__ Reduce p) { reduce_sums<true, 16>(p); }
