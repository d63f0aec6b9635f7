// Depthwise convolution of f16 under windows of few taps, for few pixels: the sums of depthwise.cu, bit for bit.
//
// A thread owns two channels and a run of neighbouring outputs of one row. It asks for its weights before the launches whose
// pixels are read have ended, and then for all pixels under its windows at once: so it waits for memory once.
#include "depthwise_few.cuh"

// The index inside of an extent that is nearest to `at`; `mask` has all bits where that is `at`, else none.
__device__ __forceinline__ i32 within(i32 at, u32 extent, u32& mask) {
    mask = static_cast<u32>(at) < extent ? ~0u : 0u;
    return max(0, min(at, static_cast<i32>(extent) - 1));
}

// RUN outputs at step S along a row under ROWS by COLUMNS taps.
template <u32 ROWS, u32 COLUMNS, u32 S, u32 RUN>
__device__ __forceinline__ void convolve(const DepthwiseStrip& p) {
    constexpr u32 PIXELS = (RUN - 1) * S + COLUMNS;
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = min(tile * STRIP_THREADS + threadIdx.x, p.count - 1);
        const bool own = tile * STRIP_THREADS + threadIdx.x < p.count;
        const u32 strip = divide(index, p.lots), channel = (index - strip * p.lots.divisor) * 2;
        Taps<ROWS * COLUMNS> weights;
        weights.load(p, channel);
        const float2 bias = *reinterpret_cast<const float2*>(p.bias + channel * 4);
        const u32 line = divide(strip, p.across), column = (strip - line * p.across.divisor) * RUN;
        const u32 sample = divide(line, p.down), row = p.first_row + (line - sample * p.down.divisor);
        const i32 top = static_cast<i32>(row * S) - static_cast<i32>(p.pad_rows);
        const i32 left = static_cast<i32>(column * S) - static_cast<i32>(p.pad_columns);
        const u32 batch = p.first_batch + sample;
        const u64 from = p.x + batch * p.x_batch + channel * 2;
        u64 to = p.y + batch * p.y_batch + row * p.y_row + column * p.y_pixel + channel * 2;
        // Rows and pixels outside are read as the nearest ones inside, and masked: so no load waits for a predicate.
        u64 starts[ROWS];
        i32 places[PIXELS];
        u32 in_rows[ROWS], in_columns[PIXELS];
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) {
            starts[i] = from + within(top + static_cast<i32>(i), p.height, in_rows[i]) * p.x_row;
            asm volatile("" : "+l"(starts[i]), "+r"(in_rows[i]));
        }
#pragma unroll
        for (u32 j = 0; j < PIXELS; ++j) {
            places[j] = within(left + static_cast<i32>(j), p.width, in_columns[j]);
            asm volatile("" : "+r"(places[j]), "+r"(in_columns[j]));
        }
        // Addresses are there before the wait.
        asm volatile("" : "+l"(to));
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        if (!own) continue;
        u32 pixels[ROWS][PIXELS][1];
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) {
#pragma unroll
            for (u32 j = 0; j < PIXELS; ++j) load_if(pixels[i][j], ahead(starts[i], places[j], static_cast<i32>(p.x_pixel)), 1);
        }
        weights.hold();
        float sums[RUN * 2];
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) sums[2 * o] = bias.x, sums[2 * o + 1] = bias.y;
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) {
            float x[PIXELS][2];
#pragma unroll
            for (u32 j = 0; j < PIXELS; ++j) {
                pixels[i][j][0] &= in_rows[i] & in_columns[j];
                widen(pixels[i][j], x[j]);
            }
#pragma unroll
            for (u32 j = 0; j < COLUMNS; ++j) {
                float w[2];
                weights.get(i * COLUMNS + j, w);
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) {
                    sums[2 * o] = __fmaf_rn(x[o * S + j][0], w[0], sums[2 * o]);
                    sums[2 * o + 1] = __fmaf_rn(x[o * S + j][1], w[1], sums[2 * o + 1]);
                }
            }
        }
        u32 bits[RUN];
        finish(p, sums, bits);
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            if (column + o < p.columns) store_word(to + o * p.y_pixel, bits[o]);
        }
    }
}

// Rows and columns of taps, step, outputs of a run; as bind/depthwise_strip.rs names them.
#define DEPTHWISE_BURST(name, rows, columns, step, run)                                                              \
    extern "C" __global__ void __launch_bounds__(STRIP_THREADS, 4) name(const __grid_constant__ DepthwiseStrip p) {  \
        convolve<rows, columns, step, run>(p);                                                                       \
    }

DEPTHWISE_BURST(depthwise_burst_3_3_1_1, 3, 3, 1, 1)
DEPTHWISE_BURST(depthwise_burst_3_3_1_2, 3, 3, 1, 2)
DEPTHWISE_BURST(depthwise_burst_3_3_2_1, 3, 3, 2, 1)
DEPTHWISE_BURST(depthwise_burst_3_3_2_2, 3, 3, 2, 2)
DEPTHWISE_BURST(depthwise_burst_5_5_1_1, 5, 5, 1, 1)
DEPTHWISE_BURST(depthwise_burst_5_5_1_2, 5, 5, 1, 2)
DEPTHWISE_BURST(depthwise_burst_5_5_2_1, 5, 5, 2, 1)
DEPTHWISE_BURST(depthwise_burst_5_5_2_2, 5, 5, 2, 2)
DEPTHWISE_BURST(depthwise_burst_1_5_1_1, 1, 5, 1, 1)
DEPTHWISE_BURST(depthwise_burst_1_5_1_2, 1, 5, 1, 2)
DEPTHWISE_BURST(depthwise_burst_5_1_1_1, 5, 1, 1, 1)
DEPTHWISE_BURST(depthwise_burst_5_1_1_2, 5, 1, 1, 2)
