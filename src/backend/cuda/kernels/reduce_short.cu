// Reductions of few elements to many results, in the order of reduce.cuh: a thread takes the row of a result. Neighbouring threads have
// neighbouring results, whose rows mostly follow each other in memory.
#include "reduce.cuh"

constexpr u32 REDUCE_THREADS = 128;

// The total of a row, element by element.
struct Total {
    u32 kind, share;
    u32 left;  // elements of the range that are to come
    float sum, total;
    bool first = true;

    __device__ __forceinline__ explicit Total(const Reduce& p) : kind(p.kind), share(p.share), left(p.share), sum(start_of(p.kind)), total(sum) {}

    __device__ __forceinline__ void end_range() {
        total = first ? sum : joined(kind, total, sum);
        first = false;
        sum = start_of(kind);
        left = share;
    }

    __device__ __forceinline__ void take(float x) {
        sum = taken(kind, sum, x);
        if (--left == 0) end_range();
    }

    __device__ __forceinline__ float end() {
        if (left != share) end_range();
        return total;
    }
};

__device__ __forceinline__ float reduce_row(const Reduce& p, i64 from) {
    Total total(p);
    const u64 row = p.x.address + 2 * static_cast<u64>(from);
    if (p.whole && p.x.dtype == F16 && p.count % GROUP == 0 && row % 16 == 0) {
#pragma unroll 2
        for (u32 i = 0; i < p.count; i += GROUP) {
            float x[GROUP];
            widen(*reinterpret_cast<const uint4*>(row + 2 * i), x);
#pragma unroll
            for (u32 k = 0; k < GROUP; ++k) total.take(x[k]);
        }
    } else {
#pragma unroll 4
        for (u32 i = 0; i < p.count; ++i) total.take(load_float(p.x.address, p.x.dtype, from + reduced_element(p, i)));
    }
    return total.end();
}

extern "C" __global__ void __launch_bounds__(REDUCE_THREADS) reduce_short(const __grid_constant__ Reduce p) {
    const Generic& g = p.common;
    bring_around(p, p.common.tail);
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 row = tile * REDUCE_THREADS + threadIdx.x;
        if (row >= g.box.count) continue;
        u32 at[MAX_RANK];
        coordinates(g.box, row, at);
        finish(p, reduce_row(p, element_of(p.x.strides, at)), at);
    }
}
