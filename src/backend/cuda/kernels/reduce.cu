// Mean, sum and maximum over the rows and columns of pixels (global pooling, squeezing), and over an axis whose
// elements lie side by side.
//
// The reduced elements are cut into `splits` ranges of equal length, each summed from its first element to its last. The
// sums of 32 ranges are added in order, and so are the totals of such runs of ranges. How many ranges there are is part of
// the operator's arithmetic class: from its shape alone.
#include "chain.cuh"
#include "groups.cuh"

enum ReduceKind : u32 { REDUCE_MEAN = 0, REDUCE_MAX = 1, REDUCE_SUM = 2 };

constexpr u32 MAX_SPLITS = 32;
constexpr u32 REDUCE_GROUPS = 8;  // of channels in a block
constexpr u32 REDUCE_THREADS = MAX_SPLITS * REDUCE_GROUPS;
constexpr u32 MANY_SPLITS = REDUCE_THREADS;  // of one group of channels in a block
constexpr u32 REDUCE_BATCH = 8;              // pixels that a thread has in flight

struct Reduce {
    PixelFrame frame;  // groups: blocks of channels of a sample; tiles of one such block: a group where there are many splits
    Pixels x;
    Divisor width;     // of the input
    u32 pixels;        // of the input, height times width
    u32 share;         // pixels of a range
    u32 splits;
    u32 kind;
    u32 padding;
};

static_assert(sizeof(Reduce) == sizeof(PixelFrame) + 48 + 32, "mirrored in bind/reduce.rs");

// The first NaN stays.
__device__ __forceinline__ float larger(float best, float x) { return x > best || (x != x && best == best) ? x : best; }

__device__ __forceinline__ float joined(u32 kind, float sum, float x) { return kind == REDUCE_MAX ? larger(sum, x) : __fadd_rn(sum, x); }

// Takes the pixels of a range in order.
__device__ __forceinline__ void reduce_range(const Reduce& p, const Spot& s, u32 first, u32 end, float (&v)[8]) {
    const auto take = [&](const float(&x)[8]) {
#pragma unroll
        for (u32 k = 0; k < 8; ++k) v[k] = joined(p.kind, v[k], x[k]);
    };
    if (!in_whole_groups(p.x, p.frame.channels)) {
        for (u32 i = first; i < end; ++i) {
            const u32 row = divide(i, p.width);
            float x[8];
            load_pixel(p.x, s, row, i - row * p.width.divisor, x);
            take(x);
        }
        return;
    }
    for (u32 begin = first; begin < end; begin += REDUCE_BATCH) {
        uint4 bits[REDUCE_BATCH];
#pragma unroll
        for (u32 j = 0; j < REDUCE_BATCH; ++j) {
            // All threads alike stop behind the longest range.
            if (begin - first + j >= p.share) break;
            const u32 row = divide(begin + j, p.width);
            bits[j] = load_group(p.x, s, row, begin + j - row * p.width.divisor, begin + j < end);
        }
#pragma unroll
        for (u32 j = 0; j < REDUCE_BATCH; ++j) {
            if (begin - first + j >= p.share) break;
            float x[8];
            widen(bits[j], x);
            if (begin + j < end) take(x);
        }
    }
}

