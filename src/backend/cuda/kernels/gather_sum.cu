// Rows of halves gathered in pieces of 16 bytes, and what is computed elsewhere added to them: windows of tokens brought back to
// their pictures, and a block's residual.
#include "chain.cuh"
#include "generic.cuh"
#include "parameters.cuh"

struct GatherSum {
    Generic common;  // the box and the strides in pieces
    View data;       // strides as the output's axes see them, 0 along the indices'
    View indices;    // the same, 0 along the data's
    i64 step;        // of the data along the gathered axis
    u32 extent;      // of that axis
    u32 padding;
    View added;      // as the output's axes see it
};

static_assert(sizeof(GatherSum) == sizeof(Generic) + 2 * 88 + 16 + 88, "mirrored in bind/generic/gather.rs");

// Negative indices count from the end; indices outside are clamped.
extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) gather_sum(const __grid_constant__ GatherSum p) {
    bring_around(p, p.common.tail);
    wait_for_predecessors();
    release_successors();
    const Generic& g = p.common;
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 piece = tile * GENERIC_THREADS + threadIdx.x;
        if (piece >= g.box.count) continue;
        u32 at[MAX_RANK];
        coordinates(g.box, piece, at);
        const uint4 more = reinterpret_cast<const uint4*>(p.added.address)[element_of(p.added.strides, at)];
        i64 index = reinterpret_cast<const i32*>(p.indices.address)[element_of(p.indices.strides, at)];
        const i64 last = static_cast<i64>(p.extent) - 1;
        if (index < 0) index += p.extent;
        index = index < 0 ? 0 : index > last ? last : index;
        float values[8], added[8];
        widen(more, added);
        widen(reinterpret_cast<const uint4*>(p.data.address)[element_of(p.data.strides, at) + index * p.step], values);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) values[i] = __fadd_rn(values[i], added[i]);
        store_run(g.y.address, F16, 8 * element_of(g.y.strides, at), 8, values);
    }
}
