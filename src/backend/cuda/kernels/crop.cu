// Crops of detections: the best boxes of a picture, each resampled to one size. The rules are those of the host's
// primitive::Crop, in f32 with each operation rounded on its own.
//
// crop_choose, one block, says which detection each crop shows; crop_cut_* resamples, one thread a pixel.
#include "chain.cuh"
#include "matrix.cuh"
#include "pixels.cuh"
#include "select.cuh"

constexpr u32 PIXELS = 256;
constexpr u32 VALUES = 6;
constexpr u32 SCORE = 4;
constexpr u32 CLASS = 5;
// The row of a crop that shows nothing.
constexpr i32 EMPTY = -1;
// Box edges are clamped to this range, so that whatever is computed from them is finite.
constexpr float LOWEST_EDGE = -16384.0f;
constexpr float HIGHEST_EDGE = 32768.0f;

struct CropParams {
    Source source;
    Matrix<const float> detections;
    const i32* count;
    i32* shown;  // the row that each crop shows
    i64 shown_stride;
    void* crops;
    i64 strides[4];  // elements from crop to crop, channel to channel, row to row, column to column
    u64 classes;     // bit set
    float mean[3];
    float std[3];
    float margin;
    u32 width;  // of a crop
    u32 height;
    u32 first;  // crop of the chunk
    u32 end;
    u32 blue_first;
    u32 tiles;
    u32 tiles_each;  // of a crop
};

static_assert(sizeof(CropParams) == 184, "mirrored in bind/vision/picture.rs");

// True for the number of a class that is cut out.
__device__ __forceinline__ bool takes(u64 classes, float number) {
    return number >= 0.0f && number < 64.0f && truncf(number) == number && (classes >> u32(number) & 1) != 0;
}

__device__ __forceinline__ bool is_finite(float value) {
    return fabsf(value) < __int_as_float(0x7f800000);
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) crop_choose(const __grid_constant__ CropParams p) {
    wait_for_predecessors();
    release_successors();
    __shared__ Selection selection;
    u32 rows = 0;
    if (picture_of(p.source).format != 0) rows = min(u32(max(*p.count, 0)), p.detections.rows);
    const u32 found = select_smallest(selection, rows, min(p.end, SELECT_CAPACITY), 0, [&](u32 row) {
        bool candidate = takes(p.classes, p.detections.at(row, CLASS));
        for (u32 i = 0; i < VALUES; ++i) candidate = candidate && is_finite(p.detections.at(row, i));
        return candidate ? key_of(falling(p.detections.at(row, SCORE)), row) : NO_KEY;
    });
    for (u32 crop = p.first + threadIdx.x; crop < p.end; crop += SELECT_THREADS) {
        p.shown[crop * p.shown_stride] = crop < found ? i32(u32(selection.keys[crop])) : EMPTY;
    }
}

// Two source positions, and the weight of the second.
struct Taps {
    u32 position[2];
    float weight;
};

// What position i of `extent` is blended from, for a box from `low` to `high` in a picture of `picture` positions.
__device__ __forceinline__ Taps taps_at(u32 i, u32 extent, float low, float high, float margin, u32 picture) {
    const float size = fmaxf(__fsub_rn(high, low), 0.0f);
    const float beside = __fmul_rn(margin, size);
    const float start = __fsub_rn(low, beside);
    const float step = __fdiv_rn(__fadd_rn(size, __fmul_rn(2.0f, beside)), __uint2float_rn(extent));
    const float middle = __fadd_rn(__uint2float_rn(i), 0.5f);
    const float at = __fsub_rn(__fadd_rn(start, __fmul_rn(middle, step)), 0.5f);
    const float first = floorf(at);
    const float last = __uint2float_rn(picture - 1);
    Taps taps;
    for (u32 tap = 0; tap < 2; ++tap) {
        const float position = fminf(fmaxf(__fadd_rn(first, float(tap)), 0.0f), last);
        taps.position[tap] = min(__float2uint_rz(position), picture - 1);
    }
    taps.weight = __fsub_rn(at, first);
    return taps;
}

__device__ __forceinline__ float blend(float a, float b, float weight) {
    return __fadd_rn(a, __fmul_rn(__fsub_rn(b, a), weight));
}

__device__ __forceinline__ float edge(float value) {
    return fminf(fmaxf(value, LOWEST_EDGE), HIGHEST_EDGE);
}

template <class T>
__device__ __forceinline__ void cut(const CropParams& p) {
    const Picture picture = picture_of(p.source);
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 crop = p.first + tile / p.tiles_each;
        const u32 pixel = tile % p.tiles_each * PIXELS + threadIdx.x;
        if (pixel >= p.width * p.height) continue;
        const u32 y = pixel / p.width;
        const u32 x = pixel % p.width;
        const i32 row = p.shown[crop * p.shown_stride];
        float value[3] = {0.0f, 0.0f, 0.0f};  // red, green, blue
        if (row >= 0 && u32(row) < p.detections.rows && picture.format != 0) {
            float bounds[4];
            for (u32 i = 0; i < 4; ++i) bounds[i] = edge(p.detections.at(u32(row), i));
            const Taps across = taps_at(x, p.width, bounds[0], bounds[2], p.margin, picture.width);
            const Taps down = taps_at(y, p.height, bounds[1], bounds[3], p.margin, picture.height);
            const Pixel upper_left = pixel_at(picture, across.position[0], down.position[0]);
            const Pixel upper_right = pixel_at(picture, across.position[1], down.position[0]);
            const Pixel lower_left = pixel_at(picture, across.position[0], down.position[1]);
            const Pixel lower_right = pixel_at(picture, across.position[1], down.position[1]);
            for (u32 c = 0; c < 3; ++c) {
                const float above = blend(float(upper_left.value[c]), float(upper_right.value[c]), across.weight);
                const float below = blend(float(lower_left.value[c]), float(lower_right.value[c]), across.weight);
                const u32 channel = p.blue_first ? 2 - c : c;
                value[c] = __fdiv_rn(__fsub_rn(blend(above, below, down.weight), p.mean[channel]), p.std[channel]);
            }
        }
        T* to = static_cast<T*>(p.crops) + crop * p.strides[0] + y * p.strides[2] + x * p.strides[3];
        for (u32 c = 0; c < 3; ++c) store(to + (p.blue_first ? 2 - c : c) * p.strides[1], value[c]);
    }
}

extern "C" __global__ void __launch_bounds__(PIXELS) crop_cut_f32(const __grid_constant__ CropParams p) {
    wait_for_predecessors();
    release_successors();
    cut<float>(p);
}

extern "C" __global__ void __launch_bounds__(PIXELS) crop_cut_f16(const __grid_constant__ CropParams p) {
    wait_for_predecessors();
    release_successors();
    cut<u16>(p);
}
