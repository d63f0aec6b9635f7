// Convolutions of 3 by 3 neighbouring taps to few channels, of more pixels than conv_warps.cu is made for: its bits, but pixels come
// from a patch in shared memory.
//
// A warp has one tap and keeps its weights in registers, as there. A block takes a band of rows of a sample at a time: it copies
// the rows under it to shared memory once, for all taps; its warps multiply 32 pixels after another, and while they go on, some of
// their threads add the taps' sums of the 32 before, in the order of K.
//
// A piece is 32 channels under one tap. Of the two products of a piece, lane `l` holds channels 8 (l % 4) to 8 (l % 4) + 7: the same
// permutation of K on both sides.
#include "chain.cuh"
#include "conv_params.cuh"
#include "mma.cuh"

struct ConvTaps {
    Convolution product;
    u32 band;        // rows of a unit
    u32 units;       // samples by bands
    Divisor bands;   // of a sample
    u32 parts;       // where the warps' sums lie in shared memory, behind the patch
};

static_assert(sizeof(ConvTaps) == sizeof(Convolution) + 24, "mirrored in bind/conv_taps.rs");

constexpr u32 WARP = 32, SIDE = 3, TAPS = SIDE * SIDE, THREADS = TAPS * WARP;
constexpr u32 PIECES = 4, PIECE_CHANNELS = 32, LANE_CHANNELS = 8;
constexpr u32 PIXEL_GROUPS = PIECES * PIECE_CHANNELS / GROUP, PIXEL_BYTES = PIXEL_GROUPS * 16;  // of a pixel of the patch
constexpr u32 DOWN = 2, PIXELS = DOWN * 16;   // of a turn
constexpr u32 ACROSS = 4, CHANNELS = ACROSS * 8;
constexpr u32 ROW = CHANNELS + 8;             // floats from pixel to pixel of a warp's sums, against bank conflicts
constexpr u32 PART = PIXELS * ROW;            // floats of a warp's sums

