// Convolutions of many pixels by `mma.sync`, with the sums of conv_warps.cu bit for bit: a warp has pixels of its own, and
// sums the ranges of K one after another.
//
// All weights of a tile's channels lie in shared memory, in the order in which lanes hold them; they are copied there before
// the launches whose pixels are read have ended. Pixels go from memory to registers, a range ahead of the products.

#include "conv_warps.cuh"

constexpr u32 ACROSS = 4;                       // rows of eight channels of a tile
constexpr u32 CHANNELS = ACROSS * 8;
constexpr u32 FRAGMENT = WARP * 16;             // bytes of a piece's weights for eight channels
constexpr u32 STRIP_ROW = CHANNELS + 8;         // floats from pixel to pixel of a warp's sums, against bank conflicts
constexpr u32 STRIP = 16 * STRIP_ROW * 4;       // bytes of a warp's sums

// Groups of eight channels that a lane finishes, eight pixels apart.
struct LanePlaces {
    static constexpr bool FLAT = true;
    const Convolution& p;
    u32 first;  // pixel of the chunk
    u32 column;

    __device__ __forceinline__ u32 channel() const { return column; }
    __device__ __forceinline__ bool live(u32 g) const { return first + g * 8 < p.m; }
    __device__ __forceinline__ u32 flat(u32 g) const { return p.first_pixel + first + g * 8; }
    __device__ __forceinline__ Place at(u32 g) const {
        Place place = place_of(p, first + g * 8);
        place.channel = column;
        return place;
    }
};

// Pixels of one range for a lane, 8 apart, and their factors.
template <u32 DOWN, Share S>
struct Pixels {
    uint4 halves[WARP_PIECES][DOWN * 2];
    uint4 gates[WARP_PIECES][DOWN * 2];
};

__device__ __forceinline__ uint4 load_shared(u32 address) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
    return v;
}

// WARPS warps of 16 DOWN pixels each.
template <u32 WARPS, u32 DOWN, Share S>
struct Whole {
    static constexpr u32 THREADS = WARPS * WARP, PIXELS = WARPS * DOWN * 16;

    const ConvWarps& p;
    const Convolution& c;
    u32 memory, table;  // shared addresses of weights, and of scales and shifts
    Corner corners[DOWN * 2];
    u64 factors[DOWN * 2];

    __device__ __forceinline__ Whole(const ConvWarps& all, u32 shared) : p(all), c(all.product), memory(shared + WARPS * STRIP) {
        table = memory + p.warps * p.warp_pieces * ACROSS * FRAGMENT;
    }

    __device__ __forceinline__ u32 lane_channel() const { return threadIdx.x % 4 * LANE_CHANNELS; }

    // First channel of a range, and the one behind its last.
    __device__ __forceinline__ u32 begin(u32 range) const { return S == Share::TAPS ? 0 : range * p.warp_pieces * PIECE_CHANNELS; }
    __device__ __forceinline__ u32 end(u32 range) const {
        return min(c.channels.divisor, begin(range) + p.warp_pieces * PIECE_CHANNELS);
    }

    __device__ __forceinline__ void copy_weights(u32 across) const {
        const u32 count = p.warps * p.warp_pieces * ACROSS * WARP;
        for (u32 i = threadIdx.x; i < count; i += THREADS) {
            const u32 lane = i % WARP, row = i / WARP % ACROSS, rest = i / (WARP * ACROSS);
            const u32 range = rest / p.warp_pieces, piece = rest - range * p.warp_pieces;
            const u32 n = across * CHANNELS + row * 8 + lane / 4;
            const u32 channel = begin(range) + piece * PIECE_CHANNELS + lane % 4 * LANE_CHANNELS;
            const u32 k = (S == Share::TAPS ? range * c.channels.divisor : 0) + channel;
            const bool live = n < c.n && channel < end(range);
            copy_16(memory + i * 16, c.weights + (live ? 2 * (static_cast<u64>(n) * c.k_padded + k) : 0), live ? 16 : 0);
        }
        if constexpr (S == Share::AFFINE) {
            for (u32 i = threadIdx.x; i < c.k_padded / 4; i += THREADS) copy_16(table + i * 16, c.affine + i * 16, 16);
        }
        commit_copies();
    }

