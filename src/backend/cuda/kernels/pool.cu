// Maximum and average pooling of two spatial axes, channels side by side. Taps in row-major order; a NaN beats every number.
#include "chain.cuh"
#include "groups.cuh"
#include "maxima.cuh"
#include "parameters.cuh"
#include "pool_taps.cuh"

struct Pool {
    PixelFrame frame;
    Pixels x;
    Window window;
    u32 average;
    u32 count_pad;  // of an average: positions in the declared padding count
};

static_assert(sizeof(Pool) == sizeof(PixelFrame) + 48 + 64 + 8, "mirrored in bind/pool.rs");

// Takes a pixel's values into the window's.
__device__ __forceinline__ void pooled(bool average, const float (&x)[8], float (&v)[8]) {
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
        if (average) {
            v[k] = __fadd_rn(v[k], x[k]);
        } else {
            v[k] = x[k] != x[k] ? (v[k] != v[k] ? v[k] : x[k]) : greater(x[k], v[k]);
        }
    }
}

// A square window of K by K neighbouring pixels, all loaded before the first is used; of f16 in whole groups. Outside of the
// input pixels are minus infinity for a maximum, which is what it begins with, and left out of an average.
template <u32 K>
__device__ __forceinline__ void pool_in_groups(const Pool& p, const Spot& s, float (&v)[8]) {
    const i32 top = static_cast<i32>(landing(p.window, 0, s.row, 0)), left = static_cast<i32>(landing(p.window, 1, s.pixel, 0));
    const auto inside = [&](u32 i, u32 j) {
        return static_cast<u32>(top + static_cast<i32>(i)) < p.x.height && static_cast<u32>(left + static_cast<i32>(j)) < p.x.width;
    };
    const u16* corner = pointer_to<u16>(p.x.address, element_of(p.x, s.batch, s.channel, top, left));
    uint4 taps[K][K];
#pragma unroll
    for (u32 i = 0; i < K; ++i) {
#pragma unroll
        for (u32 j = 0; j < K; ++j) {
            const uint4* from = reinterpret_cast<const uint4*>(corner + i * p.x.row + j * p.x.pixel);
            taps[i][j] = inside(i, j) ? *from : make_uint4(LEAST, LEAST, LEAST, LEAST);
        }
    }
    if (!p.average) {
        Most most(taps[0][0]);
#pragma unroll
        for (u32 i = 1; i < K * K; ++i) most.take(taps[i / K][i % K]);
        if (most.doubtful()) {
            most.value = make_uint4(LEAST, LEAST, LEAST, LEAST);
#pragma unroll
            for (u32 i = 0; i < K * K; ++i) most.value = greater_group(most.value, taps[i / K][i % K]);
        }
        widen(most.value, v);
        return;
    }
    const i32 height = static_cast<i32>(p.x.height), width = static_cast<i32>(p.x.width);
    const i32 bottom = static_cast<i32>(p.window.pad_end[0]), right = static_cast<i32>(p.window.pad_end[1]);
    u32 down = 0, across = 0;  // positions that count
#pragma unroll
    for (u32 i = 0; i < K; ++i) {
        const i32 row = top + static_cast<i32>(i), column = left + static_cast<i32>(i);
        down += p.count_pad ? row < height + bottom : static_cast<u32>(row) < p.x.height;
        across += p.count_pad ? column < width + right : static_cast<u32>(column) < p.x.width;
    }
#pragma unroll
    for (u32 k = 0; k < 8; ++k) v[k] = 0.0f;
#pragma unroll
    for (u32 i = 0; i < K; ++i) {
#pragma unroll
        for (u32 j = 0; j < K; ++j) {
            float x[8];
            widen(taps[i][j], x);
            if (inside(i, j)) pooled(true, x, v);
        }
    }
#pragma unroll
    for (u32 k = 0; k < 8; ++k) v[k] = __fdiv_rn(v[k], static_cast<float>(down * across));
}

// True for a square window of `side` neighbouring pixels.
__device__ __forceinline__ bool is_square(const Window& w, u32 side) {
    return w.kernel[0] == side && w.kernel[1] == side && w.dilation[0] == 1 && w.dilation[1] == 1;
}

// Any window, a few taps of a row at a time with QUICK, which whole groups of f16 have: these are loaded before the first is
// used.
template <bool QUICK>
__device__ __forceinline__ void pool_any(const Pool& p, const Spot& s, float (&v)[8]) {
    const LiveTaps live(p.window, s.row, s.pixel, p.x.height, p.x.width);
    const float start = p.average ? 0.0f : __uint_as_float(0xff800000u);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) v[i] = start;
    for (u32 i = live.row_first; i < live.row_end; ++i) {
        const i64 row = live.top + i * p.window.dilation[0];
        if constexpr (QUICK) {
            constexpr u32 TAPS = 8;
            for (u32 first = live.column_first; first < live.column_end; first += TAPS) {
                uint4 taps[TAPS];
#pragma unroll
                for (u32 j = 0; j < TAPS; ++j) {
                    const i64 column = live.left + (first + j) * p.window.dilation[1];
                    taps[j] = load_group(p.x, s, row, column, first + j < live.column_end);
                }
#pragma unroll
                for (u32 j = 0; j < TAPS; ++j) {
                    float x[8];
                    widen(taps[j], x);
                    if (first + j < live.column_end) pooled(p.average, x, v);
                }
            }
        } else {
#pragma unroll 3
            for (u32 j = live.column_first; j < live.column_end; ++j) {
                float x[8];
                load_pixel(p.x, s, row, live.left + j * p.window.dilation[1], x);
                pooled(p.average, x, v);
            }
        }
    }
    if (!p.average) return;
    const float divisor = live.divisor(p.window, p.x.height, p.x.width, p.count_pad != 0);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) v[i] = __fdiv_rn(v[i], divisor);
}

extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) pool(const __grid_constant__ Pool p) {
    bring_around(p, p.frame.tail);
    wait_for_predecessors();
    release_successors();
    const bool quick = in_whole_groups(p.x, p.frame.channels);
    every_spot(p.frame, 1, [&](const Spot& s) {
        float v[8];
        if (quick && is_square(p.window, 3)) {
            pool_in_groups<3>(p, s, v);
        } else if (quick && is_square(p.window, 2)) {
            pool_in_groups<2>(p, s, v);
        } else if (quick) {
            pool_any<true>(p, s, v);
        } else {
            pool_any<false>(p, s, v);
        }
        finish_pixel(p.frame, s, s.pixel, v);
    });
}