__device__ __forceinline__ uint4 load_halves(u64 address, bool live) {
    return live ? *reinterpret_cast<const uint4*>(address) : make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ u32 word(const uint4& v, u32 i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// Byte of a group of 8 channels of a pixel of the patch. Neighbouring pixels lie in different banks.
__device__ __forceinline__ u32 patch_place(u32 pixel, u32 group) { return pixel * PIXEL_BYTES + (group ^ pixel % 2 * 4) * 16; }

// The pixels of a unit: rows `first..` of a sample, counted in the chunk.
struct Unit {
    u32 sample, first, rows;

    __device__ __forceinline__ Unit(const ConvTaps& p, u32 index) {
        const Convolution& c = p.product;
        sample = divide(index, p.bands);
        first = (index - sample * p.bands.divisor) * p.band;
        rows = min(p.band, divide(c.sample.divisor, c.row) - first);
    }
};

// Copies the rows under a unit, zeros outside the image.
__device__ __forceinline__ void load_patch(const Convolution& c, const Unit& unit, u32 patch) {
    const u32 pitch = c.row.divisor + SIDE - 1, inputs = c.channels.divisor, group = threadIdx.x % PIXEL_GROUPS;
    const u32 pixels = (unit.rows + SIDE - 1) * pitch, lines = THREADS / PIXEL_GROUPS;
    const i32 top = static_cast<i32>(c.first_row + unit.first) - static_cast<i32>(c.pad_rows);
    const u64 from = c.x + 2 * static_cast<i64>(static_cast<i32>(c.first_batch + unit.sample) * c.x_batch + static_cast<i32>(group * GROUP));
    u32 line = 0, column = threadIdx.x / PIXEL_GROUPS;
    for (u32 pixel = threadIdx.x / PIXEL_GROUPS; pixel < pixels; pixel += lines, column += lines) {
        while (column >= pitch) column -= pitch, ++line;
        const i32 y = top + static_cast<i32>(line), x = static_cast<i32>(column) - static_cast<i32>(c.pad_pixels);
        const bool inside = static_cast<u32>(y) < c.height && static_cast<u32>(x) < c.width && group * GROUP < inputs;
        copy_16(patch + patch_place(pixel, group), inside ? from + 2 * static_cast<i64>(y * c.x_row + x * c.x_pixel) : c.x, inside ? 16 : 0);
    }
    commit_copies();
}

// The part of a warp, whose tap it is.
struct Tap {
    uint4 weights[PIECES][ACROSS];
    u32 offset;  // pixels of the patch

    __device__ __forceinline__ explicit Tap(const Convolution& c) {
        const u32 tap = threadIdx.x / WARP, lane = threadIdx.x % WARP, inputs = c.channels.divisor, channel = lane % 4 * LANE_CHANNELS;
        offset = tap / SIDE * (c.row.divisor + SIDE - 1) + tap % SIDE;
        const u64 from = c.weights + 2 * (static_cast<u64>(lane / 4) * c.k_padded + tap * inputs + channel);
#pragma unroll
        for (u32 j = 0; j < PIECES; ++j) {
#pragma unroll
            for (u32 i = 0; i < ACROSS; ++i) {
                const u64 at = from + 2 * (static_cast<u64>(i) * 8 * c.k_padded + j * PIECE_CHANNELS);
                weights[j][i] = load_halves(at, channel + j * PIECE_CHANNELS < inputs && lane / 4 + i * 8 < c.n);
            }
        }
    }

    // Multiplies the pixels from `first` on of a unit that has `count`, and leaves the sums at `part`.
    __device__ __forceinline__ void multiply_turn(const Convolution& c, u32 first, u32 count, u32 patch, float* part) const {
        const u32 lane = threadIdx.x % WARP, pitch = c.row.divisor + SIDE - 1;
#pragma unroll
        for (u32 d = 0; d < DOWN; ++d) {
            u32 at[2];
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                // Behind the last pixel it is that one: what is computed there goes nowhere.
                const u32 pixel = min(first + d * 16 + i * 8 + lane / 4, count - 1), line = divide(pixel, c.row);
                at[i] = line * pitch + pixel - line * c.row.divisor + offset;
            }
            float sums[ACROSS][4];
#pragma unroll
            for (u32 i = 0; i < ACROSS; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
#pragma unroll
            for (u32 j = 0; j < PIECES; ++j) {
                uint4 x[2];
#pragma unroll
                for (u32 i = 0; i < 2; ++i) {
                    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(x[i].x), "=r"(x[i].y), "=r"(x[i].z), "=r"(x[i].w)
                                 : "r"(patch + patch_place(at[i], j * (PIECE_CHANNELS / GROUP) + lane % 4))
                                 : "memory");
                }
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const u32 a[4] = {word(x[0], half * 2), word(x[1], half * 2), word(x[0], half * 2 + 1), word(x[1], half * 2 + 1)};
#pragma unroll
                    for (u32 i = 0; i < ACROSS; ++i) multiply(sums[i], a, word(weights[j][i], half * 2), word(weights[j][i], half * 2 + 1));
                }
            }
            float* to = part + (d * 16 + lane / 4) * ROW + lane % 4 * 2;
#pragma unroll
            for (u32 i = 0; i < ACROSS; ++i) {
                *reinterpret_cast<float2*>(to + i * 8) = make_float2(sums[i][0], sums[i][1]);
                *reinterpret_cast<float2*>(to + 8 * ROW + i * 8) = make_float2(sums[i][2], sums[i][3]);
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

// Adds the taps' sums of a group of 8 channels, and hands it to the epilogue.
__device__ __forceinline__ void finish_group(const Convolution& c, const float* parts, u32 pixel, u32 group, u32 index, const float (&bias)[GROUP], u32 count) {
    float values[1][GROUP];
#pragma unroll
    for (u32 tap = 0; tap < TAPS; ++tap) {
        const float4* from = reinterpret_cast<const float4*>(parts + tap * PART + pixel * ROW + group);
        const float4 low = from[0], high = from[1];
        const float part[GROUP] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (u32 e = 0; e < GROUP; ++e) values[0][e] = tap == 0 ? part[e] : __fadd_rn(values[0][e], part[e]);
    }
    finish_groups<1>(values, bias, c.epilogue, GroupPlace{c, index, group}, count);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) conv_taps_32x32(const __grid_constant__ ConvTaps p) {
    extern __shared__ __align__(128) u8 memory[];
    const Convolution& c = p.product;
    const u32 patch = shared_address(memory), warp = threadIdx.x / WARP;
    float* const parts = reinterpret_cast<float*>(memory + p.parts);
    // Weights are constants.
    const Tap tap(c);
    const u32 pixel = threadIdx.x / ACROSS, group = threadIdx.x % ACROSS * GROUP;
    const u32 left = c.n > group ? min(c.n - group, GROUP) : 0;
    const bool finishes = pixel < PIXELS && left > 0;
    float bias[GROUP] = {};
    if (finishes) load_bias(bias, c.epilogue, group);
    wait_for_predecessors();
    release_successors();
    for (u32 index = blockIdx.x; index < p.units; index += gridDim.x) {
        const Unit unit(p, index);
        const u32 count = unit.rows * c.row.divisor, front = unit.sample * c.sample.divisor + unit.first * c.row.divisor;
        load_patch(c, unit, patch);
        wait_copies<0>();
        __syncthreads();
        u32 buffer = 0;
        for (u32 first = 0; first < count; first += PIXELS, buffer ^= 1) {
            float* const sums = parts + buffer * (TAPS * PART);
            tap.multiply_turn(c, first, count, patch, sums + warp * PART);
            __syncthreads();
            if (finishes && first + pixel < count) finish_group(c, sums, pixel, group, front + first + pixel, bias, left);
        }
        // The patch has been read; sums of the last turn are read while the next unit's patch comes.
        __syncthreads();
    }
}
