// Image preparation: a picture of any size and format to a network's input.
//
// The resampling is OpenCV's INTER_LINEAR for 8-bit images, as the CPU backend has it: weights in units of 1/2048, a
// horizontal pass into integers, a vertical pass with two truncating shifts. A block makes tiles of 64 by 8 pixels: it
// computes the tile's column and row positions once, in f64, resamples into pixel values in shared memory, and writes them
// normalised in the order in which they lie in the tensor.
#include "chain.cuh"
#include "pixels.cuh"
#include "placement.cuh"

constexpr u32 THREADS = 256;
constexpr u32 TILE_COLUMNS = 64;
constexpr u32 TILE_ROWS = 8;
constexpr u32 TILE_VALUES = TILE_COLUMNS * 3;
constexpr float WEIGHT_ONE = 2048.0f;

struct PrepareParams {
    Source source;
    void* output;
    i64 strides[3];  // elements from channel to channel, row to row, column to column
    float mean[3];
    float std[3];
    u32 width;  // of the output
    u32 height;
    u32 first_row;  // of the chunk
    u32 end_row;
    u32 fit;
    u32 fill;
    u32 blue_first;
    u32 channels_last;  // the channels of a pixel lie closest
    u32 tiles;
    u32 tile_columns;  // tiles beside each other
};

static_assert(sizeof(PrepareParams) == 120, "mirrored in bind/vision/picture.rs");

// Two neighbouring source positions and their weights, which sum to 2048.
struct Taps {
    u32 position[2];
    i32 weight[2];
    bool inside;  // of the picture's place in the input
};

// How the picture stands in the input.
struct Shown {
    Picture picture;
    Placement placement;
    double step_x;  // source pixels per input pixel
    double step_y;
};

__device__ Shown look(const PrepareParams& p) {
    Shown shown = {};
    shown.picture = picture_of(p.source);
    if (shown.picture.format == 0) return shown;
    shown.placement = place(p.fit, shown.picture.width, shown.picture.height, p.width, p.height);
    shown.step_x = __ddiv_rn(1.0, __ddiv_rn(shown.placement.width, shown.picture.width));
    shown.step_y = __ddiv_rn(1.0, __ddiv_rn(shown.placement.height, shown.picture.height));
    return shown;
}

// What position i of the scaled picture is blended from; i may lie outside of it. In columns beyond the picture's edge the
// edge has all the weight.
__device__ Taps taps_at(u32 i, u32 start, u32 placed, double step, u32 extent, bool columns) {
    Taps taps = {};
    taps.inside = i >= start && i - start < placed;
    if (!taps.inside) return taps;
    const float position = __double2float_rn(__dsub_rn(__dmul_rn(__dadd_rn(i - start, 0.5), step), 0.5));
    const float floor = floorf(position);
    const float weight = __fsub_rn(position, floor);
    const i64 first = __float2ll_rz(floor);
    const i64 last = i64(extent) - 1;
    taps.position[0] = u32(min(max(first, 0ll), last));
    taps.position[1] = u32(min(max(first + 1, 0ll), last));
    const bool between = first >= 0 && first < last;
    taps.weight[0] = i32(WEIGHT_ONE);
    taps.weight[1] = 0;
    if (between || !columns) {
        taps.weight[0] = __float2int_rn(__fmul_rn(__fsub_rn(1.0f, weight), WEIGHT_ONE));
        taps.weight[1] = __float2int_rn(__fmul_rn(weight, WEIGHT_ONE));
    }
    return taps;
}

// A source row at a column's taps, in units of 1/128.
__device__ __forceinline__ Pixel blend_across(const Picture& picture, const Taps& column, u32 y) {
    const Pixel left = pixel_at(picture, column.position[0], y);
    const Pixel right = pixel_at(picture, column.position[1], y);
    Pixel sum;
    for (u32 c = 0; c < 3; ++c) {
        sum.value[c] = (left.value[c] * column.weight[0] + right.value[c] * column.weight[1]) >> 4;
    }
    return sum;
}

__device__ __forceinline__ u8 blend_down(i32 above, i32 below, const Taps& row) {
    const i32 sum = ((above * row.weight[0]) >> 16) + ((below * row.weight[1]) >> 16);
    return u8(min((sum + 2) >> 2, 255));
}

template <class T>
__device__ __forceinline__ void prepare(const PrepareParams& p) {
    __shared__ Shown shown;
    __shared__ Taps columns[TILE_COLUMNS];
    __shared__ Taps rows[TILE_ROWS];
    __shared__ u8 values[TILE_ROWS][TILE_VALUES];
    if (threadIdx.x == 0) shown = look(p);
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 left = tile % p.tile_columns * TILE_COLUMNS;
        const u32 top = p.first_row + tile / p.tile_columns * TILE_ROWS;
        __syncthreads();
        if (threadIdx.x < TILE_COLUMNS) {
            columns[threadIdx.x] =
                taps_at(left + threadIdx.x, shown.placement.x, shown.placement.width, shown.step_x, shown.picture.width, true);
        } else if (threadIdx.x < TILE_COLUMNS + TILE_ROWS) {
            const u32 row = threadIdx.x - TILE_COLUMNS;
            rows[row] =
                taps_at(top + row, shown.placement.y, shown.placement.height, shown.step_y, shown.picture.height, false);
        }
        __syncthreads();
        const u32 x = threadIdx.x % TILE_COLUMNS;
        const Taps column = columns[x];
        for (u32 y = threadIdx.x / TILE_COLUMNS; y < TILE_ROWS; y += THREADS / TILE_COLUMNS) {
            const Taps row = rows[y];
            u8* value = &values[y][3 * x];
            if (column.inside && row.inside) {
                const Pixel above = blend_across(shown.picture, column, row.position[0]);
                const Pixel below = blend_across(shown.picture, column, row.position[1]);
                for (u32 c = 0; c < 3; ++c) {
                    value[p.blue_first ? 2 - c : c] = blend_down(above.value[c], below.value[c], row);
                }
            } else {
                value[0] = value[1] = value[2] = u8(p.fill);
            }
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < TILE_ROWS * TILE_VALUES; i += THREADS) {
            const u32 row = i / TILE_VALUES;
            const u32 within = i % TILE_VALUES;
            const u32 c = p.channels_last ? within % 3 : within / TILE_COLUMNS;
            const u32 column = p.channels_last ? within / 3 : within % TILE_COLUMNS;
            if (top + row >= p.end_row || left + column >= p.width) continue;
            const float value = float(values[row][3 * column + c]);
            T* to = static_cast<T*>(p.output) + c * p.strides[0] + (top + row) * p.strides[1] + (left + column) * p.strides[2];
            store(to, __fdiv_rn(__fsub_rn(value, p.mean[c]), p.std[c]));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) prepare_f32(const __grid_constant__ PrepareParams p) {
    wait_for_predecessors();
    release_successors();
    prepare<float>(p);
}

extern "C" __global__ void __launch_bounds__(THREADS) prepare_f16(const __grid_constant__ PrepareParams p) {
    wait_for_predecessors();
    release_successors();
    prepare<u16>(p);
}
