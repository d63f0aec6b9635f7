// Samples of pictures at computed places: grids, and taps of windows that are moved. The CPU's kernel, operation for operation.
//
// A thread computes one element, or eight halves of neighbouring channels where the layouts allow: every element around a place
// is then one load, and the neighbours in a warp share it.
#include "chain.cuh"
#include "divide.cuh"
#include "run.cuh"

constexpr u32 SAMPLE_THREADS = 256;
constexpr u32 SAMPLE_PIECE = 8;

enum Sampling : u32 { NEAREST, LINEAR, CUBIC };

// Elements around a place along an axis.
template <Sampling SAMPLING>
constexpr u32 ELEMENTS = SAMPLING == NEAREST ? 1 : SAMPLING == LINEAR ? 2 : 4;

// The host's numbers (bind/places.rs).
enum Outside : u32 { ZERO = 0, BORDER = 1, REFLECTION = 2 };

struct Sample {
    View x;
    View places;
    View factors;       // of taps; address 0 for none
    View y;
    Divisor pieces;     // of the output's channels
    Divisor columns;    // of the output
    Divisor rows;       // of the chunk
    Divisor together;   // channels of a part
    Divisor taps;       // of the window; 1 for a grid
    Divisor moved;      // channels of a group
    Divisor wide;       // columns of the window
    u32 first_batch;
    u32 first_row;
    u32 count;          // of the chunk, in elements or pieces
    u32 tiles;
    u32 grid;
    u32 outside;
    u32 align_corners;
    u32 stride[2];
    u32 pad[2];
    u32 dilation[2];
};

static_assert(sizeof(Sample) == 4 * 88 + 7 * 12 + 13 * 4, "mirrored in bind/places.rs");

template <u32 COUNT>
struct Around {
    i32 positions[COUNT];  // -1 for zeros outside
    float weights[COUNT];
};

__device__ __forceinline__ float mirrored(float place, float low, float high) {
    const float range = __fsub_rn(high, low);
    const float beyond = place < low ? __fsub_rn(low, place) : __fsub_rn(place, high);
    const float turns = truncf(__fdiv_rn(beyond, range));
    const float rest = __fsub_rn(beyond, __fmul_rn(turns, range));
    const bool even = __fmul_rn(truncf(__fmul_rn(turns, 0.5f)), 2.0f) == turns;
    const float image = (place < low) == even ? __fadd_rn(low, rest) : __fsub_rn(high, rest);
    return fminf(fmaxf(image, low), high);
}

// Keys' cubic convolution with -0.75: of an element less than one away, and of one farther.
__device__ __forceinline__ float inner(float t) {
    return __fadd_rn(__fmul_rn(__fmul_rn(__fsub_rn(__fmul_rn(1.25f, t), 2.25f), t), t), 1.0f);
}
__device__ __forceinline__ float outer(float t) {
    const float first = __fmul_rn(__fadd_rn(__fmul_rn(-0.75f, t), 3.75f), t);
    return __fadd_rn(__fmul_rn(__fadd_rn(first, -6.0f), t), 3.0f);
}

template <Sampling SAMPLING>
__device__ __forceinline__ Around<ELEMENTS<SAMPLING>> around(const Sample& p, float place, u32 extent) {
    const float last = __fsub_rn(static_cast<float>(extent), 1.0f);
    const float low = p.align_corners ? 0.0f : -0.5f, high = p.align_corners ? last : __fadd_rn(last, 0.5f);
    if constexpr (SAMPLING == NEAREST) place = rintf(place);
    if (!(place >= low && place <= high)) {
        if (p.outside == BORDER) {
            place = fminf(fmaxf(place, 0.0f), last);
        } else if (p.outside == REFLECTION) {
            place = mirrored(place, low, high);
        } else if (!(fabsf(place) < 1073741824.0f)) {
            place = -8.0f;
        }
    }
    const float below = floorf(place), t = __fsub_rn(place, below);
    i32 first = static_cast<i32>(below);
    Around<ELEMENTS<SAMPLING>> a;
    if constexpr (SAMPLING == NEAREST) {
        a.weights[0] = 1.0f;
    } else if constexpr (SAMPLING == LINEAR) {
        a.weights[0] = __fsub_rn(1.0f, t);
        a.weights[1] = t;
    } else {
        first -= 1;
        a.weights[0] = outer(__fadd_rn(t, 1.0f));
        a.weights[1] = inner(t);
        a.weights[2] = inner(__fsub_rn(1.0f, t));
        a.weights[3] = outer(__fsub_rn(2.0f, t));
    }
#pragma unroll
    for (i32 k = 0; k < static_cast<i32>(ELEMENTS<SAMPLING>); ++k) {
        i32 i = first + k;
        if (i < 0 || i >= static_cast<i32>(extent)) {
            if (p.outside == ZERO) {
                i = -1;
            } else if (p.outside == BORDER) {
                i = i < 0 ? 0 : static_cast<i32>(extent) - 1;
            } else {
                i = static_cast<i32>(fminf(fmaxf(mirrored(static_cast<float>(i), low, high), 0.0f), last));
            }
        }
        a.positions[k] = i;
    }
    return a;
}

__device__ __forceinline__ float centred(const Sample& p, float g, u32 extent) {
    const float size = static_cast<float>(extent);
    if (p.align_corners) return __fmul_rn(__fmul_rn(__fadd_rn(g, 1.0f), 0.5f), __fsub_rn(size, 1.0f));
    return __fmul_rn(__fsub_rn(__fmul_rn(__fadd_rn(g, 1.0f), size), 1.0f), 0.5f);
}

