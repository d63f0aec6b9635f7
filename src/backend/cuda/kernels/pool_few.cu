// Pooling of f16 of few channels, in rows whose pixels lie at one distance: the values of pool.cu, of RUN elements of an output row behind
// each other a thread, where a thread of it would have a pixel's few.
#include "chain.cuh"
#include "divide.cuh"
#include "math.cuh"
#include "pool_taps.cuh"
#include "run.cuh"

constexpr u32 THREADS = 128;
constexpr u32 RUN = 4;

struct PoolFew {
    u64 x;         // element [0, 0, 0, 0]
    u64 y;
    i64 x_batch;   // strides in elements
    i64 x_row;
    i64 y_batch;
    i64 y_row;
    i64 x_pixel;
    i64 y_pixel;
    Window window;
    Divisor runs;      // of an output row
    Divisor rows;      // output rows of the chunk
    Divisor channels;
    u32 height;        // of the input
    u32 width;
    u32 length;        // elements of an output row
    u32 first_batch;
    u32 first_row;
    u32 average;
    u32 count_pad;     // of an average: positions in the declared padding count
    u32 count;         // runs
    u32 padding;
};

static_assert(sizeof(PoolFew) == 200, "mirrored in bind/pool_few.rs");

__device__ __forceinline__ float pooled(bool average, float x, float v) {
    if (average) return __fadd_rn(v, x);
    return x != x ? (v != v ? v : x) : greater(x, v);
}

// A square window of K by K neighbouring pixels: all of a thread's are asked for before the first is used.
template <u32 K>
__device__ __forceinline__ void pool_squares(const PoolFew& p, const u16* const (&from)[RUN], const LiveTaps (&live)[RUN], float (&v)[RUN]) {
    u16 taps[RUN][K][K];
    const auto inside = [&](u32 o, u32 i, u32 j) {
        return i >= live[o].row_first && i < live[o].row_end && j >= live[o].column_first && j < live[o].column_end;
    };
#pragma unroll
    for (u32 o = 0; o < RUN; ++o) {
#pragma unroll
        for (u32 i = 0; i < K; ++i) {
#pragma unroll
            for (u32 j = 0; j < K; ++j) taps[o][i][j] = inside(o, i, j) ? from[o][i * p.x_row + j * p.x_pixel] : 0;
        }
    }
#pragma unroll
    for (u32 o = 0; o < RUN; ++o) {
#pragma unroll
        for (u32 i = 0; i < K; ++i) {
#pragma unroll
            for (u32 j = 0; j < K; ++j) {
                if (inside(o, i, j)) v[o] = pooled(p.average, half_to_float(taps[o][i][j]), v[o]);
            }
        }
    }
}

// Any window.
__device__ __forceinline__ void pool_windows(const PoolFew& p, const u16* const (&from)[RUN], const LiveTaps (&live)[RUN], float (&v)[RUN]) {
#pragma unroll
    for (u32 o = 0; o < RUN; ++o) {
        float value = v[o];
        for (u32 i = live[o].row_first; i < live[o].row_end; ++i) {
            const u16* row = from[o] + i * p.window.dilation[0] * p.x_row;
#pragma unroll 2
            for (u32 j = live[o].column_first; j < live[o].column_end; ++j) {
                value = pooled(p.average, half_to_float(row[j * p.window.dilation[1] * p.x_pixel]), value);
            }
        }
        v[o] = value;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) pool_few(const __grid_constant__ PoolFew p) {
    wait_for_predecessors();
    release_successors();
    const Window& w = p.window;
    const u32 side = w.kernel[0] == w.kernel[1] && w.dilation[0] == 1 && w.dilation[1] == 1 ? w.kernel[0] : 0;
    const float start = p.average ? 0.0f : __uint_as_float(0xff800000u);
    for (u32 index = blockIdx.x * THREADS + threadIdx.x; index < p.count; index += gridDim.x * THREADS) {
        const u32 line = divide(index, p.runs), first = (index - line * p.runs.divisor) * RUN;
        const u32 sample = divide(line, p.rows), row = p.first_row + line - sample * p.rows.divisor, batch = p.first_batch + sample;
        const auto pixel_of = [&](u32 o) { return divide(min(first + o, p.length - 1), p.channels); };
        const LiveTaps live[RUN] = {
            LiveTaps(w, row, pixel_of(0), p.height, p.width),
            LiveTaps(w, row, pixel_of(1), p.height, p.width),
            LiveTaps(w, row, pixel_of(2), p.height, p.width),
            LiveTaps(w, row, pixel_of(3), p.height, p.width),
        };
        const u16* from[RUN];
        float v[RUN];
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            const u32 element = min(first + o, p.length - 1), channel = element - pixel_of(o) * p.channels.divisor;
            from[o] = pointer_to<u16>(p.x, batch * p.x_batch + live[o].top * p.x_row + live[o].left * p.x_pixel + channel);
            v[o] = start;
        }
        if (side == 2) {
            pool_squares<2>(p, from, live, v);
        } else if (side == 3) {
            pool_squares<3>(p, from, live, v);
        } else {
            pool_windows(p, from, live, v);
        }
        if (p.average) {
#pragma unroll
            for (u32 o = 0; o < RUN; ++o) v[o] = __fdiv_rn(v[o], live[o].divisor(w, p.height, p.width, p.count_pad != 0));
        }
        u16* const line_of = reinterpret_cast<u16*>(p.y) + batch * p.y_batch + row * p.y_row;
        const bool behind = p.y_pixel == p.channels.divisor;
        if (behind && first + RUN <= p.length && reinterpret_cast<u64>(line_of + first) % 8 == 0) {
            *reinterpret_cast<uint2*>(line_of + first) = make_uint2(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]));
            continue;
        }
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            const u32 element = first + o, pixel = pixel_of(o);
            if (element < p.length) line_of[pixel * p.y_pixel + element - pixel * p.channels.divisor] = float_to_half(v[o]);
        }
    }
}
