// Pooling of f16 of few channels, in rows whose pixels lie at one distance: the values of pool.cu, of RUN elements of an output row behind
// each other a thread, where a thread of it would have a pixel's few.
//
// Places and taps are counted in 31 bits, with divisors that the host knows. Where all taps of a thread's windows lie inside, as almost
// everywhere, nothing is asked of each.
#include "chain.cuh"
#include "divide.cuh"
#include "math.cuh"
#include "parameters.cuh"
#include "run.cuh"
#include "window.cuh"

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
    Divisor steps[2];  // between taps: the window's dilation
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

static_assert(sizeof(PoolFew) == 224, "mirrored in bind/pool_few.rs");

// Of a window along one axis: where its first tap lies, maybe outside, and which taps lie inside of `extent` positions.
struct Live {
    i32 at;
    u32 first, end;
    u32 counted;  // taps that an average is divided by

    __device__ __forceinline__ Live() {}

    __device__ __forceinline__ Live(const PoolFew& p, u32 axis, u32 output, u32 extent) {
        const Window& w = p.window;
        at = static_cast<i32>(output * w.stride[axis]) - static_cast<i32>(w.pad_begin[axis]);
        const auto below = [&](u32 limit) {
            const i32 room = static_cast<i32>(limit) - at;
            return room <= 0 ? 0 : min(divide(static_cast<u32>(room) + w.dilation[axis] - 1, p.steps[axis]), w.kernel[axis]);
        };
        first = below(0), end = below(extent);
        counted = p.count_pad ? below(extent + w.pad_end[axis]) : end - first;
    }

    __device__ __forceinline__ bool is_whole(u32 taps) const { return first == 0 && end == taps; }
    __device__ __forceinline__ bool has(u32 tap) const { return tap >= first && tap < end; }
};

__device__ __forceinline__ float pooled(bool average, float x, float v) {
    if (average) return __fadd_rn(v, x);
    return x != x ? (v != v ? v : x) : greater(x, v);
}

// A square window of K by K neighbouring pixels: all of a thread's are asked for before the first is used. WHOLE: all lie inside.
template <u32 K, bool WHOLE>
__device__ __forceinline__ void pool_squares(const PoolFew& p, const u16* const (&from)[RUN], const Live& rows, const Live (&columns)[RUN],
                                             float (&v)[RUN]) {
    u16 taps[RUN][K][K];
#pragma unroll
    for (u32 o = 0; o < RUN; ++o) {
#pragma unroll
        for (u32 i = 0; i < K; ++i) {
#pragma unroll
            for (u32 j = 0; j < K; ++j) {
                const bool inside = WHOLE || (rows.has(i) && columns[o].has(j));
                taps[o][i][j] = inside ? from[o][i * p.x_row + j * p.x_pixel] : 0;
            }
        }
    }
    const auto take = [&](bool average) {
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
#pragma unroll
            for (u32 i = 0; i < K; ++i) {
#pragma unroll
                for (u32 j = 0; j < K; ++j) {
                    if (WHOLE || (rows.has(i) && columns[o].has(j))) v[o] = pooled(average, half_to_float(taps[o][i][j]), v[o]);
                }
            }
        }
    };
    if (p.average) {
        take(true);
    } else {
        take(false);
    }
}

template <u32 K>
__device__ __forceinline__ void pool_squares(const PoolFew& p, const u16* const (&from)[RUN], const Live& rows, const Live (&columns)[RUN],
                                             float (&v)[RUN]) {
    bool whole = rows.is_whole(K);
#pragma unroll
    for (u32 o = 0; o < RUN; ++o) whole &= columns[o].is_whole(K);
    if (whole) {
        pool_squares<K, true>(p, from, rows, columns, v);
    } else {
        pool_squares<K, false>(p, from, rows, columns, v);
    }
}

// Any window.
__device__ __forceinline__ void pool_windows(const PoolFew& p, const u16* const (&from)[RUN], const Live& rows, const Live (&columns)[RUN],
                                             float (&v)[RUN]) {
#pragma unroll
    for (u32 o = 0; o < RUN; ++o) {
        float value = v[o];
        for (u32 i = rows.first; i < rows.end; ++i) {
            const u16* row = from[o] + i * p.window.dilation[0] * p.x_row;
#pragma unroll 2
            for (u32 j = columns[o].first; j < columns[o].end; ++j) {
                value = pooled(p.average, half_to_float(row[j * p.window.dilation[1] * p.x_pixel]), value);
            }
        }
        v[o] = value;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) pool_few(const __grid_constant__ PoolFew p) {
    bring_more(p, 0, sizeof(p));
    wait_for_predecessors();
    release_successors();
    const Window& w = p.window;
    const u32 side = w.kernel[0] == w.kernel[1] && w.dilation[0] == 1 && w.dilation[1] == 1 ? w.kernel[0] : 0;
    const float start = p.average ? 0.0f : __uint_as_float(0xff800000u);
    for (u32 index = blockIdx.x * THREADS + threadIdx.x; index < p.count; index += gridDim.x * THREADS) {
        const u32 line = divide(index, p.runs), first = (index - line * p.runs.divisor) * RUN;
        const u32 sample = divide(line, p.rows), row = p.first_row + line - sample * p.rows.divisor, batch = p.first_batch + sample;
        const Live rows(p, 0, row, p.height);
        const u16* const top = pointer_to<u16>(p.x, batch * p.x_batch + rows.at * p.x_row);
        const u16* from[RUN];
        Live columns[RUN];
        u32 pixels[RUN];
        float v[RUN];
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            const u32 element = min(first + o, p.length - 1);
            pixels[o] = divide(element, p.channels);
            columns[o] = Live(p, 1, pixels[o], p.width);
            from[o] = top + (columns[o].at * p.x_pixel + (element - pixels[o] * p.channels.divisor));
            v[o] = start;
        }
        if (side == 2) {
            pool_squares<2>(p, from, rows, columns, v);
        } else if (side == 3) {
            pool_squares<3>(p, from, rows, columns, v);
        } else {
            pool_windows(p, from, rows, columns, v);
        }
        if (p.average) {
#pragma unroll
            for (u32 o = 0; o < RUN; ++o) v[o] = __fdiv_rn(v[o], static_cast<float>(rows.counted * columns[o].counted));
        }
        u16* const line_of = reinterpret_cast<u16*>(p.y) + batch * p.y_batch + row * p.y_row;
        const bool behind = p.y_pixel == p.channels.divisor;
        if (behind && first + RUN <= p.length && reinterpret_cast<u64>(line_of + first) % 8 == 0) {
            *reinterpret_cast<uint2*>(line_of + first) = make_uint2(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]));
            continue;
        }
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            const u32 element = first + o;
            if (element < p.length) line_of[pixels[o] * p.y_pixel + (element - pixels[o] * p.channels.divisor)] = float_to_half(v[o]);
        }
    }
}
