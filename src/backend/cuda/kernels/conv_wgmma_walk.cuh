// The way of the copy engine through an im2col map: through the blocks of channels of every tap of a window, row by row of taps.
#pragma once

#include "conv_wgmma_params.cuh"
#include "hopper.cuh"

constexpr u32 BLOCK_K = 64;                  // channels of a stage
constexpr u32 K_BYTES = BLOCK_K * 2;         // one swizzled row

// Where the next K block of some pixels lies: the window's first tap at the first of them, the tap, and its block of channels.
struct Walk {
    i32 x, y, batch;
    u32 block, down, across;

    // Goes on to the next K block.
    __device__ __forceinline__ void step(const ConvWgmmaParams& p) {
        if (++block != p.channel_blocks) return;
        block = 0;
        if (++across != p.kernel_columns) return;
        across = 0;
        ++down;
    }

    // Calls `copy` with the channel, x, y and sample at which the map's box begins, and with the tap's distance across and down.
    template <class Copy>
    __device__ __forceinline__ void at(const ConvWgmmaParams& p, const Copy& copy) const {
        copy(block * BLOCK_K, x, y, batch, static_cast<u16>(across * p.dilation_columns), static_cast<u16>(down * p.dilation_rows));
    }

    // Copies the K block's pixels.
    __device__ __forceinline__ void load(const ConvWgmmaParams& p, u32 to, u32 full) const {
        at(p, [&](i32 channel, i32 x, i32 y, i32 sample, u16 across, u16 down) {
            copy_im2col(to, &p.image, full, channel, x, y, sample, across, down);
        });
    }
};

// The way of pixels from one on (counted like `first_pixel`), from a K block on.
__device__ __forceinline__ Walk walk_from(const ConvWgmmaParams& p, u32 pixel, u32 k) {
    const u32 line = pixel / p.walk_columns;
    Walk w;
    w.x = static_cast<i32>((pixel - line * p.walk_columns) * p.stride_columns) - static_cast<i32>(p.pad_columns);
    const u32 batch = line / p.walk_rows;
    w.batch = static_cast<i32>(batch);
    w.y = static_cast<i32>((line - batch * p.walk_rows) * p.stride_rows) - static_cast<i32>(p.pad_rows);
    const u32 tap = k / p.channel_blocks;
    w.block = k - tap * p.channel_blocks;
    w.down = tap / p.kernel_columns;
    w.across = tap - w.down * p.kernel_columns;
    return w;
}
