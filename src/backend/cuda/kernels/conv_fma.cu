// Convolutions and products with constant matrices of floats, on ordinary arithmetic units: a matrix product of M pixels, N
// output channels of a group, and K taps times input channels, tile by tile.
//
// Every output starts at its bias (or 0) and takes one fused multiply-add for each tap, in row-major order, and each channel,
// ascending, as on the CPU; what is outside the input is 0. So its bits do not depend on the tile, the chunk or the grid.
#include "chain.cuh"
#include "copy_single.cuh"
#include "divide.cuh"
#include "mma.cuh"
#include "tail.cuh"

constexpr u32 FLOATS = 4;  // that one copy brings

struct ConvFma {
    u64 x;        // element [0, 0, 0, 0] of the input
    u64 weights;  // f32, [group][K][pitch]
    u64 bias;     // f32, [group][pitch]; 0 for none
    u64 y;        // element [0, 0, 0, 0] of the output
    i64 y_strides[4];  // sample, channel, row, pixel; in elements
    i32 x_batch;       // strides of the input in elements
    i32 x_row;
    i32 x_pixel;
    i32 x_channel;
    u32 x_dtype;
    u32 y_dtype;
    u32 height;  // input rows
    u32 width;   // input pixels of a row
    u32 stride_rows;
    u32 stride_pixels;
    u32 pad_rows;
    u32 pad_pixels;
    u32 dilation_rows;
    u32 dilation_pixels;
    u32 depth;     // K: taps times channels of a group
    u32 outputs;   // channels of a group
    u32 pitch;     // floats of a row of weights, a multiple of 4
    u32 first_batch;
    u32 first_row;
    u32 m;         // pixels of the chunk
    u32 tiles;
    u32 pieces;    // 1 for an f32 input whose channels come in whole pieces of 4, side by side, from multiples of 16 bytes on
    u32 chain;     // 1 for f32 outputs and a tail that is a chain, of tensors that lie in such pieces, too, or repeat
    u32 rows;      // of the window
    Divisor channels;  // input channels of a group
    Divisor columns;   // of the window
    Divisor sample;    // pixels of the chunk in one sample
    Divisor row;       // and in a row
    Divisor across;    // tiles along the channels of a group
    Divisor groups;
    Tail tail;
};

static_assert(sizeof(ConvFma) == 64 + 24 * 4 + 6 * 12 + sizeof(Tail), "mirrored in bind/conv_fma.rs");

// How a block cuts its tile: a thread has DOWN x ACROSS outputs. STAGES steps of DEPTH along K are in shared memory at once.
template <u32 BM_, u32 BN_, u32 DOWN_, u32 ACROSS_, u32 DEPTH_, u32 STAGES_>
struct Cut {
    static constexpr u32 BM = BM_, BN = BN_, DOWN = DOWN_, ACROSS = ACROSS_, DEPTH = DEPTH_, STAGES = STAGES_;
    static constexpr u32 LANES = 4, LINES = 32 / LANES;  // of a warp, along the channels and along the pixels
    static constexpr u32 WARP_M = LINES * DOWN, WARP_N = LANES * ACROSS;
    static constexpr u32 WARPS_N = BN / WARP_N, THREADS = BM / WARP_M * WARPS_N * 32;
    static constexpr u32 ROW = DEPTH + FLOATS;           // floats from pixel to pixel: neighbours lie in different banks
    static constexpr u32 STAGE = BM * ROW + DEPTH * BN;  // floats
    static constexpr u32 UNROLL = DOWN * ACROSS > 32 ? 2 : 4;  // steps of 4 along K whose operands are read ahead
    static_assert(DOWN * ACROSS * THREADS <= STAGES * STAGE, "the ring has room for all sums");
    static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && ACROSS % FLOATS == 0, "whole shares");
};

// Where a pixel's window begins.
struct Corner {
    i32 element;  // of the sample
    i32 row;
    i32 pixel;
};

struct Spot {
    u32 batch, row, pixel;
};

// A pixel of the chunk, 0 <= index < m.
__device__ __forceinline__ Spot spot_of(const ConvFma& p, u32 index) {
    const u32 sample = divide(index, p.sample);
    const u32 inside = index - sample * p.sample.divisor;
    const u32 row = divide(inside, p.row);
    return {p.first_batch + sample, p.first_row + row, inside - row * p.row.divisor};
}

