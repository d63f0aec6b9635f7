// Convolutions of few pixels by `mma.sync`: the warps of a block share out K, and each keeps its part of the weights in
// registers.
//
// Weights are constants, so they are there before the launches whose pixels are read have ended; what is left to do then is
// one round of loads, a handful of products a warp, and a sum over the warps. Nothing passes through shared memory but the
// warps' sums, which are added in the order of K.
//
// A piece is 32 channels under one tap. Of the two products of a piece, lane `l` holds channels 8 (l % 4) to 8 (l % 4) + 7:
// the same permutation of K on both sides, which lets a lane load its part of a pixel, and of a row of weights, at once.

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
// channel, or behind a factor by channel and sample; the channels of single pixels as they are.
enum class Share { TAPS, AFFINE, GATE, SINGLE };

constexpr u32 WARP = 32;
constexpr u32 PIECE_CHANNELS = 32;
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

// A block: its warps along K, of PIECES pieces at the most; a tile of 16 DOWN pixels by 8 ACROSS channels.
template <u32 DOWN_, u32 ACROSS_, Share S, u32 PIECES>
struct Block {
    static constexpr u32 WARPS = warps_of(S), THREADS = WARPS * WARP, DOWN = DOWN_, ACROSS = ACROSS_;
    static constexpr u32 PIXELS = DOWN * 16, CHANNELS = ACROSS * 8;
    static constexpr u32 ROW = CHANNELS + 8;  // floats from pixel to pixel of a warp's sums, against bank conflicts
    static_assert(PIXELS * ACROSS <= THREADS, "a thread finishes one group at the most");

    // The part of K of this lane: `channels` from `channel` on under one tap.
    u32 row, column, channel, channels;
    // Weights of each piece and row of eight channels; scales and shifts of each piece.
    uint4 weights[PIECES][ACROSS];
    uint4 scales[PIECES], shifts[PIECES];
    // Pixels of each piece, 8 apart; their factors.
    uint4 pixels[PIECES][DOWN * 2], gates[PIECES][DOWN * 2];
    // Where the pixels and factors lie.
    u64 from[DOWN * 2], factors[DOWN * 2];
    bool inside[DOWN * 2];

    __device__ __forceinline__ explicit Block(const ConvWarps& p) {
        const u32 warp = threadIdx.x / WARP, inputs = p.product.channels.divisor;
        const u32 reach = p.warp_pieces * PIECE_CHANNELS;
        const u32 tap = S == Share::TAPS ? warp : 0, first = S == Share::TAPS ? 0 : warp * reach;
        row = divide(tap, p.product.kernel_columns);
        column = tap - row * p.product.kernel_columns.divisor;
        channel = first + threadIdx.x % 4 * LANE_CHANNELS;
        channels = min(inputs, first + reach);
    }

    __device__ __forceinline__ bool holds(u32 piece) const { return channel + piece * PIECE_CHANNELS < channels; }

    __device__ __forceinline__ void load_weights(const ConvWarps& p, u32 across) {
        const Convolution& c = p.product;
        const u32 n = across * CHANNELS + threadIdx.x % WARP / 4;
        const u32 k = (row * c.kernel_columns.divisor + column) * c.channels.divisor + channel;
        const u64 from = c.weights + 2 * (static_cast<u64>(n) * c.k_padded + k);
#pragma unroll
        for (u32 j = 0; j < PIECES; ++j) {
#pragma unroll
            for (u32 i = 0; i < ACROSS; ++i) {
                const u64 at = from + 2 * (static_cast<u64>(i) * 8 * c.k_padded + j * PIECE_CHANNELS);
                weights[j][i] = load_halves(at, holds(j) && n + i * 8 < c.n);
            }
            if constexpr (S == Share::AFFINE) {
                const u64 scale = c.affine + 2 * (channel + j * PIECE_CHANNELS);
                scales[j] = load_halves(scale, holds(j));
                shifts[j] = load_halves(scale + 2 * c.k_padded, holds(j));
            }
        }
    }

    // Finds the pixels of a tile. Behind the last pixel it is that one: what is computed there goes nowhere.
    __device__ __forceinline__ void aim(const ConvWarps& p, u32 tile) {
        const Convolution& c = p.product;
#pragma unroll
        for (u32 i = 0; i < DOWN * 2; ++i) {
            const u32 pixel = min(tile * PIXELS + i * 8 + threadIdx.x % WARP / 4, c.m - 1);
            const bool flat = c.walk == WALK_FLAT;
            const Place place = flat && S != Share::GATE ? Place{} : place_of(c, pixel);
            const i32 y = static_cast<i32>(place.row * c.stride_rows + row * c.dilation_rows.divisor) - static_cast<i32>(c.pad_rows);
            const i32 x = static_cast<i32>(place.pixel * c.stride_pixels + column * c.dilation_pixels.divisor) - static_cast<i32>(c.pad_pixels);
            const i32 windowed = static_cast<i32>(place.batch) * c.x_batch + y * c.x_row + x * c.x_pixel;
            const i32 element = flat ? static_cast<i32>(c.first_pixel + pixel) * c.x_pixel : windowed;
            inside[i] = flat || (static_cast<u32>(y) < c.height && static_cast<u32>(x) < c.width);
            from[i] = c.x + 2 * static_cast<i64>(element + static_cast<i32>(channel));
            if constexpr (S == Share::GATE) factors[i] = p.gate + 2 * (place.batch * p.gate_batch + channel);
        }
    }

