// What the kernels that convolve with `wgmma` have in common: tiles of pixels by channels, the loads of their K blocks into a ring of
// stages, and the products of a warpgroup.
//
// A shape `S` says TILE_M pixels, TILE_N channels, STAGES of the ring, and where BARRIERS lie: of a stage two, 16 bytes apart.
#pragma once

#include "conv_wgmma_params.cuh"
#include "hopper.cuh"
#include "ring.cuh"
#include "wgmma.cuh"

constexpr u32 BLOCK_K = 64;                  // channels of a stage
constexpr u32 K_BYTES = BLOCK_K * 2;         // one swizzled row
constexpr u32 PRODUCT_K = 16;                // channels of one warpgroup product
constexpr u32 WARP = 32, WARPGROUP = 128;
constexpr u32 WARPGROUP_ROWS = 64;

// Who sums the chains of a tile: there is one chain, one block sums them in turn, or a cluster's blocks side by side.
enum class Chains { ONE, IN_TURN, CLUSTER };

// A tile: its first pixel (counted like `first_pixel`), its valid pixels, its first channel.
struct Tile {
    u32 pixel, pixels, channel;
};

template <class S>
__device__ __forceinline__ Tile tile_at(const ConvWgmmaParams& p, u32 index) {
    // Often there is one tile of channels, and one run.
    const u32 rows = p.channel_tiles == 1 ? index : index / p.channel_tiles;
    const u32 run = p.run_stride == 0 ? 0 : rows / p.run_tiles;
    const u32 offset = (rows - run * p.run_tiles) * S::TILE_M;
    Tile t;
    t.channel = (index - rows * p.channel_tiles) * S::TILE_N;
    t.pixel = p.first_pixel + run * p.run_stride + offset;
    t.pixels = min(p.run_pixels - offset, S::TILE_M);
    return t;
}

// K blocks from one to another.
struct Blocks {
    u32 begin, end;
    __device__ __forceinline__ u32 count() const { return end - begin; }
};

// The K blocks of a tile whose taps can lie in the input. Under a dilated window rows of taps may lie outside for all pixels of
// a tile, where they would add zeros.
__device__ __forceinline__ Blocks live_blocks(const ConvWgmmaParams& p, const Tile& t) {
    const Blocks all = {0, p.k_blocks};
    const u32 first = t.pixel / p.walk_columns, last = (t.pixel + t.pixels - 1) / p.walk_columns, batch = first / p.walk_rows;
    if (last / p.walk_rows != batch) return all;
    const u32 top = (first - batch * p.walk_rows) * p.stride_rows, bottom = (last - batch * p.walk_rows) * p.stride_rows;
    const u32 row = p.kernel_columns * p.channel_blocks, above = p.pad_rows > bottom ? p.pad_rows - bottom : 0;
    const u32 below = p.height + p.pad_rows > top ? p.height + p.pad_rows - top : 0;
    const u32 begin = min((above + p.dilation_rows - 1) / p.dilation_rows * row, p.k_blocks);
    return {begin, max(begin, min((below + p.dilation_rows - 1) / p.dilation_rows * row, p.k_blocks))};
}

// Those of a chain.
__device__ __forceinline__ Blocks chain_blocks(const ConvWgmmaParams& p, const Blocks& live, u32 chain) {
    const auto begin = [&](u32 i) { return min(max(i * p.k_blocks / p.splits, live.begin), live.end); };
    return {begin(chain), begin(chain + 1)};
}

// Those that are loaded for a tile.
__device__ __forceinline__ Blocks blocks_of(const ConvWgmmaParams& p, const Tile& t) {
    return p.height == 0 ? Blocks{0, p.k_blocks} : live_blocks(p, t);
}

// Where the weights of a tile lie: a run of `bytes` for each K block, `step` apart.
struct WeightRuns {
    u64 address, step;
    u32 bytes;
};

template <class S>
__device__ __forceinline__ WeightRuns weight_runs(const ConvWgmmaParams& p, const Tile& t, u32 begin) {
    const u32 padded = (p.channels + GROUP - 1) / GROUP * GROUP;
    const u64 step = static_cast<u64>(padded) * K_BYTES;
    return {p.weights + begin * step + t.channel * K_BYTES, step, min(S::TILE_N, padded - t.channel) * K_BYTES};
}

// Says what a stage will hold, and asks for its weights: one thread.
template <class S>
__device__ __forceinline__ void load_weights(const WeightRuns& w, u32 k, u32 base, u32 stage) {
    const u32 full = base + S::BARRIERS + stage * 16;
    barrier_arrive_expecting(full, S::IMAGE_BYTES + w.bytes);
    copy_run(base + stage * S::STAGE_BYTES + S::IMAGE_BYTES, reinterpret_cast<const void*>(w.address + k * w.step), w.bytes, full);
}

