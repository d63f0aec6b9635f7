// Samples of pictures at computed places: grids, and taps of windows that are moved. The CPU's kernel, operation for operation.
//
//     *          a thread computes one element, its neighbours those of the next channels
//     *_pieces   eight halves of neighbouring channels, where the layouts allow: every element around a place is then one load,
//                and the neighbours in a warp share it
//     *_lots     up to eight channels wherever they lie, its neighbours the same channels of the next places: a place and its
//                weights are found once for all of them, and planes are read and written side by side. Of grids only.
#include "chain.cuh"
#include "divide.cuh"
#include "run.cuh"
#include "sample.cuh"

constexpr u32 SAMPLE_THREADS = 256;
constexpr u32 SAMPLE_PIECE = 8;

struct Sample {
    View x;
    View places;
    View factors;       // of taps; address 0 for none
    View y;
    Divisor pieces;     // of the output's channels; lots of them
    Divisor columns;    // of the output
    Divisor rows;       // of the chunk
    Divisor together;   // channels of a part
    Divisor taps;       // of the window; 1 for a grid
    Divisor moved;      // channels of a group
    Divisor wide;       // columns of the window
    u32 first_batch;
    u32 first_row;
    u32 count;          // of the chunk, in elements, pieces or lots
    u32 tiles;
    u32 grid;
    SampleRule rule;
    u32 stride[2];
    u32 pad[2];
    u32 dilation[2];
};

static_assert(sizeof(Sample) == 4 * 88 + 7 * 12 + 13 * 4, "mirrored in bind/places.rs");

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
            down = centred(p.rule, place(p.places, 1, 1), high);
            across = centred(p.rule, place(p.places, 0, 1), wide);
        } else {
            const u32 entry = divide(source, p.moved) * p.taps.divisor + tap;
            const u32 ky = divide(tap, p.wide), kx = tap - ky * p.wide.divisor;
            down = tapped(p, 0, row, ky, place(p.places, 2 * entry, 2));
            across = tapped(p, 1, column, kx, place(p.places, 2 * entry + 1, 2));
            if (p.factors.address) factor = place(p.factors, entry, 2);
        }
        const Around<COUNT> rows = around<SAMPLING>(p.rule, down, high), columns = around<SAMPLING>(p.rule, across, wide);
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

// The `count` channels of T from `from` on, `step` elements apart; zeros behind them.
template <typename T>
__device__ __forceinline__ void load_lot(const T* from, i64 step, u32 count, float (&v)[SAMPLE_PIECE]) {
#pragma unroll
    for (u32 c = 0; c < SAMPLE_PIECE; ++c) {
        v[c] = 0.0f;
        if (c < count) {
            if constexpr (sizeof(T) == 2) {
                v[c] = half_to_float(from[c * step]);
            } else {
                v[c] = from[c * step];
            }
        }
    }
}

template <Sampling SAMPLING, typename T>
__device__ __forceinline__ void blend_lot(const T* from, const View& x, const Around<ELEMENTS<SAMPLING>>& rows,
                                          const Around<ELEMENTS<SAMPLING>>& columns, u32 count, float (&sums)[SAMPLE_PIECE]) {
    constexpr u32 COUNT = ELEMENTS<SAMPLING>;
#pragma unroll
    for (u32 c = 0; c < SAMPLE_PIECE; ++c) sums[c] = 0.0f;
#pragma unroll
    for (u32 j = 0; j < COUNT; ++j) {
        float line_sums[SAMPLE_PIECE];
#pragma unroll
        for (u32 c = 0; c < SAMPLE_PIECE; ++c) line_sums[c] = 0.0f;
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) {
            const bool inside = rows.positions[j] >= 0 && columns.positions[i] >= 0;
            const i64 at = static_cast<i64>(rows.positions[j]) * x.strides[2] + static_cast<i64>(columns.positions[i]) * x.strides[3];
            float v[SAMPLE_PIECE];
            load_lot(from + (inside ? at : 0), x.strides[1], inside ? count : 0, v);
#pragma unroll
            for (u32 c = 0; c < SAMPLE_PIECE; ++c) line_sums[c] = __fmaf_rn(columns.weights[i], v[c], line_sums[c]);
        }
#pragma unroll
        for (u32 c = 0; c < SAMPLE_PIECE; ++c) sums[c] = __fmaf_rn(rows.weights[j], line_sums[c], sums[c]);
    }
}

template <Sampling SAMPLING>
__device__ __forceinline__ void sample_lots(const Sample& p) {
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = tile * SAMPLE_THREADS + threadIdx.x;
        if (index >= p.count) continue;
        const u32 line = divide(index, p.columns), column = index - line * p.columns.divisor;
        const u32 above = divide(line, p.rows), row = p.first_row + line - above * p.rows.divisor;
        const u32 sample = divide(above, p.pieces), channel = (above - sample * p.pieces.divisor) * SAMPLE_PIECE;
        const u32 n = p.first_batch + sample, count = min(p.y.extents[1] - channel, SAMPLE_PIECE);
        const i64 pair = static_cast<i64>(n) * p.places.strides[0] + static_cast<i64>(row) * p.places.strides[1] +
                         static_cast<i64>(column) * p.places.strides[2];
        const u32 high = p.x.extents[2], wide = p.x.extents[3];
        const float down = centred(p.rule, load_float(p.places.address, p.places.dtype, pair + p.places.strides[3]), high);
        const float across = centred(p.rule, load_float(p.places.address, p.places.dtype, pair), wide);
        const auto rows = around<SAMPLING>(p.rule, down, high), columns = around<SAMPLING>(p.rule, across, wide);
        const i64 base = static_cast<i64>(n) * p.x.strides[0] + static_cast<i64>(channel) * p.x.strides[1];
        float sums[SAMPLE_PIECE];
        if (p.x.dtype == F16) {
            blend_lot<SAMPLING>(pointer_to<u16>(p.x.address, base), p.x, rows, columns, count, sums);
        } else {
            blend_lot<SAMPLING>(pointer_to<float>(p.x.address, base), p.x, rows, columns, count, sums);
        }
        const i64 to = static_cast<i64>(n) * p.y.strides[0] + static_cast<i64>(channel) * p.y.strides[1] +
                       static_cast<i64>(row) * p.y.strides[2] + static_cast<i64>(column) * p.y.strides[3];
        store_run(p.y.address, p.y.dtype, to, count, sums, p.y.strides[1]);
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

#define LOTS_KERNEL(name, sampling) \
    extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) name(const __grid_constant__ Sample p) { sample_lots<sampling>(p); }

LOTS_KERNEL(sample_nearest_lots, NEAREST)
LOTS_KERNEL(sample_linear_lots, LINEAR)
LOTS_KERNEL(sample_cubic_lots, CUBIC)
