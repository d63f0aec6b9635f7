// Storing the tile of a grouped convolution: each warp has two rows of 8 pixels and up to 64 channels of them, which it turns
// round in its strip of shared memory.
#pragma once

#include "conv_wgmma_store.cuh"

constexpr u32 SIDE = 8;                 // rows and columns of a tile
constexpr u32 TILE_SUMS = STRIP / 2;    // sums of a thread

// The two rows of a tile that a warp stores; rows and columns from the ends on are not there.
struct TwoRows {
    u32 batch, row, column;
    u32 end_row, end_column;

    __device__ __forceinline__ bool live(u32 pixel) const { return row + pixel / SIDE < end_row && column + pixel % SIDE < end_column; }
    __device__ __forceinline__ Place place(u32 pixel, u32 channel) const { return {batch, row + pixel / SIDE, column + pixel % SIDE, channel}; }
};

// Stores channels from `channel` up to `end` by the tails that have a path of their own, 16 bytes a thread.
__device__ __forceinline__ void store_rows(const Epilogue& e, const float (&sums)[TILE_SUMS], const float2 (&bias)[STRIP / GROUP], const TwoRows& rows,
                                           u32 strip, u32 channel, u32 end, u32 lane) {
    constexpr u32 PIECES = STRIP / GROUP, AT_ONCE = 32 / PIECES, TURNS = WARP_ROWS / AT_ONCE;
    fragment_to_strip<0, TILE_SUMS>(sums, bias, e, strip, lane);
    const u32 first = lane / PIECES, piece = lane % PIECES, own = channel + piece * GROUP;
    const auto pixel = [&](u32 i) { return first + i * AT_ONCE; };
    const auto live = [&](u32 i) { return own < end && rows.live(pixel(i)); };
    const auto load = [&](u32 i) { return load_strip(strip + strip_piece(pixel(i), piece)); };
    const auto put = [&](u32 i, const uint4& bits) { *reinterpret_cast<uint4*>(group_address(e.output, rows.place(pixel(i), own))) = bits; };
    const auto other = [&](u32 i) { return *reinterpret_cast<const uint4*>(group_address(e.joined, rows.place(pixel(i), own))); };
    // The choice of a function stands before the turns.
    const auto turns = [&](const auto& f) {
#pragma unroll 1
        for (u32 i = 0; i < TURNS; ++i) {
            if (!live(i)) continue;
            uint4 bits = each_half(load(i), f);
            if (is_join(e)) bits = join(bits, other(i), e);
            put(i, bits);
        }
    };
    if (asked(is_clip(e) & !is_join(e))) {
#pragma unroll
        for (u32 i = 0; i < TURNS; ++i) {
            if (live(i)) put(i, load(i));
        }
    } else if (is_clip(e)) {
        uint4 joined[TURNS];
#pragma unroll
        for (u32 i = 0; i < TURNS; ++i) {
            if (live(i)) joined[i] = other(i);
        }
#pragma unroll
        for (u32 i = 0; i < TURNS; ++i) {
            if (live(i)) put(i, join(load(i), joined[i], e));
        }
    } else {
        with_unusual(e, turns, [&] { with_usual(e, turns); });
    }
}

// The general way, in f32 and group by group.
__device__ __forceinline__ void store_rows_general(const Epilogue& e, const float (&sums)[TILE_SUMS], const TwoRows& rows, u32 strip, u32 channel,
                                                   u32 end, u32 lane) {
    constexpr u32 GROUPS = NARROW / GROUP, AT_ONCE = 32 / GROUPS;
#pragma unroll 1
    for (u32 c = 0; c < STRIP && channel + c < end; c += NARROW) {
        float values[NARROW / 2];
        pick(values, sums, c / NARROW);
        __syncwarp();
        const u32 fragment = strip + (lane / 4 * NARROW + lane % 4 * 2) * 4;
#pragma unroll
        for (u32 j = 0; j < NARROW / GROUP; ++j) {
            store_pair(fragment + j * 32, values[4 * j], values[4 * j + 1]);
            store_pair(fragment + (8 * NARROW + j * 8) * 4, values[4 * j + 2], values[4 * j + 3]);
        }
        __syncwarp();
        const u32 own = channel + c + lane % GROUPS * GROUP;
        if (own >= end) continue;
#pragma unroll 1
        for (u32 pixel = lane / GROUPS; pixel < WARP_ROWS; pixel += AT_ONCE) {
            if (!rows.live(pixel)) continue;
            const u32 at = strip + (pixel * NARROW + lane % GROUPS * GROUP) * 4;
            const float4 low = load_four(at), high = load_four(at + 16);
            float group[GROUP] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            finish(group, e, rows.place(pixel, own), GROUP);
        }
    }
}
