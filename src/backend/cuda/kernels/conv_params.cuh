// A chunk of a convolution as a matrix product: M pixels of the output, N output channels, K taps times input channels.
#pragma once

#include "divide.cuh"
#include "epilogue.cuh"

// How pixels of the output lead to pixels of the input.
enum Walk : u32 {
    WALK_PADDED = 0,  // windows may reach outside the input
    WALK_INSIDE = 1,  // no window does
    WALK_FLAT = 2,    // one tap, and pixel for pixel across rows and samples, `x_pixel` apart
};

struct Convolution {
    u64 x;          // element [0, 0, 0, 0] of the input
    u64 weights;    // [N][k_padded] f16, k in the order (tap row, tap column, channel), zeros behind the last
    u64 partials;   // f32 tiles of all splits; 0 if one block sums all of K
    u64 counters;   // a u32 for each tile, 0 between launches
    u64 affine;     // scales and shifts of the input channels, in the order of `AffineLoader`; 0 for none
    i32 x_batch;    // strides of the input in elements
    i32 x_row;
    i32 x_pixel;
    i32 x_channel;  // 1 but for pictures, which are gathered
    u32 x_single;   // a picture is f32, rounded to f16 on its way; else f16
    u32 height;     // input rows
    u32 width;      // input pixels of a row
    u32 kernel_rows;
    u32 stride_rows;
    u32 stride_pixels;
    u32 pad_rows;
    u32 pad_pixels;
    i32 tap_row;             // elements from a tap to the one below it
    i32 tap_column;          // and to the one beside it
    u32 step_rows;           // one step along K in taps and channels:
    u32 step_columns;        // step = (step_rows * kernel columns + step_columns) * channels + step_channels
    u32 step_channels;
    Divisor dilation_rows;
    Divisor dilation_pixels;
    Divisor channels;        // of the input
    Divisor kernel_columns;
    Divisor sample;          // output pixels of the chunk in one sample
    Divisor row;             // output pixels of a row
    Divisor tiles_across;    // tiles along N
    Divisor splits;          // ranges of K, summed on their own and then in order
    u32 first_batch;         // of the chunk
    u32 first_row;
    u32 first_pixel;         // counted over whole samples, for an epilogue whose tensors are flat
    u32 m;
    u32 n;
    u32 k;
    u32 k_padded;            // a multiple of K_BLOCK
    u32 tiles;
    u32 walk;                // a Walk
    Epilogue epilogue;
};

static_assert(sizeof(Convolution) == 240 + sizeof(Epilogue), "mirrored in bind/conv_mma.rs");

// K ranges of splits begin at multiples of this, whatever a tile's own step.
constexpr u32 K_BLOCK = 64;

// A pixel of the chunk, 0 <= index < m.
__device__ __forceinline__ Place place_of(const Convolution& p, u32 index) {
    const u32 sample = divide(index, p.sample);
    const u32 inside = index - sample * p.sample.divisor;
    const u32 row = divide(inside, p.row);
    return Place{p.first_batch + sample, p.first_row + row, inside - row * p.row.divisor, 0};
}
