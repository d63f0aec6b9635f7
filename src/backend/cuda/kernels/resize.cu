// Resizing of rows and columns, channels side by side, by tables of taps: nearest, linear and cubic.
//
// Taps in row-major order, a tap's weight the product of its row's and its column's; the first tap is a product, every
// later one a fused multiply-add. Of a nearest resize each output has one tap of weight 1.
#include "chain.cuh"
#include "groups.cuh"

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