// Behind the last pixel it is that of the last: what is computed there goes nowhere.
__device__ __forceinline__ Corner corner_of(const ConvFma& p, u32 index, u32 group) {
    const Spot spot = spot_of(p, min(index, p.m - 1));
    return {static_cast<i32>(spot.batch) * p.x_batch + static_cast<i32>(group * p.channels.divisor) * p.x_channel,
            static_cast<i32>(spot.row * p.stride_rows) - static_cast<i32>(p.pad_rows),
            static_cast<i32>(spot.pixel * p.stride_pixels) - static_cast<i32>(p.pad_pixels)};
}

// The element that a tap meets, and whether it is inside the input.
__device__ __forceinline__ bool meet(const ConvFma& p, const Corner& corner, u32 tap_row, u32 tap_column, u32 channel, i32& element) {
    const i32 row = corner.row + static_cast<i32>(tap_row * p.dilation_rows);
    const i32 pixel = corner.pixel + static_cast<i32>(tap_column * p.dilation_pixels);
    element = corner.element + row * p.x_row + pixel * p.x_pixel + static_cast<i32>(channel) * p.x_channel;
    return static_cast<u32>(row) < p.height && static_cast<u32>(pixel) < p.width;
}

// Brings the pixels' blocks of K. One copy brings 4 channels where the input allows it, and neighbouring threads have
// neighbouring channels; else every float comes on its own, and neighbouring threads have neighbouring pixels.
template <class C>
struct Loader {
    static constexpr u32 PIECES = C::DEPTH / FLOATS, STEP = C::THREADS / PIECES, ROUNDS = C::BM / STEP;
    static constexpr u32 SINGLE_STEP = C::THREADS / C::BM;
    static_assert(C::BM % STEP == 0 && C::THREADS % C::BM == 0 && C::DEPTH % SINGLE_STEP == 0, "whole rounds of copies");

    Corner corners[ROUNDS];       // of floats on their own the first alone
    u64 sources[ROUNDS];          // of the next block's pieces
    u32 inside;                   // bit i: piece i is inside the input
    u32 k, channel, column, row;  // of this thread's first in the next block
    u32 target;                   // its byte in a stage

    __device__ __forceinline__ Loader(const ConvFma& p, u32 first, u32 group) {
        const u32 line = p.pieces ? threadIdx.x / PIECES : threadIdx.x % C::BM;
#pragma unroll
        for (u32 i = 0; i < ROUNDS; ++i) corners[i] = corner_of(p, first + line + i * STEP, group);
        k = p.pieces ? threadIdx.x % PIECES * FLOATS : threadIdx.x / C::BM;
        target = (line * C::ROW + k) * 4;
        const u32 tap = divide(k, p.channels);
        channel = k - tap * p.channels.divisor;
        row = divide(tap, p.columns);
        column = tap - row * p.columns.divisor;
        find(p);
    }

    // Copies the next block to the stage at `shared`.
    __device__ __forceinline__ void load(const ConvFma& p, u32 shared) {
        if (p.pieces) {
            load_pieces(p, shared + target);
        } else {
            load_singles(p, shared + target);
        }
        k += C::DEPTH;
    }

    // Where the pieces of a tap are.
    __device__ __forceinline__ void find(const ConvFma& p) {
        inside = 0;
#pragma unroll
        for (u32 i = 0; i < ROUNDS; ++i) {
            i32 element;
            if (meet(p, corners[i], row, column, channel, element) && row < p.rows) inside |= 1u << i;
            sources[i] = p.x + static_cast<i64>(element) * 4;
        }
    }

    __device__ __forceinline__ void load_pieces(const ConvFma& p, u32 to) {
#pragma unroll
        for (u32 i = 0; i < ROUNDS; ++i) {
            copy_16(to + i * STEP * C::ROW * 4, sources[i], inside >> i & 1 ? 16 : 0);
            sources[i] += C::DEPTH * 4;
        }
        channel += C::DEPTH;
        if (channel < p.channels.divisor) return;
        do {
            channel -= p.channels.divisor;
            column += 1;
            const bool next = column == p.columns.divisor;
            column = next ? 0 : column;
            row += next;
        } while (channel >= p.channels.divisor);
        find(p);
    }

