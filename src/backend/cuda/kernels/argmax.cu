// The index of the largest element along an axis: label maps. The first of equals wins; nothing wins over another but by being
// greater, so NaN never does, and the index is 0 where no element is above the type's lowest.
//
// argmax_* takes any rank, axis and layout, a thread a result. argmax_pixels_* takes floats that lie pixel after pixel along
// the last axis: a block brings the pixels of a tile into shared memory in the order in which they lie, then a thread walks a
// pixel.
#include "chain.cuh"
#include "types.cuh"

constexpr u32 THREADS = 128;
constexpr u32 MAX_RANK = 6;

struct ArgMaxParams {
    const void* input;
    void* output;
    i64 input_strides[MAX_RANK];
    i64 output_strides[MAX_RANK];
    i64 step;             // elements between neighbours along the axis
    u32 start[MAX_RANK];  // of the chunk, in the output
    u32 size[MAX_RANK];   // of the chunk; 1 on missing axes
    u32 extent;           // of the axis
    u32 total;            // results of the chunk
    u32 tiles;
    u32 tile_runs;  // argmax_pixels: tiles along the last axis
    u32 tile_pixels;  // argmax_pixels: pixels of a tile, at most THREADS
    u32 padding;
};

static_assert(sizeof(ArgMaxParams) == 192, "mirrored in bind/vision/ranks.rs");

struct Half {
    u16 bits;
};

__device__ __forceinline__ float value_of(float value) {
    return value;
}

__device__ __forceinline__ float value_of(Half value) {
    return half_to_float(value.bits);
}

__device__ __forceinline__ i32 value_of(i32 value) {
    return value;
}

__device__ __forceinline__ i32 value_of(u8 value) {
    return value;
}

__device__ __forceinline__ float lowest(float) {
    return __int_as_float(0xff800000);
}

__device__ __forceinline__ i32 lowest(i32) {
    return i32(0x80000000);
}

// The index of the first of `extent` elements, `step` apart, that none exceeds.
template <class T>
__device__ __forceinline__ u32 first_greatest(const T* from, i64 step, u32 extent) {
    u32 best = 0;
    auto most = lowest(value_of(T{}));
    for (u32 i = 0; i < extent; ++i) {
        const auto value = value_of(from[i * step]);
        if (value > most) {
            most = value;
            best = i;
        }
    }
    return best;
}

// Where an output position's axis begins in the input, and where its result goes.
struct Place {
    i64 from;
    i64 to;
};

// The place of position `linear` of the first `rank` axes of the chunk, at the start of the others.
__device__ __forceinline__ Place place_of(const ArgMaxParams& p, u32 linear, u32 rank) {
    Place place = {0, 0};
#pragma unroll
    for (u32 axis = MAX_RANK; axis-- > 0;) {
        u32 index = p.start[axis];
        if (axis < rank) {
            index += linear % p.size[axis];
            linear /= p.size[axis];
        }
        place.from += index * p.input_strides[axis];
        place.to += index * p.output_strides[axis];
    }
    return place;
}

template <class T, class R>
__device__ __forceinline__ void argmax(const ArgMaxParams& p) {
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u64 linear = u64(tile) * THREADS + threadIdx.x;
        if (linear >= p.total) continue;
        const Place place = place_of(p, u32(linear), MAX_RANK);
        static_cast<R*>(p.output)[place.to] = R(first_greatest(static_cast<const T*>(p.input) + place.from, p.step, p.extent));
    }
}

template <class T, class R>
__device__ __forceinline__ void argmax_pixels(const ArgMaxParams& p) {
    extern __shared__ u32 staged[];
    T* values = reinterpret_cast<T*>(staged);
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 first = tile % p.tile_runs * p.tile_pixels;
        const u32 pixels = min(p.size[MAX_RANK - 1] - first, p.tile_pixels);
        const Place place = place_of(p, tile / p.tile_runs, MAX_RANK - 1);
        const T* from = static_cast<const T*>(p.input) + place.from + first * p.input_strides[MAX_RANK - 1];
        const u32 count = pixels * p.extent;
#pragma unroll 4
        for (u32 i = threadIdx.x; i < count; i += THREADS) values[i] = from[i];
        __syncthreads();
        if (threadIdx.x < pixels) {
            R* to = static_cast<R*>(p.output) + place.to + (first + threadIdx.x) * p.output_strides[MAX_RANK - 1];
            *to = R(first_greatest(values + threadIdx.x * p.extent, 1, p.extent));
        }
        __syncthreads();
    }
}

#define ARGMAX(kernel, input, output)                                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS) kernel(const __grid_constant__ ArgMaxParams p) {        \
        wait_for_predecessors();                                                                                  \
        release_successors();                                                                                     \
        argmax<input, output>(p);                                                                                 \
    }
#define ARGMAX_PIXELS(kernel, input, output)                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS) kernel(const __grid_constant__ ArgMaxParams p) {        \
        wait_for_predecessors();                                                                                  \
        release_successors();                                                                                     \
        argmax_pixels<input, output>(p);                                                                          \
    }

ARGMAX(argmax_f32_u8, float, u8)
ARGMAX(argmax_f32_i32, float, i32)
ARGMAX(argmax_f16_u8, Half, u8)
ARGMAX(argmax_f16_i32, Half, i32)
ARGMAX(argmax_i32_u8, i32, u8)
ARGMAX(argmax_i32_i32, i32, i32)
ARGMAX(argmax_u8_u8, u8, u8)
ARGMAX(argmax_u8_i32, u8, i32)
ARGMAX_PIXELS(argmax_pixels_f32_u8, float, u8)
ARGMAX_PIXELS(argmax_pixels_f32_i32, float, i32)
ARGMAX_PIXELS(argmax_pixels_f16_u8, Half, u8)
ARGMAX_PIXELS(argmax_pixels_f16_i32, Half, i32)
