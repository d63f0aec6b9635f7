// What the kernels for first layers share: how pixels and weights lie in shared memory, and how sums become pixels of the output.
//
//   rows     output channels, 64 at a time; columns: a segment of output pixels of a row
//   K        kernel rows, in each the taps in fours (zeros behind the last), in each tap 4 channels (zeros behind the last)
//
// An input pixel is 8 bytes in shared memory, so a row of a core matrix, 16 bytes, is two taps. The pixels of a row lie so that
// the pairs that neighbouring outputs begin with are neighbours: the patches of a segment then are core matrices that overlap,
// and none is ever written out. Every output is one chain of products in ascending K, so neither segments nor grid nor chunk
// changes a bit. A tap beyond the window meets a weight of zero: where the input is infinite or NaN, outputs up to 3 taps before
// it are NaN, too.
#pragma once

#include "conv_wgmma_store.cuh"
#include "stem_params.cuh"
#include "wgmma_cores.cuh"

constexpr u32 WARP = 32, WARPGROUP = 128;
constexpr u32 BLOCK_CHANNELS = 64;              // rows of a product
constexpr u32 PIXEL_BYTES = 8, PAIR_BYTES = 16;
constexpr u32 CORE_BYTES = 128;
constexpr u32 MATRIX_BYTES = BLOCK_CHANNELS * 16 * 2;  // weights of a product
constexpr u32 TURN_ROW_BYTES = BLOCK_CHANNELS * 2;     // a pixel on its way to memory
constexpr u32 WEIGHTS = 1024;                   // behind the barriers

__device__ __forceinline__ void store_pixel(u32 address, uint2 pixel) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(pixel.x), "r"(pixel.y) : "memory");
}

// Where the products look for pixel `x` of a row.
__device__ __forceinline__ u32 pixel_offset(const Stem& p, u32 x) {
    // A pair begins at every pixel.
    if (p.stride_pixels == 1) return x * PAIR_BYTES;
    if (p.stride_pixels == 2) return x * PIXEL_BYTES;
    // Of a quad, the first pairs of all outputs and then the last ones.
    return x / 2 % 2 * p.half_bytes + x / 4 * PAIR_BYTES + x % 2 * PIXEL_BYTES;
}

// --- multiplying ---

// Sums the products of a segment; `row(k)` is the descriptor of its pixels under kernel row `k`, asked for in ascending order.
// `ROWS` kernel rows of `QUADS` products: known ahead, the products follow each other without a pause; 0 for any.
template <u32 N, u32 ROWS, u32 QUADS, class Row>
__device__ __forceinline__ void multiply(const Stem& p, u32 channel_block, float (&sums)[N / 2], u32 weights, const Row& row) {
#pragma unroll
    for (u32 i = 0; i < N / 2; ++i) sums[i] = 0.0f;
    u64 a = core_matrices(weights + channel_block * p.kernel_rows * p.quads * MATRIX_BYTES, MATRIX_BYTES / 2, CORE_BYTES);
    constexpr u32 NEXT = MATRIX_BYTES >> 4;  // descriptors count in 16 bytes
    const u32 next = p.quad_bytes >> 4;
    if constexpr (ROWS > 0) {
        products_begin();
#pragma unroll
        for (u32 k = 0; k < ROWS; ++k) {
            const u64 b = row(k);
#pragma unroll
            for (u32 quad = 0; quad < QUADS; ++quad) CoreProduct<N>::multiply(sums, a + (k * QUADS + quad) * NEXT, b + quad * next);
        }
        products_commit();
    } else {
#pragma unroll 1
        for (u32 k = 0; k < p.kernel_rows; ++k) {
            u64 b = row(k);
#pragma unroll 1
            for (u32 quad = 0; quad < p.quads; ++quad) {
                products_begin();
                CoreProduct<N>::multiply(sums, a, b);
                products_commit();
                a += NEXT;
                b += next;
            }
        }
    }
    products_wait<0>();
}

template <u32 N, class Row>
__device__ __forceinline__ void multiply(const Stem& p, u32 channel_block, float (&sums)[N / 2], u32 weights, const Row& row) {
    const u32 window = p.kernel_rows * 4 + p.quads;
    if (asked(window == 3 * 4 + 1)) {
        multiply<N, 3, 1>(p, channel_block, sums, weights, row);
    } else if (asked(window == 7 * 4 + 2)) {
        multiply<N, 7, 2>(p, channel_block, sums, weights, row);
    } else if (asked(window == 11 * 4 + 3)) {
        multiply<N, 11, 3>(p, channel_block, sums, weights, row);
    } else {
        multiply<N, 0, 0>(p, channel_block, sums, weights, row);
    }
}

// --- storing ---

// Byte of the turned segment where a piece of 8 channels of a pixel lies: the copy engine's swizzle of rows of 128 bytes, whose
// pattern begins at multiples of 1024.
__device__ __forceinline__ u32 turned_piece(u32 pixel, u32 piece) { return pixel * TURN_ROW_BYTES + (piece ^ pixel % 8) * 16; }

