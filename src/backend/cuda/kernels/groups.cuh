// The frame of the kernels over `[N, C, H, W]` floats with neighbouring channels side by side: a thread computes groups of
// eight channels, at one pixel of the output or at several along a row.
#pragma once

#include "divide.cuh"
#include "tail.cuh"

constexpr u32 PIXEL_THREADS = 128;
constexpr u32 GROUP_CHANNELS = 8;

struct Pixels {
    u64 address;  // element [0, 0, 0, 0]
    i64 batch;    // strides in elements
    i64 row;
    i64 pixel;
    u32 dtype;
    u32 height;
    u32 width;
    u32 padding;
};

struct PixelFrame {
    Pixels y;
    Tail tail;
    Divisor groups;   // of channels
    Divisor across;   // runs of pixels in a row
    Divisor rows;     // of the chunk
    u32 channels;
    u32 first_batch;  // of the chunk
    u32 first_row;
    u32 count;        // of groups times runs
    u32 tiles;        // of PIXEL_THREADS
};

static_assert(sizeof(Pixels) == 48 && sizeof(PixelFrame) == 48 + 1080 + 56, "mirrored in bind/groups.rs");

// A group of channels and the first pixel of a run.
struct Spot {
    u32 batch;
    u32 channel;
    u32 row;
    u32 pixel;
    u32 count;  // channels, 1 to 8
};

__device__ __forceinline__ i64 element_of(const Pixels& p, u32 batch, u32 channel, i64 row, i64 pixel) {
    return batch * p.batch + row * p.row + pixel * p.pixel + channel;
}

__device__ __forceinline__ void load_pixel(const Pixels& p, const Spot& s, i64 row, i64 pixel, float (&v)[8]) {
    load_run(p.address, p.dtype, element_of(p, s.batch, s.channel, row, pixel), 1, s.count, v);
}

// Of f16 in whole groups of channels that lie on 16 bytes: then a group is one load, and no thread asks how to load it.
__device__ __forceinline__ bool in_whole_groups(const Pixels& p, u32 channels) {
    return p.dtype == F16 && channels % GROUP_CHANNELS == 0 && p.address % 16 == 0 && (p.batch | p.row | p.pixel) % GROUP_CHANNELS == 0;
}

// The bits of such a group, zeros unless `inside`. Neighbouring loads stay in flight together, as none hides behind a branch.
__device__ __forceinline__ uint4 load_group(const Pixels& p, const Spot& s, i64 row, i64 pixel, bool inside) {
    const uint4* from = reinterpret_cast<const uint4*>(pointer_to<u16>(p.address, element_of(p, s.batch, s.channel, row, pixel)));
    return inside ? *from : make_uint4(0, 0, 0, 0);
}

// Runs the tail on a pixel's group and stores it.
__device__ __forceinline__ void finish_pixel(const PixelFrame& f, const Spot& s, u32 pixel, float (&v)[8]) {
    tail_pixel(f.tail, v, s.count, s.batch, s.channel, s.row, pixel);
    store_run(f.y.address, f.y.dtype, element_of(f.y, s.batch, s.channel, s.row, pixel), s.count, v);
}

// Calls `compute` for every group of every run of `run` pixels of the chunk.
template <typename Compute>
__device__ __forceinline__ void every_spot(const PixelFrame& f, u32 run, Compute compute) {
    for (u32 tile = blockIdx.x; tile < f.tiles; tile += gridDim.x) {
        const u32 index = tile * PIXEL_THREADS + threadIdx.x;
        if (index >= f.count) continue;
        const u32 runs = divide(index, f.groups);
        const u32 rows = divide(runs, f.across);
        const u32 samples = divide(rows, f.rows);
        Spot s;
        s.channel = (index - runs * f.groups.divisor) * GROUP_CHANNELS;
        s.pixel = (runs - rows * f.across.divisor) * run;
        s.row = f.first_row + rows - samples * f.rows.divisor;
        s.batch = f.first_batch + samples;
        const u32 left = f.channels - s.channel;
        s.count = left < GROUP_CHANNELS ? left : GROUP_CHANNELS;
        compute(s);
    }
}