// The first element of a tap, moved.
__device__ __forceinline__ float tapped(const Sample& p, u32 axis, u32 position, u32 tap, float move) {
    const i32 start = static_cast<i32>(position * p.stride[axis]) - static_cast<i32>(p.pad[axis]);
    return __fadd_rn(static_cast<float>(start + static_cast<i32>(tap * p.dilation[axis])), move);
}

template <Sampling SAMPLING, u32 PIECE>
__device__ __forceinline__ void sample_chunk(const Sample& p) {
    constexpr u32 COUNT = ELEMENTS<SAMPLING>;
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = tile * SAMPLE_THREADS + threadIdx.x;
        if (index >= p.count) continue;
        const u32 pixel = divide(index, p.pieces), channel = (index - pixel * p.pieces.divisor) * PIECE;
        const u32 line = divide(pixel, p.columns), column = pixel - line * p.columns.divisor;
        const u32 sample = divide(line, p.rows), n = p.first_batch + sample;
        const u32 row = p.first_row + line - sample * p.rows.divisor;
        // The output's channels are those of a part, tap by tap, part by part.
        const u32 run = divide(channel, p.together), inside = channel - run * p.together.divisor;
        const u32 part = divide(run, p.taps), tap = run - part * p.taps.divisor;
        const u32 source = part * p.together.divisor + inside;
        const auto place = [&](const View& v, u32 entry, u32 rows_axis) {
            const i64 at = static_cast<i64>(n) * v.strides[0] + static_cast<i64>(row) * v.strides[rows_axis] +
                           static_cast<i64>(column) * v.strides[rows_axis + 1] +
                           static_cast<i64>(entry) * v.strides[rows_axis == 1 ? 3 : 1];
            return load_float(v.address, v.dtype, at);
        };
        const u32 high = p.x.extents[2], wide = p.x.extents[3];
        float down, across, factor = 1.0f;
        if (p.grid) {
            down = centred(p, place(p.places, 1, 1), high);
            across = centred(p, place(p.places, 0, 1), wide);
        } else {
            const u32 entry = divide(source, p.moved) * p.taps.divisor + tap;
            const u32 ky = divide(tap, p.wide), kx = tap - ky * p.wide.divisor;
            down = tapped(p, 0, row, ky, place(p.places, 2 * entry, 2));
            across = tapped(p, 1, column, kx, place(p.places, 2 * entry + 1, 2));
            if (p.factors.address) factor = place(p.factors, entry, 2);
        }
        const Around<COUNT> rows = around<SAMPLING>(p, down, high), columns = around<SAMPLING>(p, across, wide);
        const i64 base = static_cast<i64>(n) * p.x.strides[0] + static_cast<i64>(source) * p.x.strides[1];
        float sums[PIECE];
#pragma unroll
        for (u32 c = 0; c < PIECE; ++c) sums[c] = 0.0f;
#pragma unroll
        for (u32 j = 0; j < COUNT; ++j) {
            float line_sums[PIECE];
#pragma unroll
            for (u32 c = 0; c < PIECE; ++c) line_sums[c] = 0.0f;
#pragma unroll
            for (u32 i = 0; i < COUNT; ++i) {
                float v[PIECE];
#pragma unroll
                for (u32 c = 0; c < PIECE; ++c) v[c] = 0.0f;
                if (rows.positions[j] >= 0 && columns.positions[i] >= 0) {
                    const i64 at = base + static_cast<i64>(rows.positions[j]) * p.x.strides[2] +
                                   static_cast<i64>(columns.positions[i]) * p.x.strides[3];
                    if constexpr (PIECE == 1) {
                        v[0] = load_float(p.x.address, p.x.dtype, at);
                    } else {
                        widen(*reinterpret_cast<const uint4*>(pointer_to<u16>(p.x.address, at)), v);
                    }
                }
#pragma unroll
                for (u32 c = 0; c < PIECE; ++c) line_sums[c] = __fmaf_rn(columns.weights[i], v[c], line_sums[c]);
            }
#pragma unroll
            for (u32 c = 0; c < PIECE; ++c) sums[c] = __fmaf_rn(rows.weights[j], line_sums[c], sums[c]);
        }
#pragma unroll
        for (u32 c = 0; c < PIECE; ++c) sums[c] = __fmul_rn(sums[c], factor);
        const i64 to = static_cast<i64>(n) * p.y.strides[0] + static_cast<i64>(channel) * p.y.strides[1] +
                       static_cast<i64>(row) * p.y.strides[2] + static_cast<i64>(column) * p.y.strides[3];
        if constexpr (PIECE == 1) {
            if (p.y.dtype == F16) {
                *(reinterpret_cast<u16*>(p.y.address) + to) = float_to_half(sums[0]);
            } else {
                *(reinterpret_cast<float*>(p.y.address) + to) = sums[0];
            }
        } else {
            store_run(p.y.address, F16, to, PIECE, sums);
        }
    }
}

#define SAMPLE_KERNEL(name, sampling, piece) \
    extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) name(const __grid_constant__ Sample p) { \
        sample_chunk<sampling, piece>(p); \
    }

SAMPLE_KERNEL(sample_nearest, NEAREST, 1)
SAMPLE_KERNEL(sample_linear, LINEAR, 1)
SAMPLE_KERNEL(sample_cubic, CUBIC, 1)
SAMPLE_KERNEL(sample_nearest_pieces, NEAREST, SAMPLE_PIECE)
SAMPLE_KERNEL(sample_linear_pieces, LINEAR, SAMPLE_PIECE)
SAMPLE_KERNEL(sample_cubic_pieces, CUBIC, SAMPLE_PIECE)