__device__ __forceinline__ float row_bias(const Stem& p, u32 channel) {
    return p.epilogue.bias != 0 && channel < p.channels ? reinterpret_cast<const float*>(p.epilogue.bias)[channel] : 0.0f;
}

// Rounds the sums of a segment and turns them round into pixels of 64 channels.
template <u32 N, class Finish>
__device__ __forceinline__ void turn(const float (&sums)[N / 2], const Finish& finish, u32 turned, u32 warp, u32 lane) {
    // Lanes 8 i .. 8 i + 7 name the pixels of the i-th 8 by 8 matrix: lower and upper channels of 8 pixels, and of the next 8.
    const u32 pixel = lane / 16 * 8 + lane % 8, piece = warp * 2 + lane / 8 % 2;
    const u32 address = turned + turned_piece(pixel, piece);
#pragma unroll
    for (u32 j = 0; j < N / 8; j += 2) {
        u32 halves[4] = {};
#pragma unroll
        for (u32 h = 0; h < 2; ++h) {
            if (j + h == N / 8) break;
            const float* value = sums + 4 * (j + h);
            halves[2 * h] = finish(value[0], value[1], false);
            halves[2 * h + 1] = finish(value[2], value[3], true);
        }
        const u32 to = address + j * 8 * TURN_ROW_BYTES;
        if (j + 1 < N / 8) {
            asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(halves[0]), "r"(halves[1]),
                         "r"(halves[2]), "r"(halves[3])
                         : "memory");
        } else {
            asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(halves[0]), "r"(halves[1]) : "memory");
        }
    }
}

// Two floats, rounded to halves, and 0 where they are negative: `Bounds` of a relu in one instruction.
__device__ __forceinline__ u32 relu_of_two(float low, float high) {
    u32 bits;
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// Applies `f` to two halves.
template <class F>
__device__ __forceinline__ u32 two_halves_of(u32 bits, const F& f) {
    return two_halves(f(low_half(bits)), f(high_half(bits)));
}

// Functions that are not applied to the sums, and tails of several: of halves that are turned, where all threads take part
// however few channels there are.
__device__ __forceinline__ bool is_long(const Epilogue& e) { return e.function >= EPILOGUE_SILU; }

// The same by the tail: of pairs of sums of the thread's lower or upper row, which have a bias each.
template <u32 N>
__device__ __forceinline__ void turn(const Epilogue& e, const float (&sums)[N / 2], float low, float high, u32 turned, u32 warp, u32 lane) {
    // What makes two halves of two sums with their bias.
    const auto by = [&](const auto& make) {
        const auto finish = [&](float a, float b, bool upper) {
            const float bias = upper ? high : low;
            return make(__fadd_rn(a, bias), __fadd_rn(b, bias));
        };
        turn<N>(sums, finish, turned, warp, lane);
    };
    const auto mapped = [&](const auto& f) {
        by([&](float a, float b) { return two_halves_of(two_halves(a, b), f); });
    };
    if (asked(e.function == EPILOGUE_RELU)) {
        by([](float a, float b) { return relu_of_two(a, b); });
    } else if (asked(e.function == EPILOGUE_IDENTITY || is_long(e))) {
        by([](float a, float b) { return two_halves(a, b); });
    } else if (asked(e.function == EPILOGUE_CLIP)) {
        by([bounds = Bounds(e)](float a, float b) { return bounds.halves(a, b); });
    } else if (asked(e.function == EPILOGUE_HARD_SWISH)) {
        mapped([](float x) { return hard_swish(x); });
    } else {
        mapped([&](float x) { return x < 0.0f ? __fmul_rn(x, e.first) : x; });
    }
}

// Calls `finish` with 8 channels of a pixel of a turned segment at a time, its pixel and which 8 they are, and writes what that leaves.
template <u32 N, class Finish>
__device__ __forceinline__ void finish_turned(const Stem& p, const Place& place, u32 live, u32 turned, u32 thread, const Finish& finish) {
    const u32 pieces = min(BLOCK_CHANNELS, p.channels - place.channel) / GROUP;
#pragma unroll 1
    for (u32 i = thread; i < min(N, live) * pieces; i += WARPGROUP) {
        const u32 pixel = i / pieces, piece = i - pixel * pieces;
        const u32 at = turned + turned_piece(pixel, piece);
        float v[GROUP];
        widen(load_strip(at), v);
        finish(v, pixel, piece);
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(two_halves(v[0], v[1])), "r"(two_halves(v[2], v[3])),
                     "r"(two_halves(v[4], v[5])), "r"(two_halves(v[6], v[7]))
                     : "memory");
    }
}

// Hands a turned segment to the copy engine, which leaves out what lies behind the last pixel and channel.
__device__ __forceinline__ void store_turned(const Stem& p, const Place& place, u32 turned) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&p.output), "r"(turned),
                 "r"(place.channel), "r"(place.pixel), "r"(place.row), "r"(place.batch)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until the copy engine has read what this thread handed to it.
__device__ __forceinline__ void wait_stored() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