extern "C" __global__ void __launch_bounds__(REDUCE_THREADS, 3) reduce_pixels(const __grid_constant__ Reduce p) {
    wait_for_predecessors();
    release_successors();
    __shared__ float partials[REDUCE_THREADS][GROUP_CHANNELS];
    const u32 groups = p.splits == MANY_SPLITS ? 1 : REDUCE_GROUPS;
    const u32 group = threadIdx.x % groups, split = threadIdx.x / groups;
    const float start = p.kind == REDUCE_MAX ? __uint_as_float(0xff800000u) : 0.0f;
    for (u32 tile = blockIdx.x; tile < p.frame.tiles; tile += gridDim.x) {
        const u32 sample = divide(tile, p.frame.groups);
        Spot s;
        const u32 first_channel = (tile - sample * p.frame.groups.divisor) * groups * GROUP_CHANNELS;
        s.batch = p.frame.first_batch + sample;
        s.channel = first_channel + group * GROUP_CHANNELS;
        s.row = s.pixel = 0;
        s.count = s.channel >= p.frame.channels ? 0 : p.frame.channels - s.channel < 8 ? p.frame.channels - s.channel : 8;
        float v[8];
#pragma unroll
        for (u32 k = 0; k < 8; ++k) v[k] = start;
        if (s.count > 0 && split < p.splits) {
            const u32 first = split * p.share, end = first + p.share < p.pixels ? first + p.share : p.pixels;
            reduce_range(p, s, first, end, v);
        }
#pragma unroll
        for (u32 k = 0; k < 8; ++k) partials[threadIdx.x][k] = v[k];
        __syncthreads();
        // Ranges behind the last element are left out. A thread adds the ranges of a run for one channel.
        if (threadIdx.x < REDUCE_GROUPS * GROUP_CHANNELS) {
            const u32 channel = threadIdx.x % GROUP_CHANNELS, run = threadIdx.x / GROUP_CHANNELS;
            const u32 first = groups == 1 ? run * MAX_SPLITS : 0, line = groups == 1 ? first : run;
            float total = partials[line][channel];
#pragma unroll 8
            for (u32 other = 1; other < MAX_SPLITS; ++other) {
                const float next = partials[line + other * groups][channel];
                if (first + other < p.splits && (first + other) * p.share < p.pixels) total = joined(p.kind, total, next);
            }
            partials[line][channel] = total;
        }
        __syncthreads();
        if (split == 0 && s.count > 0) {
#pragma unroll
            for (u32 k = 0; k < 8; ++k) v[k] = partials[threadIdx.x][k];
            for (u32 other = MAX_SPLITS; other < p.splits && other * p.share < p.pixels; other += MAX_SPLITS) {
#pragma unroll
                for (u32 k = 0; k < 8; ++k) v[k] = joined(p.kind, v[k], partials[other][k]);
            }
            if (p.kind == REDUCE_MEAN) {
#pragma unroll
                for (u32 k = 0; k < 8; ++k) v[k] = __fdiv_rn(v[k], static_cast<float>(p.pixels));
            }
            finish_pixel(p.frame, s, 0, v);
        }
        __syncthreads();
    }
}

// Rows of neighbouring elements, a warp a row and a lane a range.
struct ReduceRows {
    View y;
    View x;
    Tail tail;
    u32 start[MAX_RANK];
    Divisor extents[MAX_RANK];  // of the chunk; 1 along the reduced axis
    u32 axis;                   // the reduced one
    u32 length;
    u32 share;
    u32 splits;
    u32 kind;
    u32 rows;
    u32 tiles;                  // of REDUCE_ROWS rows
    u32 padding;
};

constexpr u32 REDUCE_ROWS = REDUCE_THREADS / 32;

static_assert(sizeof(ReduceRows) == 2 * 88 + 1080 + 24 + 72 + 32, "mirrored in bind/reduce.rs");

extern "C" __global__ void __launch_bounds__(REDUCE_THREADS) reduce_rows(const __grid_constant__ ReduceRows p) {
    wait_for_predecessors();
    release_successors();
    const u32 lane = threadIdx.x % 32;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = tile * REDUCE_ROWS + threadIdx.x / 32;
        if (index >= p.rows) continue;
        u32 at[MAX_RANK];
        u32 rest = index;
#pragma unroll
        for (u32 i = 0; i < MAX_RANK; ++i) {
            const u32 axis = MAX_RANK - 1 - i;
            const u32 above = divide(rest, p.extents[axis]);
            at[axis] = p.start[axis] + rest - above * p.extents[axis].divisor;
            rest = above;
        }
        const i64 from = element_of(p.x.strides, at);
        float sum = p.kind == REDUCE_MAX ? __uint_as_float(0xff800000u) : 0.0f;
        const u32 first = lane * p.share, end = first + p.share < p.length ? first + p.share : p.length;
#pragma unroll 4
        for (u32 i = first; i < end; ++i) sum = joined(p.kind, sum, load_float(p.x.address, p.x.dtype, from + i));
        float total = __shfl_sync(0xffffffffu, sum, 0);
        for (u32 other = 1; other < p.splits && other * p.share < p.length; ++other) {
            total = joined(p.kind, total, __shfl_sync(0xffffffffu, sum, other));
        }
        if (lane != 0) continue;
        float v[1] = {p.kind == REDUCE_MEAN ? __fdiv_rn(total, static_cast<float>(p.length)) : total};
        tail_run(p.tail, v, 1, at, p.axis);
        const i64 to = element_of(p.y.strides, at);
        if (p.y.dtype == F16) {
            *(reinterpret_cast<u16*>(p.y.address) + to) = float_to_half(v[0]);
        } else {
            *(reinterpret_cast<float*>(p.y.address) + to) = v[0];
        }
    }
}
