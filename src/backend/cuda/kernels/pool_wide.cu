// Maxima of f16 under large windows at step 1, channels side by side: the halves of pool.cu, for many taps.
//
// The greatest of a window is that of its rows' greatest. A block keeps the input pixels under a tile of outputs in shared
// memory, eight channels of them, makes the greatest of every run of a row, and then of every run of these along the columns.
// The first of equals stays, and the first NaN, in the order of the rows and in them of the pixels: as if taps came one by one.
#include "chain.cuh"
#include "groups.cuh"
#include "maxima.cuh"
#include "mma.cuh"
#include "parameters.cuh"
#include "window.cuh"

constexpr u32 WIDE_THREADS = 256;

struct PoolWide {
    PixelFrame frame;  // its division into runs is not used
    Pixels x;
    Window window;     // at step 1, without dilation
    Divisor across;    // tiles along a row
    Divisor down;      // and along the rows of the chunk
    u32 tile_rows;     // outputs of a tile
    u32 tile_columns;
    u32 tiles;
    u32 padding;
};

static_assert(sizeof(PoolWide) == sizeof(PixelFrame) + 48 + 64 + 24 + 16, "mirrored in bind/pool_wide.rs");

// The greatest of `count` groups, `step` apart.
__device__ __forceinline__ uint4 greatest(const uint4* from, u32 count, u32 step) {
    uint4 most = make_uint4(LEAST, LEAST, LEAST, LEAST);
#pragma unroll 4
    for (u32 i = 0; i < count; ++i) most = greater_group(most, from[i * step]);
    return most;
}

extern "C" __global__ void __launch_bounds__(WIDE_THREADS) pool_wide(const __grid_constant__ PoolWide p) {
    bring_around(p, p.frame.tail);
    wait_for_predecessors();
    release_successors();
    extern __shared__ __align__(128) u8 memory[];
    const u32 tall = p.window.kernel[0], wide = p.window.kernel[1];
    const u32 lines = p.tile_rows + tall - 1, columns = p.tile_columns + wide - 1;
    uint4* const pixels = reinterpret_cast<uint4*>(memory);
    uint4* const runs = pixels + lines * columns;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 place = divide(tile, p.frame.groups);
        const u32 channel = (tile - place * p.frame.groups.divisor) * GROUP_CHANNELS;
        const u32 level = divide(place, p.across), column = (place - level * p.across.divisor) * p.tile_columns;
        const u32 sample = divide(level, p.down), below = (level - sample * p.down.divisor) * p.tile_rows;
        Spot s;
        s.batch = p.frame.first_batch + sample, s.channel = channel, s.count = GROUP_CHANNELS;
        const i32 top = static_cast<i32>(p.frame.first_row + below) - static_cast<i32>(p.window.pad_begin[0]);
        const i32 left = static_cast<i32>(column) - static_cast<i32>(p.window.pad_begin[1]);
        for (u32 i = threadIdx.x; i < lines * columns; i += WIDE_THREADS) {
            const u32 row = i / columns;
            const i32 y = top + static_cast<i32>(row), x = left + static_cast<i32>(i - row * columns);
            const bool inside = static_cast<u32>(y) < p.x.height && static_cast<u32>(x) < p.x.width;
            if (inside) {
                copy_16(shared_address(pixels + i), p.x.address + static_cast<u64>(element_of(p.x, s.batch, channel, y, x) * 2), 16);
            } else {
                pixels[i] = make_uint4(LEAST, LEAST, LEAST, LEAST);
            }
        }
        commit_copies();
        wait_copies<0>();
        __syncthreads();
        for (u32 i = threadIdx.x; i < lines * p.tile_columns; i += WIDE_THREADS) {
            const u32 row = i / p.tile_columns;
            runs[i] = greatest(pixels + row * columns + (i - row * p.tile_columns), wide, 1);
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < p.tile_rows * p.tile_columns; i += WIDE_THREADS) {
            const u32 row = i / p.tile_columns, pixel = column + (i - row * p.tile_columns);
            if (below + row >= p.frame.rows.divisor || pixel >= p.frame.y.width) continue;
            float v[8];
            widen(greatest(runs + i, tall, p.tile_columns), v);
            s.row = p.frame.first_row + below + row;
            finish_pixel(p.frame, s, pixel, v);
        }
        __syncthreads();
    }
}
