// Maxima of f16 under windows of 3 by 3 neighbouring pixels, whole groups of channels side by side: the halves of pool.cu, for
// outputs below each other.
//
// A thread walks down a column of outputs. Of every input row under it, it makes the greatest of three pixels once and keeps
// it for the next output. Pixels outside of the input are replaced by the nearest one inside, which the window has, too.
#include "chain.cuh"
#include "groups.cuh"
#include "maxima.cuh"
#include "parameters.cuh"
#include "window.cuh"

struct PoolRows {
    PixelFrame frame;  // counts in runs of `run` rows instead of rows
    Pixels x;
    Window window;     // of 3 by 3 pixels, at step 1 or 2 down; every window has a pixel of the input
    u32 run;           // output rows of a thread
    u32 row_end;       // of the chunk
};

static_assert(sizeof(PoolRows) == sizeof(PixelFrame) + 48 + 64 + 8, "mirrored in bind/pool_rows.rs");

// Where the windows of a column of outputs lie.
struct Column {
    const u16* first;  // the group in row 0 and pixel 0
    i64 row;           // elements from row to row
    i64 across[3];     // of the three pixels of a row
    i32 last;          // row of the input
    i32 left;          // pixel of the first tap, maybe outside
    u32 width;
    i64 pixel;

    __device__ __forceinline__ uint4 load(i32 y, u32 tap) const {
        return *reinterpret_cast<const uint4*>(first + min(max(y, 0), last) * row + across[tap]);
    }
};

// The greatest of a window, tap by tap.
__device__ __noinline__ uint4 greatest_in_order(const Column& c, i32 top) {
    uint4 most = make_uint4(LEAST, LEAST, LEAST, LEAST);
#pragma unroll 1
    for (u32 i = 0; i < 9; ++i) {
        const i32 y = top + static_cast<i32>(i / 3);
        const i32 x = c.left + static_cast<i32>(i % 3);
        if (static_cast<u32>(y) > static_cast<u32>(c.last) || static_cast<u32>(x) >= c.width) continue;
        most = greater_group(most, *reinterpret_cast<const uint4*>(c.first + y * c.row + x * c.pixel));
    }
    Most rounded(most);
    rounded.take(most);  // as if it had been widened and rounded: NaN
    return rounded.value;
}

// STEP input rows from an output to the next.
template <u32 STEP>
__device__ __forceinline__ void pool_down(const PoolRows& p) {
    const PixelFrame& f = p.frame;
    for (u32 tile = blockIdx.x; tile < f.tiles; tile += gridDim.x) {
        const u32 index = tile * PIXEL_THREADS + threadIdx.x;
        if (index >= f.count) continue;
        const u32 runs = divide(index, f.groups), channel = (index - runs * f.groups.divisor) * GROUP_CHANNELS;
        const u32 lines = divide(runs, f.across), pixel = runs - lines * f.across.divisor;
        const u32 samples = divide(lines, f.rows), begin = f.first_row + (lines - samples * f.rows.divisor) * p.run;
        const u32 batch = f.first_batch + samples, end = min(begin + p.run, p.row_end);
        Column c;
        c.first = pointer_to<u16>(p.x.address, element_of(p.x, batch, channel, 0, 0));
        c.row = p.x.row;
        c.pixel = p.x.pixel;
        c.width = p.x.width;
        c.last = static_cast<i32>(p.x.height) - 1;
        c.left = static_cast<i32>(landing(p.window, 1, pixel, 0));
#pragma unroll
        for (u32 j = 0; j < 3; ++j) {
            c.across[j] = min(max(c.left + static_cast<i32>(j), 0), static_cast<i32>(p.x.width) - 1) * p.x.pixel;
        }
        i32 top = static_cast<i32>(landing(p.window, 0, begin, 0));
        u16* to = reinterpret_cast<u16*>(f.y.address) + element_of(f.y, batch, channel, begin, pixel);
        Most kept[3 - STEP];  // of the window's first rows
#pragma unroll
        for (u32 i = 0; i < 3 - STEP; ++i) {
            kept[i] = Most(c.load(top + static_cast<i32>(i), 0));
#pragma unroll
            for (u32 j = 1; j < 3; ++j) kept[i].take(c.load(top + static_cast<i32>(i), j));
        }
#pragma unroll 1
        for (u32 row = begin; row < end; ++row) {
            uint4 taps[STEP][3];
#pragma unroll
            for (u32 i = 0; i < STEP; ++i) {
#pragma unroll
                for (u32 j = 0; j < 3; ++j) taps[i][j] = c.load(top + static_cast<i32>(3 - STEP + i), j);
            }
            Most most = kept[0], fresh[STEP];
            if constexpr (STEP == 1) most.take(kept[1]);
#pragma unroll
            for (u32 i = 0; i < STEP; ++i) {
                fresh[i] = Most(taps[i][0]);
#pragma unroll
                for (u32 j = 1; j < 3; ++j) fresh[i].take(taps[i][j]);
                most.take(fresh[i]);
            }
            if constexpr (STEP == 1) kept[0] = kept[1];
            kept[2 - STEP] = fresh[STEP - 1];
            if (most.doubtful()) most.value = greatest_in_order(c, top);
            *reinterpret_cast<uint4*>(to) = most.value;
            to += f.y.row;
            top += STEP;
        }
    }
}

extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) pool_rows(const __grid_constant__ PoolRows p) {
    bring_around(p, p.frame.tail);
    wait_for_predecessors();
    release_successors();
    if (p.window.stride[0] == 1) {
        pool_down<1>(p);
    } else {
        pool_down<2>(p);
    }
}