    __device__ __forceinline__ void load_singles(const ConvFma& p, u32 to) {
#pragma unroll 4
        for (u32 i = 0; i < C::DEPTH; i += SINGLE_STEP) {
            const u32 at = k + i, tap = divide(at, p.channels), tap_row = divide(tap, p.columns);
            i32 element;
            const bool hit =
                meet(p, corners[0], tap_row, tap - tap_row * p.columns.divisor, at - tap * p.channels.divisor, element) && at < p.depth;
            if (p.x_dtype == F32) {
                copy_4(to + i * 4, p.x + static_cast<i64>(element) * 4, hit ? 4 : 0);
            } else {
                const float value = hit ? half_to_float(*pointer_to<u16>(p.x, element)) : 0.0f;
                asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + i * 4), "f"(value) : "memory");
            }
        }
    }
};

// Brings the weights' blocks of K, row by row. Behind a row's last channel there are zeros.
template <class C>
struct WeightLoader {
    static constexpr u32 PIECES = C::BN / FLOATS, STEP = C::THREADS / PIECES, ROUNDS = (C::DEPTH + STEP - 1) / STEP;
    static_assert(C::THREADS % PIECES == 0 && (C::DEPTH % STEP == 0 || C::DEPTH < STEP), "whole rows");

    u64 source;
    u32 k;       // of this thread's first row in the next block
    u32 target;  // its byte in a stage
    u32 bytes;   // 16, or 0 behind the last channel

    __device__ __forceinline__ WeightLoader(const ConvFma& p, u32 group, u32 channel) {
        const u32 line = threadIdx.x / PIECES, column = threadIdx.x % PIECES * FLOATS;
        k = line;
        bytes = channel + column < p.pitch ? 16 : 0;
        source = p.weights + ((static_cast<u64>(group) * p.depth + line) * p.pitch + channel + column) * 4;
        target = (C::BM * C::ROW + line * C::BN + column) * 4;
    }

    __device__ __forceinline__ void load(const ConvFma& p, u32 shared) {
        const u64 step = static_cast<u64>(STEP) * p.pitch * 4;
        if (C::DEPTH >= STEP || threadIdx.x / PIECES < C::DEPTH) {
#pragma unroll
            for (u32 i = 0; i < ROUNDS; ++i) {
                copy_16(shared + target + i * STEP * C::BN * 4, source + i * step, k + i * STEP < p.depth ? bytes : 0);
            }
        }
        source += static_cast<u64>(C::DEPTH) * p.pitch * 4;
        k += C::DEPTH;
    }
};

// Of a tile, this thread's first pixel and its first channel.
template <class C>
__device__ __forceinline__ u32 own_pixel() {
    return threadIdx.x / 32 / C::WARPS_N * C::WARP_M + threadIdx.x % 32 / C::LANES;
}

template <class C>
__device__ __forceinline__ u32 own_channel() {
    return threadIdx.x / 32 % C::WARPS_N * C::WARP_N + threadIdx.x % C::LANES * FLOATS;
}

// What a thread computes; the pixels are LINES apart, the channels come in fours that lie 4 * LANES apart.
template <class C>
using Sums = float[C::DOWN][C::ACROSS];

template <class C>
__device__ __forceinline__ void multiply_add(Sums<C>& sums, const float (&x)[C::DOWN], const float* weights) {
    float w[C::ACROSS];
#pragma unroll
    for (u32 j = 0; j < C::ACROSS; j += FLOATS) {
        const float4 four = *reinterpret_cast<const float4*>(weights + j * C::LANES);
        w[j] = four.x, w[j + 1] = four.y, w[j + 2] = four.z, w[j + 3] = four.w;
    }
#pragma unroll
    for (u32 i = 0; i < C::DOWN; ++i) {
#pragma unroll
        for (u32 j = 0; j < C::ACROSS; ++j) sums[i][j] = __fmaf_rn(x[i], w[j], sums[i][j]);
    }
}

// Adds the products of a whole block in shared memory.
template <class C>
__device__ __forceinline__ void add_block(Sums<C>& sums, const float* pixels, const float* weights) {
#pragma unroll(C::UNROLL)
    for (u32 k = 0; k < C::DEPTH; k += FLOATS) {
        float4 x[C::DOWN];
#pragma unroll
        for (u32 i = 0; i < C::DOWN; ++i) x[i] = *reinterpret_cast<const float4*>(pixels + i * C::LINES * C::ROW + k);
#pragma unroll
        for (u32 step = 0; step < FLOATS; ++step) {
            float column[C::DOWN];
#pragma unroll
            for (u32 i = 0; i < C::DOWN; ++i) column[i] = step == 0 ? x[i].x : step == 1 ? x[i].y : step == 2 ? x[i].z : x[i].w;
            multiply_add<C>(sums, column, weights + (k + step) * C::BN);
        }
    }
}