    __device__ __forceinline__ void aim(u32 first) {
#pragma unroll
        for (u32 i = 0; i < DOWN * 2; ++i) {
            const u32 pixel = first + i * 8 + threadIdx.x % WARP / 4;
            corners[i] = corner_of(c, pixel);
            if constexpr (S == Share::GATE) factors[i] = p.gate + 2 * place_of(c, min(pixel, c.m - 1)).batch * p.gate_batch;
        }
    }

    __device__ __forceinline__ void load(u32 range, Pixels<DOWN, S>& to) const {
        const u32 row = S == Share::TAPS ? divide(range, c.kernel_columns) : 0;
        const u32 column = S == Share::TAPS ? range - row * c.kernel_columns.divisor : 0;
        const u32 bits = tap_bits(row, column), channel = begin(range) + lane_channel(), behind = end(range);
        const i32 offset = static_cast<i32>(row) * c.tap_row + static_cast<i32>(column) * c.tap_column + static_cast<i32>(channel);
#pragma unroll
        for (u32 i = 0; i < DOWN * 2; ++i) {
            const u64 from = c.x + 2 * static_cast<i64>(corners[i].offset + offset);
            const bool inside = (corners[i].taps & bits) == bits;
#pragma unroll
            for (u32 j = 0; j < WARP_PIECES; ++j) {
                const bool holds = channel + j * PIECE_CHANNELS < behind;
                to.halves[j][i] = load_halves(from + 2 * j * PIECE_CHANNELS, inside && holds);
                if constexpr (S == Share::GATE) to.gates[j][i] = load_halves(factors[i] + 2 * (channel + j * PIECE_CHANNELS), holds);
            }
        }
    }

    __device__ __forceinline__ static u32 word(const uint4& v, u32 i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

    // The products of one range, in `sums`, which start anew.
    __device__ __forceinline__ void multiply_range(u32 range, const Pixels<DOWN, S>& pixels, float (&sums)[DOWN][ACROSS][4]) const {
#pragma unroll
        for (u32 d = 0; d < DOWN; ++d) {
#pragma unroll
            for (u32 i = 0; i < ACROSS; ++i) {
#pragma unroll
                for (u32 e = 0; e < 4; ++e) sums[d][i][e] = 0.0f;
            }
        }
#pragma unroll
        for (u32 j = 0; j < WARP_PIECES; ++j) {
            if (j >= p.warp_pieces) break;
            const u32 from = memory + (range * p.warp_pieces + j) * ACROSS * FRAGMENT + threadIdx.x % WARP * 16;
            uint4 weights[ACROSS], scale, shift;
#pragma unroll
            for (u32 i = 0; i < ACROSS; ++i) weights[i] = load_shared(from + i * FRAGMENT);
            if constexpr (S == Share::AFFINE) {
                const u32 at = table + 2 * (begin(range) + j * PIECE_CHANNELS + lane_channel());
                scale = load_shared(at);
                shift = load_shared(at + 2 * c.k_padded);
            }
            const auto prepared = [&](u32 pixel, u32 w) {
                const u32 x = word(pixels.halves[j][pixel], w);
                if constexpr (S == Share::AFFINE) return affine_relu(x, word(scale, w), word(shift, w));
                if constexpr (S == Share::GATE) return two_scaled(x, word(pixels.gates[j][pixel], w));
                return x;
            };
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
#pragma unroll
                for (u32 d = 0; d < DOWN; ++d) {
                    const u32 a[4] = {prepared(d * 2, half * 2), prepared(d * 2 + 1, half * 2), prepared(d * 2, half * 2 + 1),
                                      prepared(d * 2 + 1, half * 2 + 1)};
#pragma unroll
                    for (u32 i = 0; i < ACROSS; ++i) multiply(sums[d][i], a, word(weights[i], half * 2), word(weights[i], half * 2 + 1));
                }
            }
        }
    }