    // Loads the pixels that it aims at.
    __device__ __forceinline__ void load_pixels() {
#pragma unroll
        for (u32 i = 0; i < DOWN * 2; ++i) {
#pragma unroll
            for (u32 j = 0; j < PIECES; ++j) {
                pixels[j][i] = load_halves(from[i] + 2 * j * PIECE_CHANNELS, inside[i] && holds(j));
                if constexpr (S == Share::GATE) gates[j][i] = load_halves(factors[i] + 2 * j * PIECE_CHANNELS, holds(j));
            }
        }
    }

    __device__ __forceinline__ static u32 word(const uint4& v, u32 i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

    // Word `w` of the pixels, prepared.
    __device__ __forceinline__ u32 prepared(u32 piece, u32 pixel, u32 w) const {
        const u32 x = word(pixels[piece][pixel], w);
        if constexpr (S == Share::AFFINE) return affine_relu(x, word(scales[piece], w), word(shifts[piece], w));
        if constexpr (S == Share::GATE) return two_scaled(x, word(gates[piece][pixel], w));
        return x;
    }

    __device__ __forceinline__ void multiply_all(float (&sums)[DOWN][ACROSS][4]) const {
#pragma unroll
        for (u32 d = 0; d < DOWN; ++d) {
#pragma unroll
            for (u32 i = 0; i < ACROSS; ++i) {
#pragma unroll
                for (u32 e = 0; e < 4; ++e) sums[d][i][e] = 0.0f;
            }
        }
#pragma unroll
        for (u32 j = 0; j < PIECES; ++j) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
#pragma unroll
                for (u32 d = 0; d < DOWN; ++d) {
                    const u32 a[4] = {prepared(j, d * 2, half * 2), prepared(j, d * 2 + 1, half * 2), prepared(j, d * 2, half * 2 + 1),
                                      prepared(j, d * 2 + 1, half * 2 + 1)};
#pragma unroll
                    for (u32 i = 0; i < ACROSS; ++i) multiply(sums[d][i], a, word(weights[j][i], half * 2), word(weights[j][i], half * 2 + 1));
                }
            }
        }
    }
};

// The group that a thread finishes.
struct GroupPlace {
    static constexpr bool FLAT = true;
    const Convolution& p;
    u32 pixel;  // of the chunk
    u32 column;

    __device__ __forceinline__ u32 channel() const { return column; }
    __device__ __forceinline__ bool live(u32) const { return true; }
    __device__ __forceinline__ u32 flat(u32) const { return p.first_pixel + pixel; }
    __device__ __forceinline__ Place at(u32) const {
        Place place = place_of(p, pixel);
        place.channel = column;
        return place;
    }
};

template <class B>
__device__ __forceinline__ void convolve(const ConvWarps& p) {
    __shared__ alignas(16) float parts[B::WARPS][B::PIXELS * B::ROW];
    const Convolution& c = p.product;
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const u32 pixel = threadIdx.x / B::ACROSS, group = threadIdx.x % B::ACROSS * GROUP;
    B block(p);
    bool waited = false;
    for (u32 unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
        const u32 run = divide(unit, c.tiles_across), across = unit - run * c.tiles_across.divisor;
        const u32 first_channel = across * B::CHANNELS + group, first = run * p.turns, end = min(first + p.turns, c.tiles);
        const u32 count = c.n > first_channel ? min(c.n - first_channel, GROUP) : 0;
        block.load_weights(p, across);
        float bias[GROUP] = {};
        const bool finishes = pixel < B::PIXELS && count > 0;
        if (finishes) load_bias(bias, c.epilogue, first_channel);
        block.aim(p, first);
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        block.load_pixels();
        for (u32 tile = first; tile < end; ++tile) {
            float sums[B::DOWN][B::ACROSS][4];
            block.multiply_all(sums);
            if (tile + 1 < end) {
                block.aim(p, tile + 1);
                block.load_pixels();
            }
#pragma unroll
            for (u32 d = 0; d < B::DOWN; ++d) {
                float* to = parts[warp] + (d * 16 + lane / 4) * B::ROW + lane % 4 * 2;
#pragma unroll
                for (u32 i = 0; i < B::ACROSS; ++i) {
                    *reinterpret_cast<float2*>(to + i * 8) = make_float2(sums[d][i][0], sums[d][i][1]);
                    *reinterpret_cast<float2*>(to + 8 * B::ROW + i * 8) = make_float2(sums[d][i][2], sums[d][i][3]);
                }
            }
            __syncthreads();
            const u32 index = tile * B::PIXELS + pixel;
            if (finishes && index < c.m) {
                float values[1][GROUP];
#pragma unroll
                for (u32 w = 0; w < B::WARPS; ++w) {
                    if (w >= p.warps) break;
                    const float4* from = reinterpret_cast<const float4*>(parts[w] + pixel * B::ROW + group);
                    const float4 low = from[0], high = from[1];
                    const float part[GROUP] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
                    for (u32 e = 0; e < GROUP; ++e) values[0][e] = w == 0 ? part[e] : __fadd_rn(values[0][e], part[e]);
                }
                finish_groups<1>(values, bias, c.epilogue, GroupPlace{c, index, first_channel}, count);
            }
            __syncthreads();
        }
    }
}

