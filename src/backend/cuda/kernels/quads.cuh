// What follows the sums of kernels that multiply by mma.sync and store from registers: of each of a warp's tiles of 16 pixels a lane has
// four neighbouring channels of a pixel, and those of the pixel 8 further on.
//
// `Spots` know where they lie: `channel`, the lane's first; `live(i, half)`, whether there is such a pixel; `walk(half)`, the
// `place` of the first pixel and of the others in turn; `output()` and `joined()`, whose `at(i, half)` is the address of the
// lane's channels there.
#pragma once

#include "conv_params.cuh"

constexpr u32 LANE_CHANNELS = 4;

// Of each of ROWS tiles four channels of a pixel, then of the pixel 8 further on.
template <u32 ROWS>
using Quads = float[ROWS][2 * LANE_CHANNELS];

// The sums of two products side by side, whose columns are the lane's channels in pairs.
template <u32 ROWS, class Parts>
__device__ __forceinline__ void take_quads(Quads<ROWS>& sums, const Parts& part) {
#pragma unroll
    for (u32 i = 0; i < ROWS; ++i) {
#pragma unroll
        for (u32 k = 0; k < 2 * LANE_CHANNELS; ++k) sums[i][k] = part(i, k / 2 % 2, k / 4 * 2 + k % 2);
    }
}

// Finishes the sums of the usual tails where a lane has them: `left` channels from its first on are stored, if there are so many.
template <u32 ROWS, class Spots>
__device__ __forceinline__ void finish_usual(Quads<ROWS>& sums, const Convolution& c, const Spots& spots, u32 left) {
    const Epilogue& e = c.epilogue;
    const bool joins = e.flags & EPILOGUE_JOINS;
    uint2 joined[ROWS][2];
    const auto to = spots.output();
    if (joins && left >= LANE_CHANNELS) {
        const auto other = spots.joined();
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                if (spots.live(i, half)) joined[i][half] = *reinterpret_cast<const uint2*>(other.at(i, half));
            }
        }
    }
    float4 bias = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (e.bias != 0 && left > 0) bias = *reinterpret_cast<const float4*>(e.bias + 4ull * spots.channel);
    const float biases[LANE_CHANNELS] = {bias.x, bias.y, bias.z, bias.w};
#pragma unroll
    for (u32 i = 0; i < ROWS; ++i) {
#pragma unroll
        for (u32 k = 0; k < 2 * LANE_CHANNELS; ++k) sums[i][k] = __fadd_rn(sums[i][k], biases[k % LANE_CHANNELS]);
    }
    switch (e.function) {
        // Bounds commute with the rounding of the store.
        case EPILOGUE_IDENTITY: break;
        case EPILOGUE_RELU: each(sums, [](float x) { return greater(0.0f, x); }); break;
        case EPILOGUE_CLIP: each(sums, [&](float x) { return clip(x, e.first, e.second); }); break;
        default:
            if (e.flags & EPILOGUE_ROUNDED) each(sums, [](float x) { return rounded_to_half(x); });
            with_usual(e, [&](const auto& f) { each(sums, f); });
    }
    const bool wide = (e.flags & EPILOGUE_WIDE_STORE) && left >= LANE_CHANNELS, relu = e.flags & EPILOGUE_JOINS_RELU;
#pragma unroll
    for (u32 i = 0; i < ROWS; ++i) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            if (!spots.live(i, half)) continue;
            const float* v = &sums[i][half * LANE_CHANNELS];
            uint2 bits = make_uint2(two_halves(v[0], v[1]), two_halves(v[2], v[3]));
            if (joins) {
                bits = make_uint2(add_halves(bits.x, joined[i][half].x), add_halves(bits.y, joined[i][half].y));
                if (relu) bits = make_uint2(relu_halves(bits.x), relu_halves(bits.y));
            }
            if (wide) {
                *reinterpret_cast<uint2*>(to.at(i, half)) = bits;
            } else {
                u16* halves = reinterpret_cast<u16*>(to.at(i, half));
#pragma unroll
                for (u32 k = 0; k < LANE_CHANNELS; ++k) {
                    if (k < left) halves[k] = static_cast<u16>((k < 2 ? bits.x : bits.y) >> k % 2 * 16);
                }
            }
        }
    }
}

// Finishes the sums of any tail: lanes that are neighbours give each other 8 channels of a pixel.
template <u32 ROWS, class Spots>
__device__ __forceinline__ void finish_any(const Quads<ROWS>& sums, const Convolution& c, const Spots& spots, u32 lane) {
    const bool odd = lane % 2;
    auto own = spots.walk(odd);
    own.place.channel -= odd ? LANE_CHANNELS : 0;
    const u32 count = own.place.channel < c.n ? min(c.n - own.place.channel, GROUP) : 0;
    // One copy of what finishes groups serves all rows; the sums must be named by constants.
#pragma unroll 1
    for (u32 i = 0; i < ROWS; ++i) {
        float group[GROUP] = {};
#pragma unroll
        for (u32 constant = 0; constant < ROWS; ++constant) {
            if (constant != i) continue;
#pragma unroll
            for (u32 k = 0; k < LANE_CHANNELS; ++k) {
                const float low = sums[constant][k], high = sums[constant][k + LANE_CHANNELS];
                const float theirs = __shfl_xor_sync(~0u, odd ? low : high, 1);
                group[k] = odd ? theirs : low;
                group[k + LANE_CHANNELS] = odd ? high : theirs;
            }
        }
        if (count > 0 && own.live(i)) finish(group, c.epilogue, own.place, count);
        own.next();
    }
}

// Finishes the sums of a lane behind whatever tail.
template <u32 ROWS, class Spots>
__device__ __forceinline__ void finish_quads(Quads<ROWS>& sums, const Convolution& c, const Spots& spots, u32 lane) {
    const Epilogue& e = c.epilogue;
    const bool readable = !(e.flags & EPILOGUE_JOINS) || ((e.flags & EPILOGUE_WIDE_JOINED) && c.n % LANE_CHANNELS == 0);
    if (e.function < EPILOGUE_SIGMOID && readable && !(e.flags & EPILOGUE_WIDENED)) {
        finish_usual(sums, c, spots, spots.channel < c.n ? c.n - spots.channel : 0);
    } else {
        finish_any(sums, c, spots, lane);
    }
}
