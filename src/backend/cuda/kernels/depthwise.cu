// Depthwise convolution of two spatial axes, channels side by side: eight channels a thread, at several pixels of a row.
//
// As on the CPU every output starts at its bias and takes one fused multiply-add for each tap in row-major order; a tap
// outside the input counts as zero.
#include "chain.cuh"
#include "groups.cuh"
#include "window.cuh"

struct Depthwise {
    PixelFrame frame;
    Pixels x;
    Window window;
    u64 weights;  // packed: [tap][channels rounded up to 8], of the input's type
    u64 bias;     // packed: f32, channels rounded up to 8
    u32 pitch;    // channels rounded up to 8
    u32 padding;
};

static_assert(sizeof(Depthwise) == sizeof(PixelFrame) + 48 + 64 + 24, "mirrored in bind/depthwise.rs");

// RUN outputs along a row. Square windows of K taps without dilation at step S have their input pixels of a row of taps
// loaded once; K = 0 takes any window.
template <u32 K, u32 S, u32 RUN>
__device__ __forceinline__ void depthwise(const Depthwise& p) {
    every_spot(p.frame, RUN, [&](const Spot& s) {
        float sums[RUN][8];
        load_run(p.bias, F32, s.channel, 1, 8, sums[0]);
#pragma unroll
        for (u32 o = 1; o < RUN; ++o) {
#pragma unroll
            for (u32 k = 0; k < 8; ++k) sums[o][k] = sums[0][k];
        }
        const u32 rows = K == 0 ? p.window.kernel[0] : K, columns = K == 0 ? p.window.kernel[1] : K;
        const i64 top = landing(p.window, 0, s.row, 0), left = landing(p.window, 1, s.pixel, 0);
        const auto load = [&](i64 row, i64 pixel, float(&x)[8]) {
            if (row >= 0 && row < p.x.height && pixel >= 0 && pixel < p.x.width) {
                load_pixel(p.x, s, row, pixel, x);
            } else {
#pragma unroll
                for (u32 k = 0; k < 8; ++k) x[k] = 0.0f;
            }
        };
        for (u32 i = 0; i < rows; ++i) {
            const i64 row = top + i * p.window.dilation[0];
            if constexpr (K != 0) {
                constexpr u32 PIXELS = (RUN - 1) * S + K;
                float w[K][8];
#pragma unroll
                for (u32 j = 0; j < K; ++j) load_run(p.weights, p.x.dtype, static_cast<i64>(i * K + j) * p.pitch + s.channel, 1, 8, w[j]);
                // An input pixel meets the outputs whose windows it lies in; each of these meets its pixels from left to right.
#pragma unroll
                for (u32 pixel = 0; pixel < PIXELS; ++pixel) {
                    float x[8];
                    load(row, left + pixel, x);
#pragma unroll
                    for (u32 o = 0; o < RUN; ++o) {
                        const i32 j = static_cast<i32>(pixel) - static_cast<i32>(o * S);
                        if (j < 0 || j >= static_cast<i32>(K)) continue;
#pragma unroll
                        for (u32 k = 0; k < 8; ++k) sums[o][k] = __fmaf_rn(x[k], w[j][k], sums[o][k]);
                    }
                }
            } else {
                for (u32 j = 0; j < columns; ++j) {
                    float w[8];
                    load_run(p.weights, p.x.dtype, static_cast<i64>(i * columns + j) * p.pitch + s.channel, 1, 8, w);
#pragma unroll
                    for (u32 o = 0; o < RUN; ++o) {
                        float x[8];
                        load(row, left + static_cast<i64>(o) * p.window.stride[1] + j * p.window.dilation[1], x);
#pragma unroll
                        for (u32 k = 0; k < 8; ++k) sums[o][k] = __fmaf_rn(x[k], w[k], sums[o][k]);
                    }
                }
            }
        }
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            if (s.pixel + o < p.frame.y.width) finish_pixel(p.frame, s, s.pixel + o, sums[o]);
        }
    });
}

