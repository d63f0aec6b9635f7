// The k largest of each row, largest first; equal values by lower index, NaN last. A block a row, or a warp one of few elements.
#include "chain.cuh"
#include "matrix.cuh"
#include "select.cuh"

struct TopKParams {
    Matrix<const u8> input;  // of any element type; strides count its elements
    Matrix<u8> values;       // of the same
    Matrix<i32> indices;
    u32 first;  // row of the chunk
    u32 tiles;  // rows of the chunk
};

static_assert(sizeof(TopKParams) == 104, "mirrored in bind/vision/ranks.rs");

constexpr u32 WARPS = 8;         // of a block whose warps have a row each
constexpr u32 LANE_HELD = 4;     // elements of a lane
constexpr u32 BLOCK_HELD = 12;   // of a thread of a block that has a row

struct Half {
    u16 bits;
};

// A number that grows as the value falls.
__device__ __forceinline__ u32 falling_of(float value) {
    return falling(value);
}

__device__ __forceinline__ u32 falling_of(Half value) {
    return falling(half_to_float(value.bits));
}

__device__ __forceinline__ u32 falling_of(i32 value) {
    return ~(u32(value) ^ 1u << 31);
}

__device__ __forceinline__ u32 falling_of(u8 value) {
    return ~u32(value);
}

template <class T>
__device__ __forceinline__ void top_k(const TopKParams& p) {
    __shared__ Selection selection;
    const T* input = reinterpret_cast<const T*>(p.input.data);
    T* values = reinterpret_cast<T*>(p.values.data);
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 row = p.first + tile;
        const auto at = [&](u32 i) { return input[row * p.input.row_stride + i * p.input.column_stride]; };
        // More than one selection holds are found in turns, each from where the last one ended.
        u64 least = 0;
        for (u32 done = 0; done < p.values.columns;) {
            const u32 wanted = min(p.values.columns - done, SELECT_CAPACITY);
            const u32 found = select_smallest<BLOCK_HELD>(selection, p.input.columns, wanted, least,
                                              [&](u32 i) { return key_of(falling_of(at(i)), i); });
            if (found == 0) break;
            for (u32 i = threadIdx.x; i < found; i += SELECT_THREADS) {
                const u32 index = u32(selection.keys[i]);
                values[row * p.values.row_stride + (done + i) * p.values.column_stride] = at(index);
                p.indices.at(row, done + i) = i32(index);
            }
            done += found;
            least = selection.keys[found - 1] + 1;
            __syncthreads();
        }
    }
}

// Rows of at most LANE_HELD elements a lane, of which at most one a lane is kept: a warp takes the best that is left, again and again.
template <class T>
__device__ __forceinline__ void top_k_lanes(const TopKParams& p) {
    const T* input = reinterpret_cast<const T*>(p.input.data);
    T* values = reinterpret_cast<T*>(p.values.data);
    const u32 lane = threadIdx.x % 32, kept = p.values.columns;
    for (u32 tile = blockIdx.x * WARPS + threadIdx.x / 32; tile < p.tiles; tile += gridDim.x * WARPS) {
        const u32 row = p.first + tile;
        const auto at = [&](u32 i) { return input[row * p.input.row_stride + i * p.input.column_stride]; };
        u64 held[LANE_HELD];
#pragma unroll
        for (u32 i = 0; i < LANE_HELD; ++i) {
            const u32 index = i * 32 + lane;
            held[i] = index < p.input.columns ? key_of(falling_of(at(index)), index) : NO_KEY;
        }
        u32 mine = 0;
        for (u32 rank = 0; rank < kept; ++rank) {
            u64 least = held[0];
#pragma unroll
            for (u32 i = 1; i < LANE_HELD; ++i) least = held[i] < least ? held[i] : least;
            const u32 score = __reduce_min_sync(FULL_WARP, u32(least >> 32));
            const u32 index = __reduce_min_sync(FULL_WARP, u32(least >> 32) == score ? u32(least) : ~0u);
            if (lane == rank) mine = index;
#pragma unroll
            for (u32 i = 0; i < LANE_HELD; ++i) {
                if (held[i] == key_of(score, index)) held[i] = NO_KEY;
            }
        }
        if (lane < kept) {
            values[row * p.values.row_stride + lane * p.values.column_stride] = at(mine);
            p.indices.at(row, lane) = i32(mine);
        }
    }
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) topk_f32(const __grid_constant__ TopKParams p) {
    wait_for_predecessors();
    release_successors();
    top_k<float>(p);
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) topk_f16(const __grid_constant__ TopKParams p) {
    wait_for_predecessors();
    release_successors();
    top_k<Half>(p);
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) topk_i32(const __grid_constant__ TopKParams p) {
    wait_for_predecessors();
    release_successors();
    top_k<i32>(p);
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) topk_u8(const __grid_constant__ TopKParams p) {
    wait_for_predecessors();
    release_successors();
    top_k<u8>(p);
}

#define TOP_K_LANES(NAME, T)                                                                              \
    extern "C" __global__ void __launch_bounds__(WARPS * 32) NAME(const __grid_constant__ TopKParams p) { \
        wait_for_predecessors();                                                                          \
        release_successors();                                                                             \
        top_k_lanes<T>(p);                                                                                \
    }

TOP_K_LANES(topk_lanes_f32, float)
TOP_K_LANES(topk_lanes_f16, Half)
TOP_K_LANES(topk_lanes_i32, i32)
TOP_K_LANES(topk_lanes_u8, u8)
