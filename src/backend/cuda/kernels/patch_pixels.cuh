// What kernels have in common that multiply pixels of patches by warpgroup products: their barriers, their tiles of 8 columns, and
// how a warp stores its 16 pixels of a product.
#pragma once

#include "conv_patch.cuh"
#include "conv_wgmma_store.cuh"

constexpr u32 WARP = 32, WARPGROUP = 128;
constexpr u32 COLUMNS = 8;  // of a tile

// The barriers of a block: of each of S::STAGES, that its patch is there, and that it may be filled; of the weights, that they are there.
template <class S>
struct Barriers {
    u32 base;
    __device__ __forceinline__ u32 full(u32 stage) const { return base + stage * 16; }
    __device__ __forceinline__ u32 empty(u32 stage) const { return base + stage * 16 + 8; }
    __device__ __forceinline__ u32 weights() const { return base + S::STAGES * 16; }

    __device__ __forceinline__ void init() const {
        for (u32 i = 0; i < S::STAGES; ++i) {
            barrier_init(full(i), 1);
            barrier_init(empty(i), WARPGROUP / WARP);
        }
        barrier_init(weights(), 1);
        barrier_init_fence();
    }
};

// A tile: its sample, and the first row and column that it stores.
struct Tile {
    u32 batch, row, column;
};

// How many tiles this block has: every `gridDim.x`-th.
__device__ __forceinline__ u32 tile_count(const ConvPatchParams& p) {
    return blockIdx.x < p.tiles ? (p.tiles - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
}

// The n-th of them, of so many rows.
template <u32 ROWS>
__device__ __forceinline__ Tile tile_at(const ConvPatchParams& p, u32 n) {
    const u32 index = blockIdx.x + n * gridDim.x, line = index / p.across, batch = line / p.down;
    return {p.first_batch + batch, p.first_row + (line - batch * p.down) * ROWS, (index - line * p.across) * COLUMNS};
}

// Asks for the weights of COUNT K blocks, BLOCK_BYTES of shared memory each, of ROW_BYTES an output channel. A whole warp comes here.
template <u32 COUNT, u32 BLOCK_BYTES, u32 ROW_BYTES>
__device__ __forceinline__ void load_weights(const ConvPatchParams& p, u32 base, u32 full) {
    // Weights of a K block have a multiple of GROUP channels; what lies behind the last is multiplied and not stored.
    const u32 bytes = (p.channels + GROUP - 1) / GROUP * GROUP * ROW_BYTES;
    if (!elected()) return;
    barrier_arrive_expecting(full, COUNT * bytes);
#pragma unroll 1
    for (u32 i = 0; i < COUNT; ++i) {
        copy_run(base + i * BLOCK_BYTES, reinterpret_cast<const void*>(p.weights + i * bytes), bytes, full);
    }
}

// Where a warp's 16 pixels of a product lie: two rows of a tile.
struct WarpPixels {
    u32 batch, row, column;

    // Pixel `i` of the 16.
    __device__ __forceinline__ Place place(u32 i, u32 channel) const { return {batch, row + i / COLUMNS, column + i % COLUMNS, channel}; }
    __device__ __forceinline__ bool is_live(const ConvPatchParams& p, u32 i) const {
        return row + i / COLUMNS < p.end_row && column + i % COLUMNS < p.columns;
    }
};

// Stores the sums of a warp's pixels, N channels, the plain way: rounded, turned round in the strip, 8 channels of a pixel a lane.
template <u32 N>
__device__ __forceinline__ void store_plain_pixels(const ConvPatchParams& p, const WarpPixels& pixels, const float (&sums)[N / 2],
                                                   const float2 (&bias)[N / GROUP], u32 strip, u32 lane) {
    constexpr u32 PIECES = N / GROUP, AT_ONCE = WARP / PIECES, TURNS = WARP_ROWS / AT_ONCE;
    const Epilogue& e = p.epilogue;
    const u32 piece = lane % PIECES, own = piece * GROUP;
    const auto pixel = [&](u32 i) { return i * AT_ONCE + lane / PIECES; };
    const auto is_live = [&](u32 i) { return own < p.channels && pixels.is_live(p, pixel(i)); };
    uint4 joined[TURNS];
    if (is_join(e)) {
#pragma unroll
        for (u32 i = 0; i < TURNS; ++i) {
            if (is_live(i)) joined[i] = *reinterpret_cast<const uint4*>(group_address(e.joined, pixels.place(pixel(i), own)));
        }
    }
    fragment_to_strip<0, N / 2>(sums, bias, e, strip, lane);
    // The choice of a function stands before the turns.
    const auto turns = [&](const auto& f) {
#pragma unroll
        for (u32 i = 0; i < TURNS; ++i) {
            uint4 bits = f(load_strip(strip + strip_piece(pixel(i), piece)));
            if (is_join(e)) bits = join(bits, joined[i], e);
            if (is_live(i)) *reinterpret_cast<uint4*>(group_address(e.output, pixels.place(pixel(i), own))) = bits;
        }
    };
    const auto mapped = [&](const auto& f) {
        turns([&](const uint4& bits) { return each_half(bits, f); });
    };
    if (is_clip(e)) {
        turns([](const uint4& bits) { return bits; });
    } else {
        with_unusual(e, mapped, [&] { with_usual(e, mapped); });
    }
}

// The same of any other tail: in f32, group by group.
template <u32 N>
__device__ __forceinline__ void store_any_pixels(const ConvPatchParams& p, const WarpPixels& pixels, const float (&sums)[N / 2], u32 strip, u32 lane) {
    constexpr u32 WIDTH = N < NARROW ? N : NARROW, GROUPS = WIDTH / GROUP, AT_ONCE = WARP / GROUPS;
#pragma unroll 1
    for (u32 c = 0; c < N && c < p.channels; c += WIDTH) {
        float values[WIDTH / 2];
        pick(values, sums, c / WIDTH);
        __syncwarp();
        const u32 fragment = strip + (lane / 4 * WIDTH + lane % 4 * 2) * 4;
#pragma unroll
        for (u32 j = 0; j < WIDTH / 8; ++j) {
            store_pair(fragment + j * 32, values[4 * j], values[4 * j + 1]);
            store_pair(fragment + (8 * WIDTH + j * 8) * 4, values[4 * j + 2], values[4 * j + 3]);
        }
        __syncwarp();
        const u32 own = c + lane % GROUPS * GROUP;
        if (own >= p.channels) continue;
#pragma unroll 1
        for (u32 i = lane / GROUPS; i < WARP_ROWS; i += AT_ONCE) {
            if (!pixels.is_live(p, i)) continue;
            const u32 at = strip + (i * WIDTH + lane % GROUPS * GROUP) * 4;
            const float4 low = load_four(at), high = load_four(at + 16);
            float group[GROUP] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            finish(group, p.epilogue, pixels.place(i, own), min(GROUP, p.channels - own));
        }
    }
    __syncwarp();
}
