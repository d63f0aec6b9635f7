// Resizing of f16 between two taps along either axis, channels side by side: the halves of resize.cu, of outputs below each other.
//
// A thread has a unit of an output row, and walks down the rows of a run. What it has read of two input rows serves all outputs between
// them, as f32; what the next ones lie between is on its way meanwhile. Neighbouring threads have neighbouring units, so that they read
// and store whole lines. A unit is a few pieces of a row behind each other, each some channels of one pixel that one load brings:
//
//     resize_columns_1, _2, _4, _8     pieces of so many halves, which lie on as many in the input and the output
#include "chain.cuh"
#include "divide.cuh"
#include "parameters.cuh"
#include "run.cuh"

constexpr u32 THREADS = 128;

struct ResizeColumns {
    u64 x;            // element [0, 0, 0, 0]
    u64 y;
    u64 rows;         // of each output row two taps, none of which lies outside
    u64 columns;
    i64 x_batch;      // strides in bytes; pictures of the input and rows of the output have less than 2^31
    i64 y_batch;
    i64 y_row;
    i32 x_row;
    i32 x_pixel;
    i32 y_pixel;
    u32 length;       // pieces of an output row
    Divisor units;    // of an output row
    Divisor runs;     // of the chunk's rows
    Divisor parts;    // pieces of a pixel
    u32 run;          // rows of a run
    u32 first_batch;
    u32 first_row;
    u32 row_end;      // of the chunk
    u32 count;        // units of all runs
    u32 whole;        // output rows have no gaps, and units lie on their size
    u32 padding;
};

static_assert(sizeof(ResizeColumns) == 56 + 16 + 36 + 28, "mirrored in bind/resize_columns.rs");

struct ResizeTaps {
    u32 first;
    float near;   // weight of the first
    u32 second;
    float far;
};

__device__ __forceinline__ ResizeTaps taps_of(u64 table, u32 output) {
    const uint4 bits = reinterpret_cast<const uint4*>(table)[output];
    return {bits.x, __uint_as_float(bits.y), bits.z, __uint_as_float(bits.w)};
}

// N halves, as many as lie on that many.
template <u32 N>
struct Halves {
    u32 word[(N + 1) / 2];

    __device__ __forceinline__ void load(const u8* from) {
        if constexpr (N == 1) {
            word[0] = *reinterpret_cast<const u16*>(from);
        } else if constexpr (N == 2) {
            word[0] = *reinterpret_cast<const u32*>(from);
        } else if constexpr (N == 4) {
            const uint2 two = *reinterpret_cast<const uint2*>(from);
            word[0] = two.x, word[1] = two.y;
        } else {
            const uint4 four = *reinterpret_cast<const uint4*>(from);
            word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
        }
    }

    // Those from `first` on.
    template <u32 ALL>
    __device__ __forceinline__ void round(const float (&v)[ALL], u32 first) {
        if constexpr (N == 1) {
            word[0] = float_to_half(v[first]);
        } else {
#pragma unroll
            for (u32 i = 0; i < N; i += 2) word[i / 2] = two_rounded(v[first + i], v[first + i + 1]);
        }
    }

    __device__ __forceinline__ void store(u8* to) const {
        if constexpr (N == 1) {
            *reinterpret_cast<u16*>(to) = static_cast<u16>(word[0]);
        } else if constexpr (N == 2) {
            *reinterpret_cast<u32*>(to) = word[0];
        } else if constexpr (N == 4) {
            *reinterpret_cast<uint2*>(to) = make_uint2(word[0], word[1]);
        } else {
            *reinterpret_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
        }
    }

    __device__ __forceinline__ float at(u32 i) const { return half_to_float(static_cast<u16>(word[i / 2] >> i % 2 * 16)); }
};

// PIECES pieces of EACH halves; behind the end of a row there are fewer, and the last of them again.
template <u32 EACH, u32 PIECES>
struct Unit {
    static constexpr u32 N = EACH * PIECES;

    u32 from[PIECES][2];     // bytes from the beginning of an input row, of either column
    u32 to[PIECES];          // and from that of an output row
    float across[PIECES][2];
    u32 present;
    bool whole;

    __device__ __forceinline__ void find(const ResizeColumns& p, u32 unit) {
        present = p.length - unit * PIECES, whole = p.whole && present >= PIECES;
#pragma unroll
        for (u32 k = 0; k < PIECES; ++k) {
            const u32 piece = min(unit * PIECES + k, p.length - 1), pixel = divide(piece, p.parts);
            const u32 channel = (piece - pixel * p.parts.divisor) * EACH * 2;
            const ResizeTaps taps = taps_of(p.columns, pixel);
            from[k][0] = taps.first * p.x_pixel + channel, from[k][1] = taps.second * p.x_pixel + channel;
            to[k] = pixel * p.y_pixel + channel;
            across[k][0] = taps.near, across[k][1] = taps.far;
        }
    }

