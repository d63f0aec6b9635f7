// Depthwise convolution of f16 under square windows of 3, 5 or 7 taps, for many pixels: the sums of depthwise.cu, bit for bit.
//
// A thread owns few channels, whose weights stay in its registers, and a strip of neighbouring outputs of a row; it walks down
// the rows. Every input pixel is loaded and widened once, and meets all taps that it lies under at once: each output takes its
// tap rows from the first to the last as the input rows come by. Rows are in flight one ahead. The loop over rows is not
// unrolled further than the step: its instructions stay in the cache of all warps.
#pragma once

#include "chain.cuh"
#include "divide.cuh"
#include "halves.cuh"
#include "math.cuh"
#include "run.cuh"

struct DepthwiseStrip {
    u64 x, y;                  // of sample 0, row 0, pixel 0, channel 0
    i64 x_batch, y_batch;      // bytes from one to the next
    i64 x_row, y_row;
    i64 x_pixel, y_pixel;
    u64 weights;               // packed: [tap][channels], f16
    u64 bias;                  // packed: f32
    u32 channels;
    u32 height, width;         // of the input
    u32 columns;               // of the output
    u32 pad_rows, pad_columns;
    u32 dilation;              // of rows and columns alike
    u32 depth;                 // outputs of a strip along the rows
    Divisor lots;              // of channels, a thread's each
    Divisor across;            // strips along a row
    Divisor down;              // and along the rows of the chunk
    u32 first_batch;           // of the chunk
    u32 first_row, rows;
    u32 count;                 // strips times lots
    u32 tiles;                 // of STRIP_THREADS
    u32 function;              // a StripTail
    u32 rounded;               // the sums are rounded to f16 before the function
    float first;               // attributes of the function
    float second;
};

static_assert(sizeof(DepthwiseStrip) == 80 + 32 + 36 + 36, "mirrored in bind/depthwise_strip.rs");

// Tails that have a path; numbered as in bind/depthwise_strip.rs.
enum StripTail : u32 {
    STRIP_IDENTITY = 0,
    STRIP_CLIP = 1,
    STRIP_RELU = 2,
    STRIP_HARD_SWISH = 3,
    STRIP_LEAKY_RELU = 4,  // first: slope
    STRIP_SILU = 5,
    STRIP_GELU = 6,
    STRIP_GELU_TANH = 7,
    STRIP_SIGMOID = 8,
};

constexpr u32 STRIP_THREADS = 128;

// PAIRS words of two halves, zeros unless `there`. Volatile, so that loads stay in front of what they overlap with.
template <u32 PAIRS>
__device__ __forceinline__ void load_if(u32 (&v)[PAIRS], u64 from, u32 there) {
    static_assert(PAIRS == 1 || PAIRS == 2, "4 or 8 bytes");
    if constexpr (PAIRS == 1) {
        asm volatile("{\n.reg .pred there;\nsetp.ne.u32 there, %2, 0;\nmov.u32 %0, 0;\n@there ld.global.u32 %0, [%1];\n}"
                     : "=r"(v[0])
                     : "l"(from), "r"(there)
                     : "memory");
    } else {
        asm volatile(
            "{\n.reg .pred there;\nsetp.ne.u32 there, %3, 0;\nmov.u32 %0, 0;\nmov.u32 %1, 0;\n"
            "@there ld.global.v2.u32 {%0, %1}, [%2];\n}"
            : "=r"(v[0]), "=r"(v[1])
            : "l"(from), "r"(there)
            : "memory");
    }
}

template <u32 PAIRS>
__device__ __forceinline__ void widen(const u32 (&bits)[PAIRS], float (&v)[PAIRS * 2]) {
#pragma unroll
    for (u32 i = 0; i < PAIRS; ++i) {
        v[2 * i] = half_to_float(static_cast<u16>(bits[i]));
        v[2 * i + 1] = half_to_float(static_cast<u16>(bits[i] >> 16));
    }
}

// Applies `f` to two sums, behind the rounding that the plan asks for.
template <class F>
__device__ __forceinline__ u32 each(const DepthwiseStrip& p, float low, float high, const F& f) {
    if (p.rounded) {
        const u32 bits = two_rounded(low, high);
        low = half_to_float(static_cast<u16>(bits)), high = half_to_float(static_cast<u16>(bits >> 16));
    }
    return two_rounded(f(low), f(high));
}

