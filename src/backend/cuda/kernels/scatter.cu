// The sources of rows that updates are scattered to: of each row the last update that names it.
//
// A block has a range of rows in shared memory and looks through all places. Which of a row's updates comes first there does not
// matter, for the largest number stays: integers have no order of sums.
#include "chain.cuh"
#include "view.cuh"

constexpr u32 SCATTER_THREADS = 512;
constexpr u32 SCATTER_ROWS = 1024;

struct Scatter {
    View places;
    View y;
    u32 rows;
    u32 count;   // of updates
    u32 common;  // rows without an update come from row 0, the updates behind it
    u32 tiles;
};

static_assert(sizeof(Scatter) == 2 * 88 + 16, "mirrored in bind/places.rs");

extern "C" __global__ void __launch_bounds__(SCATTER_THREADS) scatter_sources(const __grid_constant__ Scatter p) {
    __shared__ i32 last[SCATTER_ROWS];
    wait_for_predecessors();
    release_successors();
    const u32 first = p.common ? 1 : p.rows;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 base = tile * SCATTER_ROWS;
        for (u32 i = threadIdx.x; i < SCATTER_ROWS; i += SCATTER_THREADS) last[i] = -1;
        __syncthreads();
        for (u32 update = threadIdx.x; update < p.count; update += SCATTER_THREADS) {
            const i32 place = *pointer_to<i32>(p.places.address, static_cast<i64>(update) * p.places.strides[0]);
            // A place before the range is a large number.
            const u32 row = static_cast<u32>(place) - base;
            if (place >= 0 && row < SCATTER_ROWS) atomicMax(&last[row], static_cast<i32>(update));
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < SCATTER_ROWS && base + i < p.rows; i += SCATTER_THREADS) {
            const i32 update = last[i];
            const u32 own = p.common ? 0 : base + i;
            const u32 source = update < 0 ? own : first + static_cast<u32>(update);
            *(reinterpret_cast<i32*>(p.y.address) + static_cast<i64>(base + i) * p.y.strides[0]) = static_cast<i32>(source);
        }
        __syncthreads();
    }
}