// The same of the first `depth` of a block.
template <class C>
__device__ __forceinline__ void add_part(Sums<C>& sums, const float* pixels, const float* weights, u32 depth) {
#pragma unroll 1
    for (u32 k = 0; k < depth; ++k) {
        float column[C::DOWN];
#pragma unroll
        for (u32 i = 0; i < C::DOWN; ++i) column[i] = pixels[i * C::LINES * C::ROW + k];
        multiply_add<C>(sums, column, weights + k * C::BN);
    }
}

// Sums a tile, from its pixel `first` and the channel `channel` of a group on.
template <class C>
__device__ __forceinline__ void sum_products(const ConvFma& p, float* memory, u32 first, u32 channel, u32 group, Sums<C>& sums) {
    const u32 ring = shared_address(memory), own = own_channel<C>();
    const u32 blocks = (p.depth + C::DEPTH - 1) / C::DEPTH;
    Loader<C> pixels(p, first, group);
    WeightLoader<C> weights(p, group, channel);
#pragma unroll
    for (u32 j = 0; j < C::ACROSS; j += FLOATS) {
        const u32 at = channel + own + j * C::LANES;
        float4 bias = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (p.bias != 0 && at < p.pitch) bias = *pointer_to<float4>(p.bias, (static_cast<i64>(group) * p.pitch + at) / FLOATS);
#pragma unroll
        for (u32 i = 0; i < C::DOWN; ++i) sums[i][j] = bias.x, sums[i][j + 1] = bias.y, sums[i][j + 2] = bias.z, sums[i][j + 3] = bias.w;
    }
    // Blocks come AHEAD of their products.
    constexpr u32 AHEAD = C::STAGES - 1;
    u32 filled = 0, used = 0;  // the stages of the next block to come, and of the next to be multiplied
#pragma unroll 1
    for (u32 next = 0; next < blocks + AHEAD; ++next) {
        if (next >= AHEAD) {
            wait_copies<AHEAD - 1>();
            __syncthreads();
        }
        if (next < blocks) {
            pixels.load(p, ring + filled * C::STAGE * 4);
            weights.load(p, ring + filled * C::STAGE * 4);
        }
        commit_copies();
        filled = filled == AHEAD ? 0 : filled + 1;
        if (next < AHEAD) continue;
        const float* const stage = memory + used * C::STAGE;
        const float* const x = stage + own_pixel<C>() * C::ROW;
        const float* const w = stage + C::BM * C::ROW + own;
        const u32 left = p.depth - (next - AHEAD) * C::DEPTH;
        if (left >= C::DEPTH) {
            add_block<C>(sums, x, w);
        } else {
            add_part<C>(sums, x, w, left);
        }
        used = used == AHEAD ? 0 : used + 1;
    }
    __syncthreads();
}

// Applies a tail that is a chain to four channels of a pixel, and stores them: functions of the value before, and sums and products
// of that and a tensor.
__device__ __forceinline__ void finish_chain(const ConvFma& p, const float4& sums, const Spot& at, u32 channel) {
    float v[FLOATS] = {sums.x, sums.y, sums.z, sums.w};
    for (u32 i = 0; i < p.tail.calls; ++i) {
        const TailCall& call = p.tail.call[i];
        if (call.function < TAIL_ADD) {
            tail_unary(call, v);
            continue;
        }
        const TailOperand& o = call.a.source == FROM_MEMORY ? call.a : call.b;
        const i64 element = at.batch * o.strides[0] + channel * o.strides[1] + at.row * o.strides[2] + at.pixel * o.strides[3];
        const float* const from = pointer_to<float>(o.address, element);
        const float4 four = o.strides[1] == 0 ? make_float4(*from, *from, *from, *from) : *reinterpret_cast<const float4*>(from);
        const float x[FLOATS] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (u32 k = 0; k < FLOATS; ++k) v[k] = call.function == TAIL_ADD ? __fadd_rn(v[k], x[k]) : __fmul_rn(v[k], x[k]);
    }
    const i64 element = at.batch * p.y_strides[0] + channel + at.row * p.y_strides[2] + at.pixel * p.y_strides[3];
    *reinterpret_cast<float4*>(reinterpret_cast<float*>(p.y) + element) = make_float4(v[0], v[1], v[2], v[3]);
}

