// Reductions that are taken in one range, and maxima of few elements, in the order of reduce.cuh, where neighbours that are kept lie side
// by side: a thread takes all elements of eight neighbours, or of one where they do not lie in pieces.
#include "maxima.cuh"
#include "reduce.cuh"

constexpr u32 FEW_THREADS = 128;
constexpr u32 FEW_BATCH = 8;  // elements that a thread has in flight

// From the first reduced element to element `index`, most of which lie at equal distances.
__device__ __forceinline__ i64 few_element(const Reduce& p, u32 index) {
    return p.inner.divisor == p.count ? index * p.steps[0] : reduced_element(p, index);
}

// Takes pieces of halves, the first of which lies at `from`, one after the other.
template <typename Take>
__device__ __forceinline__ void every_piece(const Reduce& p, u64 from, Take take) {
#pragma unroll 1
    for (u32 begin = 0; begin < p.count; begin += FEW_BATCH) {
        uint4 pieces[FEW_BATCH];
#pragma unroll
        for (u32 j = 0; j < FEW_BATCH; ++j) {
            if (begin + j < p.count) pieces[j] = *reinterpret_cast<const uint4*>(from + 2 * static_cast<u64>(few_element(p, begin + j)));
        }
#pragma unroll
        for (u32 j = 0; j < FEW_BATCH; ++j) {
            if (begin + j < p.count) take(pieces[j]);
        }
    }
}

__device__ __forceinline__ void reduce_few(const Reduce& p, i64 element, float (&v)[GROUP]) {
    const u64 from = p.x.address + 2 * static_cast<u64>(element);
    if (p.kind == REDUCE_MAX) {
        uint4 most = make_uint4(LEAST, LEAST, LEAST, LEAST);
        every_piece(p, from, [&](uint4 bits) { most = greater_group(most, bits); });
        widen(most, v);
    } else {
#pragma unroll
        for (u32 k = 0; k < GROUP; ++k) v[k] = 0.0f;
        const bool squares = p.kind == REDUCE_NORM;
        every_piece(p, from, [&](uint4 bits) {
            float x[GROUP];
            widen(bits, x);
            // A sum is one of products by 1, of the same bits.
#pragma unroll
            for (u32 k = 0; k < GROUP; ++k) v[k] = __fmaf_rn(x[k], squares ? x[k] : 1.0f, v[k]);
        });
    }
}

__device__ __forceinline__ void reduce_few(const Reduce& p, i64 from, float (&v)[1]) {
    v[0] = start_of(p.kind);
#pragma unroll 1
    for (u32 begin = 0; begin < p.count; begin += FEW_BATCH) {
        float x[FEW_BATCH];
#pragma unroll
        for (u32 j = 0; j < FEW_BATCH; ++j) {
            if (begin + j >= p.count) continue;
            const i64 element = from + few_element(p, begin + j);
            x[j] = p.x.dtype == F16 ? half_to_float(*pointer_to<u16>(p.x.address, element)) : *pointer_to<float>(p.x.address, element);
        }
#pragma unroll
        for (u32 j = 0; j < FEW_BATCH; ++j) {
            if (begin + j < p.count) v[0] = taken(p.kind, v[0], x[j]);
        }
    }
}

// N neighbours of a thread.
template <u32 N>
__device__ __forceinline__ void reduce_neighbours(const Reduce& p) {
    const Generic& g = p.common;
    const u32 all = g.box.count * p.groups.divisor;
    const i64 apart = g.y.strides[p.axis];
    i64 from, to;
    const auto find = [&](u32 tile) {
        const u32 own = tile * FEW_THREADS + threadIdx.x, index = own < all ? own : all - 1;
        const u32 place = divide(index, p.groups), neighbour = p.first + (index - place * p.groups.divisor) * N;
        u32 at[MAX_RANK];
        coordinates(g.box, place, at);
        from = element_of(p.x.strides, at) + neighbour;
        to = element_of(g.y.strides, at) + neighbour * apart;
    };
    bring_around(p, p.common.tail);
    find(blockIdx.x);
    settle(static_cast<u32>(from) + static_cast<u32>(to));
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < g.tiles;) {
        if (tile * FEW_THREADS + threadIdx.x < all) {
            float v[N];
            reduce_few(p, from, v);
            if (p.kind == REDUCE_MEAN || p.kind == REDUCE_NORM) {
                // One copy of what divides and takes roots: values go round.
#pragma unroll 1
                for (u32 k = 0; k < N; ++k) {
                    const float value = value_of(p, v[0]);
#pragma unroll
                    for (u32 j = 0; j + 1 < N; ++j) v[j] = v[j + 1];
                    v[N - 1] = value;
                }
            }
            through_function(g.tail, v);
            if constexpr (N == GROUP) {
                store_run(g.y.address, g.y.dtype, to, N, v, apart);
            } else {
                store_value(g.y, to, v[0]);
            }
        }
        tile += gridDim.x;
        if (tile < g.tiles) find(tile);
    }
}

extern "C" __global__ void __launch_bounds__(FEW_THREADS) reduce_few_eights(const __grid_constant__ Reduce p) { reduce_neighbours<GROUP>(p); }
extern "C" __global__ void __launch_bounds__(FEW_THREADS) reduce_few_ones(const __grid_constant__ Reduce p) { reduce_neighbours<1>(p); }
