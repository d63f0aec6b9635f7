// What the kernels of group normalisation share: a slab of channels, the pieces of its pixels, and how threads add up what they have.
#pragma once

#include "chain.cuh"
#include "generic.cuh"
#include "halves.cuh"
#include "normalise_order.cuh"

constexpr u32 THREADS = 512;
constexpr u32 WARPS = THREADS / 32;
constexpr u32 MAX_GROUPS = 32;      // of a slab
constexpr u32 SPATIAL = MAX_RANK - 2;
constexpr u32 VALUES = THREADS * EACH + THREADS * EACH / 32;  // sums of bins, with the gaps of `place_of`

struct GroupNormalise {
    View x;
    View y;
    Tail tail;
    Divisor spatial[SPATIAL];  // extents of axes 2 and on
    Divisor pixels;            // of a sample
    Divisor slabs;             // of a sample; of f32, groups
    Divisor pieces;            // of a pixel of a slab
    Divisor group;             // channels
    Divisor bins;              // of a group: neighbouring channels that are added first
    u64 scale;                 // f16 by channel, side by side, of kernels of pieces; 0 where nothing scales
    u64 shift;                 // likewise
    u64 partials;              // by slab, part and group: mean and squared differences, of kernels of group_spread.cu
    i64 x_pixel;               // elements from pixel to pixel, of kernels of pieces
    i64 y_pixel;
    u32 relu;                  // of kernels of pieces: 1 where one follows
    u32 first;                 // sample of the chunk
    u32 tiles;                 // slabs, or groups of f32, of the chunk
    u32 channels;
    u32 span;                  // channels of a slab; the last may have fewer
    u32 share;                 // pixels of a part
    u32 threads;               // that have pieces
    u32 step_pixels;           // from a thread's piece to its next
    u32 step_pieces;
    u32 bin_shift;             // logarithm of the channels of a bin
    u32 columns;               // bins of a pixel of a slab; 1 where it is one group
    u32 items;                 // sums of bins of a group
    u32 parts;                 // of a sample's pixels
    u32 kept;                  // pieces of a part that a thread keeps in shared memory
    float count;               // 1 / elements of a group
    float epsilon;
};

static_assert(sizeof(GroupNormalise) == 2 * 88 + 1080 + 9 * 12 + 4 + 40 + 64, "mirrored in bind/group_normalise.rs");

__device__ __forceinline__ u32 mul_halves(u32 a, u32 b) {
    u32 product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

// Where a sum of a bin lies: no two lanes of a warp that read a column meet in a bank.
__device__ __forceinline__ u32 place_of(u32 index) { return index + index / 32; }

// A piece of a slab.
struct Spot {
    u32 pixel;
    u32 piece;
};

__device__ __forceinline__ void advance(const GroupNormalise& p, Spot& s) {
    s.pixel += p.step_pixels;
    s.piece += p.step_pieces;
    if (s.piece >= p.pieces.divisor) s.piece -= p.pieces.divisor, ++s.pixel;
}

// The slab of a sample that a block or a cluster is at.
struct Slab {
    u32 sample;
    u32 front;     // its first channel
    u32 channels;
};

__device__ __forceinline__ Slab slab_of(const GroupNormalise& p, u32 tile) {
    const u32 above = divide(tile, p.slabs);
    Slab slab;
    slab.sample = p.first + above;
    slab.front = (tile - above * p.slabs.divisor) * p.span;
    slab.channels = p.channels - slab.front < p.span ? p.channels - slab.front : p.span;
    return slab;
}

// Channels of a piece that the slab has.
template <bool PIECES>
__device__ __forceinline__ u32 channels_of(const Slab& slab, u32 piece) {
    if (PIECES) return EACH;
    const u32 left = slab.channels - piece * EACH;
    return left < EACH ? left : EACH;
}

// Coordinates of a pixel, and of a channel.
__device__ __forceinline__ void coordinates_of(const GroupNormalise& p, u32 sample, u32 channel, u32 pixel, u32 (&at)[MAX_RANK]) {
    at[0] = sample, at[1] = channel;
    u32 rest = pixel;
#pragma unroll
    for (u32 i = 0; i < SPATIAL; ++i) {
        const Divisor& extent = p.spatial[SPATIAL - 1 - i];
        const u32 above = divide(rest, extent);
        at[MAX_RANK - 1 - i] = rest - above * extent.divisor;
        rest = above;
    }
}

// Where a piece lies that is whole.
__device__ __forceinline__ u64 piece_at(const GroupNormalise& p, const Slab& slab, Spot s) {
    const u32 channel = slab.front + s.piece * EACH;
    const i64 element = static_cast<i64>(slab.sample) * p.x.strides[0] + static_cast<i64>(s.pixel) * p.x_pixel + channel;
    return p.x.address + element * 2;
}

template <bool PIECES>
__device__ __forceinline__ uint4 load_piece(const GroupNormalise& p, const Slab& slab, Spot s) {
    if constexpr (PIECES) return *reinterpret_cast<const uint4*>(piece_at(p, slab, s));
    u32 at[MAX_RANK];
    coordinates_of(p, slab.sample, slab.front + s.piece * EACH, s.pixel, at);
    float v[EACH];
    load_run(p.x.address, F16, element_of(p.x.strides, at), p.x.strides[1], channels_of<PIECES>(slab, s.piece), v);
    return make_uint4(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]), two_rounded(v[4], v[5]), two_rounded(v[6], v[7]));
}

