// The parameter of the kernels that convolve with `wgmma`.
#pragma once

#include "epilogue.cuh"
#include "hopper.cuh"

struct ConvWgmmaParams {
    TensorMap image;       // im2col map of the input, pixels of a tile by channels of a K block
    u64 weights;           // [K block][output channel, padded to 8][64], rows swizzled within groups of 8
    u32 k_blocks;          // taps * channel_blocks
    u32 channel_blocks;
    u32 splits;            // chains of products: 1, 2 or 4; K block floor(i * k_blocks / splits) is the first of chain i
    u32 kernel_columns;
    u32 dilation_rows, dilation_columns;
    u32 stride_rows, stride_columns;
    u32 pad_rows, pad_columns;
    u32 walk_rows, walk_columns;  // grid that pixels are counted through to find them in the map
    u32 rows, columns;     // of the whole output
    u32 channels;          // of the output
    u32 first_pixel;       // of the chunk, counted through batch, rows and columns of the whole output
    u32 run_pixels;        // pixels that follow one another
    u32 run_stride;        // from the first pixel of a run to that of the next
    u32 run_tiles;         // tiles of a run
    u32 channel_tiles;
    u32 tiles;             // runs * run_tiles * channel_tiles
    u32 height;            // rows of the input where tap rows may lie outside for whole tiles; else 0
    Epilogue epilogue;
};

static_assert(sizeof(ConvWgmmaParams) == 224 + sizeof(Epilogue) + 16, "mirrored in bind/conv_wgmma.rs");