// Applies any tail to the `count` first of four channels of a pixel, and stores them.
__device__ __forceinline__ void finish_any(const ConvFma& p, const float4& v, const Spot& at, u32 channel, u32 count) {
    const i64 element = at.batch * p.y_strides[0] + channel * p.y_strides[1] + at.row * p.y_strides[2] + at.pixel * p.y_strides[3];
#pragma unroll 1
    for (u32 i = 0; i < count; ++i) {
        const float sum = i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
        const float value = tail_apply(p.tail, sum, at.batch, channel + i, at.row, at.pixel);
        if (p.y_dtype == F32) {
            *(reinterpret_cast<float*>(p.y) + element + i * p.y_strides[1]) = value;
        } else {
            *(reinterpret_cast<u16*>(p.y) + element + i * p.y_strides[1]) = float_to_half(value);
        }
    }
}

// Finishes a tile. The sums pass through shared memory, where a thread finds its own by number: so one copy of what finishes
// them serves all.
template <class C>
__device__ __forceinline__ void finish(const ConvFma& p, float* memory, u32 first, u32 channel, u32 group, const Sums<C>& sums) {
    constexpr u32 FOURS = C::ACROSS / FLOATS;
    float4* const own = reinterpret_cast<float4*>(memory) + threadIdx.x;
#pragma unroll
    for (u32 i = 0; i < C::DOWN; ++i) {
#pragma unroll
        for (u32 j = 0; j < C::ACROSS; j += FLOATS) {
            own[(i * FOURS + j / FLOATS) * C::THREADS] = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
        }
    }
    const u32 pixel = first + own_pixel<C>(), local = channel + own_channel<C>();
    if (p.chain) {
#pragma unroll 2
        for (u32 i = 0; i < C::DOWN; ++i) {
            const u32 index = pixel + i * C::LINES;
            if (index >= p.m) break;
            const Spot at = spot_of(p, index);
#pragma unroll
            for (u32 j = 0; j < FOURS; ++j) {
                const u32 c = local + j * FLOATS * C::LANES;
                if (c < p.outputs) finish_chain(p, own[(i * FOURS + j) * C::THREADS], at, group * p.outputs + c);
            }
        }
        return;
    }
#pragma unroll 1
    for (u32 n = 0; n < C::DOWN * FOURS; ++n) {
        const u32 index = pixel + n / FOURS * C::LINES, c = local + n % FOURS * FLOATS * C::LANES;
        if (index >= p.m || c >= p.outputs) continue;
        finish_any(p, own[n * C::THREADS], spot_of(p, index), group * p.outputs + c, min(p.outputs - c, FLOATS));
    }
}

template <class C>
__device__ __forceinline__ void convolve(const ConvFma& p) {
    extern __shared__ __align__(16) float memory[];
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 strip = divide(tile, p.across), channel = (tile - strip * p.across.divisor) * C::BN;
        const u32 down = divide(strip, p.groups), group = strip - down * p.groups.divisor;
        Sums<C> sums;
        sum_products<C>(p, memory, down * C::BM, channel, group, sums);
        finish<C>(p, memory, down * C::BM, channel, group, sums);
        __syncthreads();
    }
}

// A kernel of the menu in plan/tactic/conv_fma.rs; `resident` blocks share a multiprocessor at the least.
#define CONV_FMA(name, resident, ...)                                                                                           \
    extern "C" __global__ void __launch_bounds__(Cut<__VA_ARGS__>::THREADS, resident) name(const __grid_constant__ ConvFma p) { \
        wait_for_predecessors();                                                                                                \
        release_successors();                                                                                                   \
        convolve<Cut<__VA_ARGS__>>(p);                                                                                          \
    }

CONV_FMA(conv_fma_128x64, 3, 128, 64, 8, 8, 16, 4)
CONV_FMA(conv_fma_64x64, 4, 64, 64, 8, 4, 16, 5)
CONV_FMA(conv_fma_64x32, 5, 64, 32, 4, 4, 32, 4)
CONV_FMA(conv_fma_32x16, 10, 32, 16, 2, 4, 32, 5)