// The same of f16 in whole groups: all taps of a row are loaded before the first is used. S = 0 takes any step and dilation.
template <u32 K, u32 S, u32 RUN>
__device__ __forceinline__ void depthwise_in_groups(const Depthwise& p) {
    constexpr u32 PIXELS = S == 0 ? RUN * K : (RUN - 1) * S + K;
    const u32 step = p.window.stride[1], apart = p.window.dilation[1];
    every_spot(p.frame, RUN, [&](const Spot& s) {
        float sums[RUN][8];
        load_run(p.bias, F32, s.channel, 1, 8, sums[0]);
#pragma unroll
        for (u32 o = 1; o < RUN; ++o) {
#pragma unroll
            for (u32 k = 0; k < 8; ++k) sums[o][k] = sums[0][k];
        }
        const i32 top = static_cast<i32>(landing(p.window, 0, s.row, 0)), left = static_cast<i32>(landing(p.window, 1, s.pixel, 0));
        const i32 height = static_cast<i32>(p.x.height), width = static_cast<i32>(p.x.width);
        const uint4* weights = reinterpret_cast<const uint4*>(pointer_to<u16>(p.weights, s.channel));
        const u32 pitch = p.pitch / GROUP_CHANNELS;
#pragma unroll(K == 3 ? 3 : 1)
        for (u32 i = 0; i < K; ++i) {
            const i32 row = top + static_cast<i32>(S == 0 ? i * p.window.dilation[0] : i);
            const bool inside = row >= 0 && row < height;
            uint4 taps[K], pixels[PIXELS];
#pragma unroll
            for (u32 j = 0; j < K; ++j) taps[j] = weights[(i * K + j) * pitch];
#pragma unroll
            for (u32 j = 0; j < PIXELS; ++j) {
                const i32 pixel = left + static_cast<i32>(S == 0 ? j / K * step + j % K * apart : j);
                pixels[j] = load_group(p.x, s, row, pixel, inside && pixel >= 0 && pixel < width);
            }
#pragma unroll
            for (u32 j = 0; j < K; ++j) {
                float w[8];
                widen(taps[j], w);
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) {
                    float x[8];
                    widen(pixels[S == 0 ? o * K + j : o * S + j], x);
#pragma unroll
                    for (u32 k = 0; k < 8; ++k) sums[o][k] = __fmaf_rn(x[k], w[k], sums[o][k]);
                }
            }
        }
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            if (s.pixel + o < p.frame.y.width) finish_pixel(p.frame, s, s.pixel + o, sums[o]);
        }
    });
}