// Kernels of the menu (plan/tactic/conv_warps.rs): pixels and channels of a tile, what the warps share out, pieces of a warp, and
// blocks that share an SM.
#define CONV_WARPS(name, pixels, channels, share, pieces, blocks)                                                            \
    extern "C" __global__ void __launch_bounds__(warps_of(Share::share) * WARP, blocks) name(const __grid_constant__ ConvWarps p) { \
        convolve<Block<pixels / 16, channels / 8, Share::share, pieces>>(p);                                                 \
    }

CONV_WARPS(conv_warps_16x32_taps_4, 16, 32, TAPS, 4, 1)
CONV_WARPS(conv_warps_16x16_taps_4, 16, 16, TAPS, 4, 1)
CONV_WARPS(conv_warps_32x32_taps_4, 32, 32, TAPS, 4, 1)
CONV_WARPS(conv_warps_16x32_affine_1, 16, 32, AFFINE, 1, 2)
CONV_WARPS(conv_warps_16x32_affine_2, 16, 32, AFFINE, 2, 2)
CONV_WARPS(conv_warps_16x32_affine_4, 16, 32, AFFINE, 4, 1)
CONV_WARPS(conv_warps_16x16_affine_1, 16, 16, AFFINE, 1, 2)
CONV_WARPS(conv_warps_16x16_affine_2, 16, 16, AFFINE, 2, 2)
CONV_WARPS(conv_warps_16x16_affine_4, 16, 16, AFFINE, 4, 1)
CONV_WARPS(conv_warps_32x32_affine_1, 32, 32, AFFINE, 1, 2)
CONV_WARPS(conv_warps_32x32_affine_2, 32, 32, AFFINE, 2, 1)
CONV_WARPS(conv_warps_32x32_affine_4, 32, 32, AFFINE, 4, 1)
CONV_WARPS(conv_warps_16x32_gate_1, 16, 32, GATE, 1, 2)
CONV_WARPS(conv_warps_16x32_gate_2, 16, 32, GATE, 2, 2)
CONV_WARPS(conv_warps_16x32_gate_4, 16, 32, GATE, 4, 1)
CONV_WARPS(conv_warps_16x16_gate_1, 16, 16, GATE, 1, 2)
CONV_WARPS(conv_warps_16x16_gate_2, 16, 16, GATE, 2, 2)
CONV_WARPS(conv_warps_16x16_gate_4, 16, 16, GATE, 4, 1)
CONV_WARPS(conv_warps_32x32_gate_1, 32, 32, GATE, 1, 2)
CONV_WARPS(conv_warps_32x32_gate_2, 32, 32, GATE, 2, 1)
CONV_WARPS(conv_warps_32x32_gate_4, 32, 32, GATE, 4, 1)
CONV_WARPS(conv_warps_16x32_single_1, 16, 32, SINGLE, 1, 2)
CONV_WARPS(conv_warps_16x32_single_2, 16, 32, SINGLE, 2, 2)
CONV_WARPS(conv_warps_16x32_single_4, 16, 32, SINGLE, 4, 1)
CONV_WARPS(conv_warps_16x32_single_6, 16, 32, SINGLE, 6, 1)
CONV_WARPS(conv_warps_16x16_single_1, 16, 16, SINGLE, 1, 2)
CONV_WARPS(conv_warps_16x16_single_2, 16, 16, SINGLE, 2, 2)
CONV_WARPS(conv_warps_16x16_single_4, 16, 16, SINGLE, 4, 1)
CONV_WARPS(conv_warps_16x16_single_6, 16, 16, SINGLE, 6, 1)
