// Transposed convolution of two spatial axes, channels side by side: eight output channels a thread, at four pixels of a row
// that lie a stride apart and so meet the same taps.
//
// As on the CPU every output starts at its bias and takes one fused multiply-add for each tap of its phase, in row-major
// order, and each input channel, ascending; what is outside the input counts as zero.
#include "chain.cuh"
#include "groups.cuh"
#include "parameters.cuh"
#include "window.cuh"

constexpr u32 TRANSPOSE_RUN = 4;

struct Transpose {
    PixelFrame frame;  // a run is one phase of TRANSPOSE_RUN * stride neighbouring pixels
    Pixels x;
    Window window;
    Divisor stride[2];  // the window's
    u64 weights;        // packed: [tap][input channel][output channels rounded up to 8], of the input's type
    u64 bias;           // packed: f32, channels rounded up to 8
    u32 pitch;          // output channels rounded up to 8
    u32 depth;          // input channels
};

static_assert(sizeof(Transpose) == sizeof(PixelFrame) + 48 + 64 + 24 + 24, "mirrored in bind/transpose.rs");

// Whether tap `tap` meets output `at`, and where in the input.
__device__ __forceinline__ bool meets(const Transpose& p, u32 axis, u32 at, u32 tap, i32& position) {
    const i32 lands = static_cast<i32>(at + p.window.pad_begin[axis]) - static_cast<i32>(tap * p.window.dilation[axis]);
    const i32 stride = static_cast<i32>(p.stride[axis].divisor);
    const u32 distance = static_cast<u32>(lands < 0 ? -lands : lands);
    const u32 steps = divide(distance, p.stride[axis]);
    position = lands < 0 ? -static_cast<i32>(steps) : static_cast<i32>(steps);
    return position * stride == lands;
}

extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) conv_transpose(const __grid_constant__ Transpose p) {
    bring_around(p, p.frame.tail);
    wait_for_predecessors();
    release_successors();
    every_spot(p.frame, 1, [&](const Spot& run) {
        const u32 step = p.stride[1].divisor;
        const u32 block = divide(run.pixel, p.stride[1]);
        const u32 first = block * TRANSPOSE_RUN * step + (run.pixel - block * step);
        float sums[TRANSPOSE_RUN][8];
        load_run(p.bias, F32, run.channel, 1, 8, sums[0]);
#pragma unroll
        for (u32 o = 1; o < TRANSPOSE_RUN; ++o) {
#pragma unroll
            for (u32 k = 0; k < 8; ++k) sums[o][k] = sums[0][k];
        }
        for (u32 i = 0; i < p.window.kernel[0]; ++i) {
            i32 row;
            if (!meets(p, 0, run.row, i, row)) continue;
            const bool row_inside = row >= 0 && row < static_cast<i32>(p.x.height);
            for (u32 j = 0; j < p.window.kernel[1]; ++j) {
                i32 pixel;
                if (!meets(p, 1, first, j, pixel)) continue;
                const i64 tap = static_cast<i64>(i * p.window.kernel[1] + j) * p.depth;
                for (u32 c = 0; c < p.depth; c += 8) {
                    Spot s = run;
                    s.channel = c;
                    s.count = p.depth - c < 8 ? p.depth - c : 8;
                    float x[TRANSPOSE_RUN][8];
#pragma unroll
                    for (u32 o = 0; o < TRANSPOSE_RUN; ++o) {
                        const i32 from = pixel + static_cast<i32>(o);
                        if (row_inside && from >= 0 && from < static_cast<i32>(p.x.width)) {
                            load_pixel(p.x, s, row, from, x[o]);
                        } else {
#pragma unroll
                            for (u32 k = 0; k < 8; ++k) x[o][k] = 0.0f;
                        }
                    }
#pragma unroll
                    for (u32 d = 0; d < 8; ++d) {
                        if (d >= s.count) continue;
                        float w[8];
                        load_run(p.weights, p.x.dtype, (tap + c + d) * p.pitch + run.channel, 1, 8, w);
#pragma unroll
                        for (u32 o = 0; o < TRANSPOSE_RUN; ++o) {
#pragma unroll
                            for (u32 k = 0; k < 8; ++k) sums[o][k] = __fmaf_rn(x[o][d], w[k], sums[o][k]);
                        }
                    }
                }
            }
        }
#pragma unroll
        for (u32 o = 0; o < TRANSPOSE_RUN; ++o) {
            const u32 pixel = first + o * step;
            if (pixel < p.frame.y.width) finish_pixel(p.frame, run, pixel, sums[o]);
        }
    });
}
