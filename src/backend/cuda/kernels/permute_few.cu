// Copies of halves from pixels of up to eight channels, which lie side by side, into planes of halves or floats.
//
// A thread has a pixel, all its channels in one load where they lie so, and further ones a block of threads behind each other:
// neighbouring threads read neighbouring pixels and write neighbours of each plane. Whatever lies between the channels of one pixel and
// the next pixel is not copied, but may be loaded.
#include "chain.cuh"
#include "divide.cuh"
#include "parameters.cuh"
#include "view.cuh"

constexpr u32 THREADS = 128;
constexpr u32 PIXELS = 4;              // of a thread, all under way at once
constexpr u32 OTHERS = MAX_RANK - 2;

struct PermuteFew {
    u64 x;
    u64 y;
    i64 x_pixel;         // strides in elements
    i64 y_plane;
    i64 x_others[OTHERS];
    i64 y_others[OTHERS];
    Divisor across;      // pixels that are side by side in the planes
    Divisor others[OTHERS];
    u32 used;            // other axes
    u32 count;           // pixels
    u32 whole;           // a pixel is one load
};

static_assert(sizeof(PermuteFew) == 32 + 64 + 12 + 48 + 12, "mirrored in bind/permute_few.rs");

// Halves of one load of CHANNELS.
template <u32 CHANNELS>
constexpr u32 LOADED = CHANNELS > 4 ? 8 : CHANNELS > 2 ? 4 : CHANNELS;

template <u32 CHANNELS>
__device__ __forceinline__ void load_whole(const u16* from, u16 (&v)[CHANNELS]) {
    constexpr u32 N = LOADED<CHANNELS>;
    u32 words[4] = {};
    if constexpr (N == 1) {
        words[0] = *from;
    } else if constexpr (N == 2) {
        words[0] = *reinterpret_cast<const u32*>(from);
    } else if constexpr (N == 4) {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        words[0] = two.x, words[1] = two.y;
    } else {
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    }
#pragma unroll
    for (u32 i = 0; i < CHANNELS; ++i) v[i] = static_cast<u16>(words[i / 2] >> i % 2 * 16);
}

__device__ __forceinline__ void put(float* to, u16 bits) { *to = half_to_float(bits); }
__device__ __forceinline__ void put(u16* to, u16 bits) { *to = bits; }

// WHOLE: one load a pixel.
template <u32 CHANNELS, bool WHOLE, typename To>
__device__ __forceinline__ void permute_pixels(const PermuteFew& p) {
    for (u32 first = blockIdx.x * THREADS * PIXELS + threadIdx.x; first < p.count; first += gridDim.x * THREADS * PIXELS) {
        u16 v[PIXELS][CHANNELS];
        To* to[PIXELS];
#pragma unroll
        for (u32 k = 0; k < PIXELS; ++k) {
            const u32 index = min(first + k * THREADS, p.count - 1);
            u32 rest = divide(index, p.across);
            const u32 pixel = index - rest * p.across.divisor;
            i64 source = pixel * p.x_pixel, target = pixel;
#pragma unroll 1
            for (u32 axis = 0; axis < p.used; ++axis) {
                const u32 above = divide(rest, p.others[axis]), at = rest - above * p.others[axis].divisor;
                source += at * p.x_others[axis], target += at * p.y_others[axis];
                rest = above;
            }
            const u16* const from = pointer_to<u16>(p.x, source);
            to[k] = reinterpret_cast<To*>(p.y) + target;
            if constexpr (WHOLE) {
                load_whole(from, v[k]);
            } else {
#pragma unroll
                for (u32 i = 0; i < CHANNELS; ++i) v[k][i] = from[i];
            }
        }
#pragma unroll
        for (u32 k = 0; k < PIXELS; ++k) {
            if (first + k * THREADS >= p.count) break;
#pragma unroll
            for (u32 i = 0; i < CHANNELS; ++i) put(to[k] + i * p.y_plane, v[k][i]);
        }
    }
}

template <u32 CHANNELS, typename To>
__device__ __forceinline__ void permute_few(const PermuteFew& p) {
    bring_more(p, 0, sizeof(p));
    wait_for_predecessors();
    release_successors();
    if (p.whole) {
        permute_pixels<CHANNELS, true, To>(p);
    } else {
        permute_pixels<CHANNELS, false, To>(p);
    }
}

#define PERMUTE(NAME, CHANNELS, TO) \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ PermuteFew p) { permute_few<CHANNELS, TO>(p); }

PERMUTE(permute_few_1_floats, 1, float)
PERMUTE(permute_few_2_floats, 2, float)
PERMUTE(permute_few_3_floats, 3, float)
PERMUTE(permute_few_4_floats, 4, float)
PERMUTE(permute_few_5_floats, 5, float)
PERMUTE(permute_few_6_floats, 6, float)
PERMUTE(permute_few_7_floats, 7, float)
PERMUTE(permute_few_8_floats, 8, float)
PERMUTE(permute_few_1_halves, 1, u16)
PERMUTE(permute_few_2_halves, 2, u16)
PERMUTE(permute_few_3_halves, 3, u16)
PERMUTE(permute_few_4_halves, 4, u16)
PERMUTE(permute_few_5_halves, 5, u16)
PERMUTE(permute_few_6_halves, 6, u16)
PERMUTE(permute_few_7_halves, 7, u16)