// What the channels of a piece have taken from them, and what the differences are then multiplied by.
struct Moments {
    float mean[EACH];
    float factor[EACH];
};

__device__ __forceinline__ void add_piece(bool squares, const float (&mean)[EACH], uint4 bits, u32 count, float (&sums)[EACH]) {
    float v[EACH];
    widen(bits, v);
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        if (k < count) sums[k] = taken(squares, mean[k], sums[k], v[k]);
    }
}

// What scales and shifts the channels of a piece.
struct Constants {
    uint4 scale;
    uint4 shift;
};

__device__ __forceinline__ Constants constants_of(const GroupNormalise& p, u32 channel) {
    const auto of = [&](u64 address) {
        return address && channel < p.channels ? *reinterpret_cast<const uint4*>(pointer_to<u16>(address, channel)) : make_uint4(0, 0, 0, 0);
    };
    return Constants{of(p.scale), of(p.shift)};
}

template <bool PIECES>
__device__ __forceinline__ void store_piece(const GroupNormalise& p, const Slab& slab, Spot s, uint4 bits, const Moments& moments,
                                            const Constants& by) {
    const u32 channel = slab.front + s.piece * EACH;
    float v[EACH];
    widen(bits, v);
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) v[k] = __fmul_rn(__fsub_rn(v[k], moments.mean[k]), moments.factor[k]);
    if constexpr (PIECES) {
        uint4 y = make_uint4(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]), two_rounded(v[4], v[5]), two_rounded(v[6], v[7]));
        // A product of halves is exact in f32: rounding it at once is what rounding that gives.
        if (p.scale) {
            y = make_uint4(mul_halves(y.x, by.scale.x), mul_halves(y.y, by.scale.y), mul_halves(y.z, by.scale.z),
                           mul_halves(y.w, by.scale.w));
        }
        if (p.shift) {
            y = make_uint4(add_halves(y.x, by.shift.x), add_halves(y.y, by.shift.y), add_halves(y.z, by.shift.z),
                           add_halves(y.w, by.shift.w));
        }
        if (p.relu) y = make_uint4(relu_halves(y.x), relu_halves(y.y), relu_halves(y.z), relu_halves(y.w));
        const i64 element = static_cast<i64>(slab.sample) * p.y.strides[0] + static_cast<i64>(s.pixel) * p.y_pixel + channel;
        *reinterpret_cast<uint4*>(reinterpret_cast<u16*>(p.y.address) + element) = y;
    } else {
        const u32 count = channels_of<PIECES>(slab, s.piece);
        u32 at[MAX_RANK];
        coordinates_of(p, slab.sample, channel, s.pixel, at);
        tail_run(p.tail, v, count, at, 1);
        store_run(p.y.address, p.y.dtype, element_of(p.y.strides, at), count, v, p.y.strides[1]);
    }
}

// Puts what a thread has of each of its channels where the warps add it up: sums of neighbouring channels of a group.
__device__ __forceinline__ void put_bins(const GroupNormalise& p, const float (&each)[EACH], float* values) {
    if (threadIdx.x >= p.threads) return;
    const u32 first = threadIdx.x << (3 - p.bin_shift), last = (1u << p.bin_shift) - 1;
    float sum = 0.0f;
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        sum = (k & last) == 0 ? each[k] : __fadd_rn(sum, each[k]);
        if ((k & last) == last) values[place_of(first + (k >> p.bin_shift))] = sum;
    }
}

// The sum of a group of the slab, in all lanes of a warp.
__device__ __forceinline__ float group_sum(const GroupNormalise& p, const float* values, u32 group) {
    float sum = 0.0f;
#pragma unroll 4
    for (u32 i = threadIdx.x % 32; i < p.items; i += 32) {
        const u32 r = divide(i, p.bins);
        const u32 bin = group * p.bins.divisor + i - r * p.bins.divisor;
        sum = __fadd_rn(sum, values[place_of(r * p.columns + bin)]);
    }
    return folded<32>(sum);
}

// What a thread's channels of a piece have taken from them (0) or are multiplied by (1), of the groups' values.
__device__ __forceinline__ void of_channels(const GroupNormalise& p, const float* found, u32 groups, u32 piece, float (&values)[EACH]) {
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        const u32 group = divide(piece * EACH + k, p.group);
        values[k] = found[group < groups ? group : groups - 1];
    }
}
