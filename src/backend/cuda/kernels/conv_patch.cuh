// The parameter of the kernels that convolve patches, and the copy of a patch.
#pragma once

#include "epilogue.cuh"
#include "hopper.cuh"

struct ConvPatchParams {
    TensorMap image;     // tiled map [sample, row, column, channel] of the input: patches of 64 channels
    u64 weights;         // [tap, then block of 64 input channels][output channel][64], rows swizzled within groups of 8
    u32 channels;        // of the output, a multiple of 64
    u32 channel_tiles;   // of 64 channels; divides the blocks of the launch
    u32 pad_rows, pad_columns;
    u32 columns;         // of what is stored, as the rows of the chunk are
    u32 first_batch;     // of the chunk
    u32 first_row, end_row;
    u32 across, down;    // tiles of a row, and of a sample's rows
    u32 tiles;           // across * down * samples
    u32 k_blocks;        // of 64 input channels
    u32 chains;          // of products: block floor(i * 9 * k_blocks / chains) of K is the first of chain i
    u32 weight_stages;   // of a block that streams its weights
    Epilogue epilogue;
};

static_assert(sizeof(ConvPatchParams) == 192 + sizeof(Epilogue) + 48, "mirrored in bind/patches.rs");

// A box of a tiled map of samples, rows, columns and channels.
__device__ __forceinline__ void copy_patch(u32 to, const TensorMap* map, u32 barrier, i32 channel, i32 column, i32 row, i32 batch) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(channel), "r"(column), "r"(row), "r"(batch)
        : "memory");
}