    // Hands 16 pixels to the epilogue, eight channels at a time.
    __device__ __forceinline__ void finish(
        float* strip, u32 first, u32 channel, u32 count, const float (&bias)[GROUP], const float (&sums)[ACROSS][4]) const {
        const u32 lane = threadIdx.x % WARP;
        float* to = strip + lane / 4 * STRIP_ROW + lane % 4 * 2;
        __syncwarp();
#pragma unroll
        for (u32 i = 0; i < ACROSS; ++i) {
            *reinterpret_cast<float2*>(to + i * 8) = make_float2(sums[i][0], sums[i][1]);
            *reinterpret_cast<float2*>(to + 8 * STRIP_ROW + i * 8) = make_float2(sums[i][2], sums[i][3]);
        }
        __syncwarp();
        if (count == 0) return;
        float values[2][GROUP];
#pragma unroll
        for (u32 g = 0; g < 2; ++g) {
            const float4* from = reinterpret_cast<const float4*>(strip + (lane / 4 + g * 8) * STRIP_ROW + lane % 4 * GROUP);
            const float4 low = from[0], high = from[1];
            values[g][0] = low.x, values[g][1] = low.y, values[g][2] = low.z, values[g][3] = low.w;
            values[g][4] = high.x, values[g][5] = high.y, values[g][6] = high.z, values[g][7] = high.w;
        }
        finish_groups<2>(values, bias, c.epilogue, LanePlaces{c, first + lane / 4, channel}, count);
    }
};

template <u32 WARPS, u32 DOWN, Share S>
__device__ __forceinline__ void convolve(const ConvWarps& p) {
    using W = Whole<WARPS, DOWN, S>;
    extern __shared__ __align__(128) u8 memory[];
    const Convolution& c = p.product;
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float* strip = reinterpret_cast<float*>(memory + warp * STRIP);
    W block(p, shared_address(memory));
    bool waited = false;
    u32 held = ~0u;
    for (u32 unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
        const u32 down = divide(unit, c.tiles_across), across = unit - down * c.tiles_across.divisor;
        const u32 channel = across * CHANNELS + lane % 4 * GROUP, count = c.n > channel ? min(c.n - channel, GROUP) : 0;
        const u32 first = down * W::PIXELS + warp * DOWN * 16;
        if (across != held) {
            if (held != ~0u) __syncthreads();
            block.copy_weights(across);
            held = across;
        }
        float bias[GROUP] = {};
        if (count > 0) load_bias(bias, c.epilogue, channel);
        block.aim(first);
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        Pixels<DOWN, S> pixels, next;
        block.load(0, pixels);
        wait_copies<0>();
        __syncthreads();
        if (first >= c.m) continue;
        float totals[DOWN][ACROSS][4];
#pragma unroll 1
        for (u32 range = 0; range < p.warps; ++range) {
            if (range + 1 < p.warps) block.load(range + 1, next);
            float sums[DOWN][ACROSS][4];
            block.multiply_range(range, pixels, sums);
#pragma unroll
            for (u32 d = 0; d < DOWN; ++d) {
#pragma unroll
                for (u32 i = 0; i < ACROSS; ++i) {
#pragma unroll
                    for (u32 e = 0; e < 4; ++e) totals[d][i][e] = range == 0 ? sums[d][i][e] : __fadd_rn(totals[d][i][e], sums[d][i][e]);
                }
            }
            pixels = next;
        }
#pragma unroll
        for (u32 d = 0; d < DOWN; ++d) block.finish(strip, first + d * 16, channel, count, bias, totals[d]);
    }
}

// Kernels of the menu (plan/tactic/conv_warps.rs): pixels of a tile, warps, what the ranges of K are.
#define CONV_WARPS_WHOLE(name, pixels, warps, share)                                                             \
    extern "C" __global__ void __launch_bounds__(warps * WARP, 1) name(const __grid_constant__ ConvWarps p) {    \
        convolve<warps, pixels / 16 / warps, Share::share>(p);                                                   \
    }

CONV_WARPS_WHOLE(conv_warps_whole_128x32_w8_taps, 128, 8, TAPS)
CONV_WARPS_WHOLE(conv_warps_whole_64x32_w4_taps, 64, 4, TAPS)
CONV_WARPS_WHOLE(conv_warps_whole_128x32_w4_taps, 128, 4, TAPS)
CONV_WARPS_WHOLE(conv_warps_whole_128x32_w8_affine, 128, 8, AFFINE)
CONV_WARPS_WHOLE(conv_warps_whole_64x32_w4_affine, 64, 4, AFFINE)
CONV_WARPS_WHOLE(conv_warps_whole_128x32_w4_affine, 128, 4, AFFINE)
CONV_WARPS_WHOLE(conv_warps_whole_128x32_w8_gate, 128, 8, GATE)
CONV_WARPS_WHOLE(conv_warps_whole_64x32_w4_gate, 64, 4, GATE)
CONV_WARPS_WHOLE(conv_warps_whole_128x32_w4_gate, 128, 4, GATE)