// The same of f16 under any window, TAPS of them loaded before the first is used: of whole groups if WIDE, else of pairs.
template <bool WIDE, u32 TAPS, u32 RUN>
__device__ __forceinline__ void depthwise_by_taps(const Depthwise& p) {
    every_spot(p.frame, RUN, [&](const Spot& s) {
        float sums[RUN][8];
        load_run(p.bias, F32, s.channel, 1, 8, sums[0]);
#pragma unroll
        for (u32 o = 1; o < RUN; ++o) {
#pragma unroll
            for (u32 k = 0; k < 8; ++k) sums[o][k] = sums[0][k];
        }
        const i32 top = static_cast<i32>(landing(p.window, 0, s.row, 0)), left = static_cast<i32>(landing(p.window, 1, s.pixel, 0));
        const i32 height = static_cast<i32>(p.x.height), width = static_cast<i32>(p.x.width);
        const uint4* weights = reinterpret_cast<const uint4*>(pointer_to<u16>(p.weights, s.channel));
        const u32 pitch = p.pitch / GROUP_CHANNELS, columns = p.window.kernel[1], count = p.window.kernel[0] * columns;
        const auto load = [&](i32 row, i32 pixel, bool there) {
            const bool inside = there && row >= 0 && row < height && pixel >= 0 && pixel < width;
            const u16* from = pointer_to<u16>(p.x.address, element_of(p.x, s.batch, s.channel, row, pixel));
            if constexpr (WIDE) {
                return inside ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
            } else {
                u32 words[4];
#pragma unroll
                for (u32 i = 0; i < 4; ++i) words[i] = inside && 2 * i < s.count ? reinterpret_cast<const u32*>(from)[i] : 0;
                return make_uint4(words[0], words[1], words[2], words[3]);
            }
        };
        i32 row = top, column = 0;  // of the next tap: where its row lies, and its place in it
#pragma unroll 1
        for (u32 first = 0; first < count; first += TAPS) {
            uint4 taps[TAPS], pixels[TAPS][RUN];
#pragma unroll
            for (u32 t = 0; t < TAPS; ++t) {
                const bool there = first + t < count;
                taps[t] = there ? weights[(first + t) * pitch] : make_uint4(0, 0, 0, 0);
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) {
                    pixels[t][o] = load(row, left + static_cast<i32>(o * p.window.stride[1] + column * p.window.dilation[1]), there);
                }
                if (static_cast<u32>(++column) == columns) column = 0, row += static_cast<i32>(p.window.dilation[0]);
            }
#pragma unroll
            for (u32 t = 0; t < TAPS; ++t) {
                if (first + t >= count) continue;
                float w[8];
                widen(taps[t], w);
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) {
                    float x[8];
                    widen(pixels[t][o], x);
#pragma unroll
                    for (u32 k = 0; k < 8; ++k) sums[o][k] = __fmaf_rn(x[k], w[k], sums[o][k]);
                }
            }
        }
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            if (s.pixel + o < p.frame.y.width) finish_pixel(p.frame, s, s.pixel + o, sums[o]);
        }
    });
}

// Pixels a thread; as bind/depthwise.rs cuts rows.
constexpr u32 DEPTHWISE_RUN = 2;

template <u32 K, u32 S>
__device__ __forceinline__ void depthwise_square(const Depthwise& p) {
    if (in_whole_groups(p.x, p.frame.channels)) {
        depthwise_in_groups<K, S, DEPTHWISE_RUN>(p);
    } else {
        depthwise<K, S, DEPTHWISE_RUN>(p);
    }
}

extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) depthwise_any(const __grid_constant__ Depthwise p) {
    wait_for_predecessors();
    release_successors();
    const bool in_groups = in_whole_groups(p.x, p.frame.channels);
    if (in_groups && p.window.kernel[0] == 3 && p.window.kernel[1] == 3) {
        depthwise_in_groups<3, 0, DEPTHWISE_RUN>(p);
    } else if (in_groups && p.window.kernel[0] == 5 && p.window.kernel[1] == 5) {
        depthwise_in_groups<5, 0, DEPTHWISE_RUN>(p);
    } else {
        depthwise<0, 1, DEPTHWISE_RUN>(p);
    }
}

// Windows without a kernel of their own, of whole groups and of pairs.
extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) depthwise_taps(const __grid_constant__ Depthwise p) {
    wait_for_predecessors();
    release_successors();
    depthwise_by_taps<true, 6, DEPTHWISE_RUN>(p);
}
extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) depthwise_taps_in_pairs(const __grid_constant__ Depthwise p) {
    wait_for_predecessors();
    release_successors();
    depthwise_by_taps<false, 6, DEPTHWISE_RUN>(p);
}
extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) depthwise_3_1(const __grid_constant__ Depthwise p) {
    wait_for_predecessors();
    release_successors();
    depthwise_square<3, 1>(p);
}
extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) depthwise_3_2(const __grid_constant__ Depthwise p) {
    wait_for_predecessors();
    release_successors();
    depthwise_square<3, 2>(p);
}
extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) depthwise_5_1(const __grid_constant__ Depthwise p) {
    wait_for_predecessors();
    release_successors();
    depthwise_square<5, 1>(p);
}
extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) depthwise_5_2(const __grid_constant__ Depthwise p) {
    wait_for_predecessors();
    release_successors();
    depthwise_square<5, 2>(p);
}