    // Of the row that begins `row` bytes behind the picture.
    __device__ __forceinline__ void load(const u8* picture, u32 row, Halves<EACH> (&bits)[PIECES][2]) const {
#pragma unroll
        for (u32 k = 0; k < PIECES; ++k) bits[k][0].load(picture + (row + from[k][0])), bits[k][1].load(picture + (row + from[k][1]));
    }

    __device__ __forceinline__ void store(u8* row, const float (&v)[N]) const {
        if (whole) {
            Halves<N> all;
            all.round(v, 0);
            all.store(row + to[0]);
            return;
        }
#pragma unroll
        for (u32 k = 0; k < PIECES; ++k) {
            Halves<EACH> own;
            own.round(v, k * EACH);
            if (k < present) own.store(row + to[k]);
        }
    }
};

template <u32 EACH, u32 PIECES>
__device__ __forceinline__ void widen(const Halves<EACH> (&bits)[PIECES][2], float (&v)[2][EACH * PIECES]) {
#pragma unroll
    for (u32 i = 0; i < EACH * PIECES; ++i) v[0][i] = bits[i / EACH][0].at(i % EACH), v[1][i] = bits[i / EACH][1].at(i % EACH);
}

template <u32 EACH, u32 PIECES>
__device__ __forceinline__ void resize_columns(const ResizeColumns& p) {
    constexpr u32 N = EACH * PIECES;
    Unit<EACH, PIECES> unit;
    u32 batch, begin;
    const auto find = [&](u32 tile) {
        const u32 index = min(tile * THREADS + threadIdx.x, p.count - 1), line = divide(index, p.units);
        const u32 sample = divide(line, p.runs);
        batch = p.first_batch + sample, begin = p.first_row + (line - sample * p.runs.divisor) * p.run;
        unit.find(p, index - line * p.units.divisor);
    };
    bring_more(p, 0, sizeof(p));
    find(blockIdx.x);
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile * THREADS < p.count; tile += gridDim.x) {
        if (tile != blockIdx.x) find(tile);
        if (tile * THREADS + threadIdx.x >= p.count) continue;
        const u32 last = min(begin + p.run, p.row_end) - 1;
        const u8* const from = pointer_to<u8>(p.x, batch * p.x_batch);
        u8* to = reinterpret_cast<u8*>(p.y) + (batch * p.y_batch + begin * p.y_row);
        ResizeTaps taps = taps_of(p.rows, begin), next = taps_of(p.rows, min(begin + 1, last));
        float upper[2][N], lower[2][N];  // of the input rows above and below, of either column
        Halves<EACH> higher[PIECES][2], deeper[PIECES][2];
        unit.load(from, taps.first * p.x_row, higher), unit.load(from, taps.second * p.x_row, deeper);
        widen(higher, upper), widen(deeper, lower);
#pragma unroll 1
        for (u32 row = begin; row <= last; ++row) {
            const ResizeTaps later = taps_of(p.rows, min(row + 2, last));
            // Behind the last row it comes once more.
            const bool turns = next.first != taps.first || next.second != taps.second;
            const bool jumps = next.first != taps.second;
            if (turns) {
                unit.load(from, next.second * p.x_row, deeper);
                if (jumps) unit.load(from, next.first * p.x_row, higher);
            }
            float v[N];
#pragma unroll
            for (u32 i = 0; i < N; ++i) {
                const float left = unit.across[i / EACH][0], right = unit.across[i / EACH][1];
                v[i] = __fmul_rn(__fmul_rn(taps.near, left), upper[0][i]);
                v[i] = __fmaf_rn(__fmul_rn(taps.near, right), upper[1][i], v[i]);
                v[i] = __fmaf_rn(__fmul_rn(taps.far, left), lower[0][i], v[i]);
                v[i] = __fmaf_rn(__fmul_rn(taps.far, right), lower[1][i], v[i]);
            }
            unit.store(to, v);
            to += p.y_row;
            if (turns) {
                if (jumps) widen(higher, lower);
#pragma unroll
                for (u32 i = 0; i < N; ++i) upper[0][i] = lower[0][i], upper[1][i] = lower[1][i];
                widen(deeper, lower);
            }
            taps = next, next = later;
        }
    }
}

#define RESIZE_COLUMNS(NAME, EACH, PIECES) \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ ResizeColumns p) { resize_columns<EACH, PIECES>(p); }

RESIZE_COLUMNS(resize_columns_1, 1, 4)
RESIZE_COLUMNS(resize_columns_2, 2, 4)
RESIZE_COLUMNS(resize_columns_4, 4, 2)
RESIZE_COLUMNS(resize_columns_8, 8, 1)