// Where the loads of a tile's pixels begin.
struct Walk {
    i32 x, y, batch;
    u32 block, down, across;
};

template <class S>
__device__ __forceinline__ Walk walk_from(const ConvWgmmaParams& p, const Tile& t, u32 begin) {
    const u32 line = t.pixel / p.walk_columns;
    Walk w;
    w.x = static_cast<i32>((t.pixel - line * p.walk_columns) * p.stride_columns) - static_cast<i32>(p.pad_columns);
    const u32 batch = line / p.walk_rows;
    w.batch = static_cast<i32>(batch);
    w.y = static_cast<i32>((line - batch * p.walk_rows) * p.stride_rows) - static_cast<i32>(p.pad_rows);
    const u32 tap = begin / p.channel_blocks;
    w.block = begin - tap * p.channel_blocks;
    w.down = tap / p.kernel_columns;
    w.across = tap - w.down * p.kernel_columns;
    return w;
}

// Fills the weights' part of the first stages; returns how many. Weights are constants, so this may run before the launches
// that make the image have ended. A whole warp comes here.
template <class S>
__device__ __forceinline__ u32 load_ahead(const WeightRuns& w, u32 blocks, u32 base) {
    const u32 count = min(blocks, S::STAGES);
#pragma unroll 1
    for (u32 k = 0; k < count; ++k) {
        if (elected()) load_weights<S>(w, k, base, k);
    }
    return count;
}

// What a warp asks for: to find a stage empty takes it some 100 cycles and each copy some 30, so that one warp alone is often slower
// than the products of a narrow tile. The bytes of pixels may come before it is said that they will: a stage is not full until it is.
enum class Loads { BOTH, WEIGHTS, PIXELS };

// Fills stages with the K blocks of a tile; the first `ahead` have their weights already. A whole warp comes here.
template <class S, Loads LOADS>
__device__ __forceinline__ void load(const ConvWgmmaParams& p, const Walk& w, const WeightRuns& weights, u32 count, u32 ahead, u32 base,
                                     Ring<S::STAGES>& ring) {
    u32 block = w.block, down = w.down, across = w.across;
#pragma unroll 1
    for (u32 k = 0; k < count; ++k, ring.advance()) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        if (!ring.fresh) barrier_wait(full + 8, ring.parity ^ 1);
        const bool asks = elected();
        if (LOADS != Loads::PIXELS && k >= ahead && asks) load_weights<S>(weights, k, base, ring.stage);
        if constexpr (LOADS == Loads::WEIGHTS) continue;
        if (asks) {
            copy_im2col(base + ring.stage * S::STAGE_BYTES, &p.image, full, block * BLOCK_K, w.x, w.y, w.batch,
                        static_cast<u16>(across * p.dilation_columns), static_cast<u16>(down * p.dilation_rows));
        }
        if (++block == p.channel_blocks) {
            block = 0;
            if (++across == p.kernel_columns) {
                across = 0;
                ++down;
            }
        }
    }
}

// Multiplies the next `count` stages into `sums`, which start anew.
template <class S>
__device__ __forceinline__ void multiply(float (&sums)[S::TILE_N / 2], u32 count, u32 base, u32 group, u32 lane, Ring<S::STAGES>& ring) {
    // Set here, not by the first product: some compilers would else set them between products and wait for each.
#pragma unroll
    for (u32 i = 0; i < S::TILE_N / 2; ++i) sums[i] = 0.0f;
    u32 previous = 0;
#pragma unroll 1
    for (u32 k = 0; k < count; ++k, ring.advance()) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        barrier_wait(full, ring.parity);
        const u32 image = base + ring.stage * S::STAGE_BYTES;
        const u32 a = swizzled_matrix(image + group * WARPGROUP_ROWS * K_BYTES);
        const u32 b = swizzled_matrix(image + S::IMAGE_BYTES);
        products_begin();
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            const u32 step = i * PRODUCT_K * 2 >> 4;  // descriptors count in 16 bytes
            Wgmma<S::TILE_N>::multiply(sums, a + step, b + step);
        }
        products_commit();
        // The products of the stage before are done: it may be filled again.
        products_wait<1>();
        if (k > 0 && lane == 0) barrier_arrive(previous);
        previous = full + 8;
    }
    products_wait<0>();
    if (count > 0 && lane == 0) barrier_arrive(previous);
}
