// Convolutions whose K is summed in ranges of a warp each: taps of a window, or ranges of channels under one tap.
//
// A piece is 32 channels under one tap. Of the two products of a piece, lane `l` holds channels 8 (l % 4) to 8 (l % 4) + 7:
// the same permutation of K on both sides, which lets a lane load its part of a pixel, and of a row of weights, at once.
#pragma once

#include "chain.cuh"
#include "conv_load.cuh"

struct ConvWarps {
    Convolution product;
    u64 gate;         // f16 factors of the input channels, side by side, of sample 0
    i64 gate_batch;   // elements from sample to sample
    u32 turns;        // tiles of pixels that a block computes with the same weights
    u32 units;        // blocks' work: turns by tiles across
    u32 warp_pieces;  // pieces of a warp
    u32 warps;        // that have any
};

static_assert(sizeof(ConvWarps) == sizeof(Convolution) + 32, "mirrored in bind/conv_warps.rs");

// What the warps share out: the nine taps of a window; the channels of the only tap, behind scale, shift and relu by
// channel, or behind a factor by channel and sample.
enum class Share { TAPS, AFFINE, GATE };

constexpr u32 WARP = 32;
constexpr u32 PIECE_CHANNELS = 32;
constexpr u32 WARP_PIECES = 4;  // most pieces of a warp
constexpr u32 LANE_CHANNELS = 8;

constexpr u32 warps_of(Share share) { return share == Share::TAPS ? 9 : 8; }

__device__ __forceinline__ u32 two_scaled(u32 x, u32 factor) {
    u32 y;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(factor));
    return y;
}

__device__ __forceinline__ uint4 load_halves(u64 address, bool live) {
    return live ? *reinterpret_cast<const uint4*>(address) : make_uint4(0, 0, 0, 0);
}