// Strips of RUN outputs at step S under K by K taps, 2 PAIRS channels a thread. `finish` makes halves of sums.
template <u32 K, u32 S, u32 RUN, u32 PAIRS, class Finish>
__device__ __forceinline__ void convolve(const DepthwiseStrip& p, const Finish& finish) {
    constexpr u32 CHANNELS = PAIRS * 2, PIXELS = (RUN - 1) * S + K;
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = min(tile * STRIP_THREADS + threadIdx.x, p.count - 1);
        const bool own = tile * STRIP_THREADS + threadIdx.x < p.count;
        const u32 strip = divide(index, p.lots), channel = (index - strip * p.lots.divisor) * CHANNELS;
        const u32 line = divide(strip, p.across), place = strip - line * p.across.divisor;
        const u32 sample = divide(line, p.down), level = line - sample * p.down.divisor;
        float weights[K * K][CHANNELS];
#pragma unroll
        for (u32 tap = 0; tap < K * K; ++tap) {
            u32 bits[PAIRS];
            load_if(bits, p.weights + 2 * (tap * p.channels + channel), 1);
            widen(bits, weights[tap]);
        }
        float bias[CHANNELS];
#pragma unroll
        for (u32 c = 0; c < CHANNELS; ++c) bias[c] = reinterpret_cast<const float*>(p.bias)[channel + c];
        // Under dilated windows the outputs of a strip lie as far apart as the taps, and so many strips interleave.
        const u32 apart = S == 1 ? p.dilation : 1;
        const u32 bundle = place / apart, stack = level / apart;
        const u32 column = bundle * apart * RUN + (place - bundle * apart), below = stack * apart * p.depth + (level - stack * apart);
        const u32 left_rows = below < p.rows ? p.rows - below : 0;
        const u32 outputs = min(p.depth, (left_rows + apart - 1) / apart), inputs = (outputs - 1) * S + K;
        const i32 top = static_cast<i32>((p.first_row + below) * S) - static_cast<i32>(p.pad_rows);
        const i32 left = static_cast<i32>(column * S) - static_cast<i32>(p.pad_columns);
        u32 inside = 0;  // bit j: pixel j of a row lies in the input
#pragma unroll
        for (u32 j = 0; j < PIXELS; ++j) inside |= (static_cast<u32>(left + static_cast<i32>(j * apart)) < p.width ? 1u : 0u) << j;
        const u32 batch = p.first_batch + sample;
        const i64 pixel_step = p.x_pixel * apart, row_step = p.x_row * apart;
        u64 from = p.x + batch * p.x_batch + top * p.x_row + left * p.x_pixel + channel * 2;
        u64 to = p.y + batch * p.y_batch + (p.first_row + below) * p.y_row + column * p.y_pixel + channel * 2;
        // Addresses are there before the wait.
        asm volatile("" : "+l"(from), "+l"(to));
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        if (!own || outputs == 0) continue;
        u32 ahead[PIXELS][PAIRS];
        i32 row = top;
        const auto load = [&] {
            const u32 there = static_cast<u32>(row) < p.height ? inside : 0;
#pragma unroll
            for (u32 j = 0; j < PIXELS; ++j) load_if(ahead[j], from + j * pixel_step, there & 1u << j);
            row += static_cast<i32>(apart);
            from += row_step;
        };
        // Sums of the outputs whose next tap row is i.
        float open[K][RUN * CHANNELS];
        load();
#pragma unroll 1
        for (u32 first = 0; first < inputs; first += S) {
#pragma unroll
            for (u32 phase = 0; phase < S; ++phase) {
                const u32 t = first + phase;
                if (t >= inputs) break;
                float x[PIXELS][CHANNELS];
#pragma unroll
                for (u32 j = 0; j < PIXELS; ++j) widen(ahead[j], x[j]);
                if (t + 1 < inputs) load();
                // From the last tap row, whose sums are ready then, to the first: each makes room for the one before it.
#pragma unroll
                for (u32 i = K; i-- > 0;) {
                    if (i % S != phase || t < i || t - i > (outputs - 1) * S) continue;
                    float sum[RUN * CHANNELS];
#pragma unroll
                    for (u32 o = 0; o < RUN; ++o) {
#pragma unroll
                        for (u32 c = 0; c < CHANNELS; ++c) sum[o * CHANNELS + c] = i == 0 ? bias[c] : open[i][o * CHANNELS + c];
                    }
#pragma unroll
                    for (u32 j = 0; j < K; ++j) {
#pragma unroll
                        for (u32 o = 0; o < RUN; ++o) {
#pragma unroll
                            for (u32 c = 0; c < CHANNELS; ++c) {
                                sum[o * CHANNELS + c] = __fmaf_rn(x[o * S + j][c], weights[i * K + j][c], sum[o * CHANNELS + c]);
                            }
                        }
                    }
                    if (i + 1 < K) {
#pragma unroll
                        for (u32 k = 0; k < RUN * CHANNELS; ++k) open[(i + 1) % K][k] = sum[k];
                        continue;
                    }
                    u32 bits[RUN * PAIRS];
                    finish(sum, bits);
#pragma unroll
                    for (u32 o = 0; o < RUN; ++o) {
                        if (column + o * apart >= p.columns) continue;
                        const u64 at = to + o * apart * p.y_pixel;
                        if constexpr (PAIRS == 1) {
                            *reinterpret_cast<u32*>(at) = bits[o];
                        } else {
                            *reinterpret_cast<uint2*>(at) = make_uint2(bits[o * PAIRS], bits[o * PAIRS + 1]);
                        }
                    }
                    to += p.y_row * apart;
                }
            }
        }
    }
}

// Taps, step, outputs of a strip along a row, pairs of channels, blocks that share an SM; as bind/depthwise_strip.rs names them.
#define DEPTHWISE_STRIP(name, taps, step, run, pairs, blocks)                                                            \
    extern "C" __global__ void __launch_bounds__(STRIP_THREADS, blocks) name(const __grid_constant__ DepthwiseStrip p) { \
        convolve<taps, step, run, pairs>(p, [&](const auto& sums, auto& bits) { finish(p, sums, bits); });               \
    }
