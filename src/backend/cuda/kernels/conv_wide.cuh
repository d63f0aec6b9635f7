// The parameter of the kernels that convolve wide tiles of patches.
#pragma once

#include "epilogue.cuh"
#include "hopper.cuh"

struct ConvWideParams {
    // Tiled maps [sample, row, column, channel]: patches of the input, and tiles of the output and of what is joined, which end
    // with the chunk. A box has 64 channels.
    TensorMap image, output, joined;
    u64 weights;                                   // [tap, then block of 64 input channels][output channel][64], rows swizzled within groups of 8
    u32 channels;                                  // of the output, a multiple of 64
    u32 ranges, items;                             // of the channels, and of 64 channels in a range
    u32 units;                                     // tiles of pixels, each as often as there are ranges
    u32 across, down;                              // tiles of a row, and of a sample's rows
    u32 step_columns, step_rows, step_samples;     // from a tile to the next one
    u32 first_batch, first_row;                    // of the chunk
    u32 pad_rows, pad_columns;
    u32 k_blocks;                                  // of 64 input channels
    u32 row_bytes;                                 // of a patch
    u32 group_bytes;                               // from 8 pixels of a patch to the next 8 of a tile
    u32 patch_bytes, patch_stage;                  // that a patch has, and that it takes: those behind it are zeros
    u32 sets;                                      // of patches of all blocks
    u32 places, place_bytes, tile_bytes;           // tiles that are stored at once; what one takes, and what one has
    u32 weight_stages;
    u32 unused;
    Epilogue epilogue;
};

static_assert(sizeof(ConvWideParams) == 496 + sizeof(Epilogue), "mirrored in bind/conv_wide.rs");
