// Resizing of rows and columns, channels side by side, by tables of taps: nearest, linear and cubic.
//
// Taps in row-major order, a tap's weight the product of its row's and its column's; the first tap is a product, every
// later one a fused multiply-add. Of a nearest resize each output has one tap of weight 1.
#include "chain.cuh"
#include "groups.cuh"
#include "parameters.cuh"

struct ResizeTap {
    i32 position;  // -1 for an output outside a cropped input
    float weight;
};

struct Resize {
    PixelFrame frame;
    Pixels x;
    u64 rows;       // `row_taps` of each output row
    u64 columns;
    u32 row_taps;
    u32 column_taps;
    float outside;
    u32 padding;
};

static_assert(sizeof(Resize) == sizeof(PixelFrame) + 48 + 32, "mirrored in bind/resize.rs");

extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) resize(const __grid_constant__ Resize p) {
    bring_around(p, p.frame.tail);
    wait_for_predecessors();
    release_successors();
    every_spot(p.frame, 1, [&](const Spot& s) {
        const ResizeTap* rows = pointer_to<ResizeTap>(p.rows, static_cast<i64>(s.row) * p.row_taps);
        const ResizeTap* columns = pointer_to<ResizeTap>(p.columns, static_cast<i64>(s.pixel) * p.column_taps);
        float v[8];
        if (rows[0].position < 0 || columns[0].position < 0) {
#pragma unroll
            for (u32 k = 0; k < 8; ++k) v[k] = p.outside;
        } else {
            for (u32 i = 0; i < p.row_taps; ++i) {
                const ResizeTap row = rows[i];
#pragma unroll 2
                for (u32 j = 0; j < p.column_taps; ++j) {
                    const ResizeTap column = columns[j];
                    const float weight = __fmul_rn(row.weight, column.weight);
                    float x[8];
                    load_pixel(p.x, s, row.position, column.position, x);
                    const bool first = i == 0 && j == 0;
#pragma unroll
                    for (u32 k = 0; k < 8; ++k) v[k] = first ? __fmul_rn(weight, x[k]) : __fmaf_rn(weight, x[k], v[k]);
                }
            }
        }
        finish_pixel(p.frame, s, s.pixel, v);
    });
}

// Outputs of a row that a thread computes in `resize_pairs`, as bind/resize.rs cuts rows.
constexpr u32 PAIRS_RUN = 4;

// The same for two taps along either axis of f16 in whole groups: a thread reads an input pixel once for all its outputs that
// lie between the same pixels.
extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) resize_pairs(const __grid_constant__ Resize p) {
    bring_around(p, p.frame.tail);
    wait_for_predecessors();
    release_successors();
    every_spot(p.frame, PAIRS_RUN, [&](const Spot& s) {
        const ResizeTap* rows = pointer_to<ResizeTap>(p.rows, static_cast<i64>(s.row) * 2);
        const ResizeTap above = rows[0], below = rows[1];
        const u32 outputs = min(PAIRS_RUN, p.frame.y.width - s.pixel);
        uint4 columns[PAIRS_RUN];  // both taps of an output
#pragma unroll
        for (u32 o = 0; o < PAIRS_RUN; ++o) {
            columns[o] = reinterpret_cast<const uint4*>(p.columns)[s.pixel + (o < outputs ? o : 0)];
        }
        i32 held[2] = {-1, -1};  // columns whose values are there
        uint4 x[2][2] = {};
        const auto take = [&](u32 j, i32 column) {
            held[j] = column;
            x[0][j] = load_group(p.x, s, above.position, column, true);
            x[1][j] = load_group(p.x, s, below.position, column, true);
        };
#pragma unroll
        for (u32 o = 0; o < PAIRS_RUN; ++o) {
            if (o >= outputs) break;
            const i32 left = static_cast<i32>(columns[o].x), right = static_cast<i32>(columns[o].z);
            float v[8];
            if (above.position < 0 || left < 0) {
#pragma unroll
                for (u32 k = 0; k < 8; ++k) v[k] = p.outside;
            } else {
                if (left != held[0]) {
                    if (left == held[1]) {
                        held[0] = held[1], x[0][0] = x[0][1], x[1][0] = x[1][1];
                    } else {
                        take(0, left);
                    }
                }
                if (right != held[1]) take(1, right);
                const float weights[2] = {__uint_as_float(columns[o].y), __uint_as_float(columns[o].w)};
#pragma unroll
                for (u32 tap = 0; tap < 4; ++tap) {
                    const float weight = __fmul_rn(tap < 2 ? above.weight : below.weight, weights[tap % 2]);
                    float pixel[8];
                    widen(x[tap / 2][tap % 2], pixel);
#pragma unroll
                    for (u32 k = 0; k < 8; ++k) v[k] = tap == 0 ? __fmul_rn(weight, pixel[k]) : __fmaf_rn(weight, pixel[k], v[k]);
                }
            }
            finish_pixel(p.frame, s, s.pixel + o, v);
        }
    });
}
