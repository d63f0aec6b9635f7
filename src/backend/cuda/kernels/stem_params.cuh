// A chunk of a first layer: a convolution of pictures of up to 4 channels.
#pragma once

#include "divide.cuh"
#include "epilogue.cuh"
#include "hopper.cuh"

struct Stem {
    TensorMap output;  // channels, pixels, rows, samples of the whole output, in boxes of 64 channels of a segment; for `plain`
    u64 x;        // element [0, 0, 0, 0] of the input
    u64 weights;  // for each 64 output channels, for each product 64 rows of 16 values of K as core matrices (bind/stem.rs)
    i64 x_batch;  // strides of the input in elements
    i64 x_row;
    i32 x_pixel;
    i32 x_channel;
    u32 x_single;  // the input is f32, rounded to f16 on its way; else f16
    u32 x_channels;
    u32 height;  // input rows
    u32 width;   // input pixels of a row
    u32 kernel_rows;
    u32 stride_rows;
    u32 stride_pixels;  // 1, 2 or 4
    u32 pad_rows;
    u32 pad_pixels;
    u32 quads;       // products of a kernel row, of 4 taps each
    u32 quad_bytes;  // in shared memory from a quad of taps to the next
    u32 half_bytes;  // and from its first two taps to its last two
    u32 row_pixels;  // input pixels that a segment reads of a row
    u32 row_bytes;   // that they take in shared memory
    u32 ring_rows;   // input rows that shared memory has room for
    u32 ahead;       // items between the one that is loaded and the last one that has been multiplied; of a band, its output rows
    Divisor rows;      // of the chunk; or bands, one below the other
    Divisor segments;  // of a row
    u32 blocks_across;  // blocks of 64 output channels
    u32 items;         // or bands
    u32 first_batch;  // of the chunk
    u32 first_row;
    u32 columns;   // output pixels of a row
    u32 channels;  // of the output
    u32 plain;     // sums may be rounded to halves before they are turned round, and the copy engine stores them
    u32 padding;
    Epilogue epilogue;
    u32 row_end;  // behind the last row of the chunk
    u32 end[3];   // up to a multiple of the descriptor's alignment
};

static_assert(sizeof(Stem) == 288 + sizeof(Epilogue) + 16, "mirrored in bind/stem.rs");
