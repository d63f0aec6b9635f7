// Resizing of f16 between two taps along either axis, for any number of channels: the halves of resize.cu, of a piece of an
// output row at a time, stored as whole lines.
//
// A block keeps the input pixels under its piece in shared memory, as f32, channel by channel, the row above beside the row
// below. A thread makes four neighbouring outputs, channel after channel. Channels that lie side by side are put together in
// shared memory and stored 16 bytes at a time; planes, of halves or of f32 rounded to them, are stored as they come.
#include "chain.cuh"
#include "groups.cuh"
#include "parameters.cuh"

constexpr u32 THREADS = 256;
constexpr u32 RUN = 4;                           // outputs of a thread
constexpr u32 SHARES = 2;                        // threads that share the channels of four outputs
constexpr u32 PIECE = 512;                       // outputs of a block
constexpr u32 AT_ONCE = 8;                       // loads of a thread that are under way together

static_assert(PIECE == THREADS / SHARES * RUN, "each thread has its run");

struct ResizeTap {
    i32 position;  // -1 for an output outside a cropped input
    float weight;
};

struct ResizeRows {
    u64 x;            // element [0, 0, 0, 0]
    u64 y;
    i64 x_batch;      // strides in elements; channels lie side by side
    i64 x_row;
    i64 x_pixel;
    i64 y_batch;
    i64 y_row;
    i64 y_channel;    // of planes; pixels of a row lie side by side, with 1 or all channels
    u64 rows;         // two taps of each output row
    u64 columns;
    Divisor height;   // output rows of the chunk
    Divisor pieces;   // of a row
    Divisor depth;    // channels
    u32 first_batch;
    u32 first_row;
    u32 width;        // outputs of a row
    u32 room;         // input pixels of a row that shared memory has room for
    u32 count;        // pieces of all rows
    float outside;
    u32 padding;
};

static_assert(sizeof(ResizeRows) == 144, "mirrored in bind/resize_rows.rs");

// Four neighbours of a plane; `to` lies on them all.
__device__ __forceinline__ void store_four(float* to, const float (&v)[RUN]) { *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]); }

__device__ __forceinline__ void store_four(u16* to, const float (&v)[RUN]) {
    *reinterpret_cast<uint2*>(to) = make_uint2(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]));
}

__device__ __forceinline__ void store_one(float* to, float v) { *to = v; }
__device__ __forceinline__ void store_one(u16* to, float v) { *to = float_to_half(v); }

// Stores T: of planes, or halves of channels side by side.
template <typename T, bool PLANES>
__device__ __forceinline__ void resize_pieces(const ResizeRows& p) {
    extern __shared__ __align__(16) u8 memory[];
    float2* const pixels = reinterpret_cast<float2*>(memory);
    const u32 channels = p.depth.divisor;
    u8* const made = memory + (channels * p.room * sizeof(float2) + 15) / 16 * 16;
    __shared__ i32 nearest, farthest;  // columns
    const u32 share = threadIdx.x / (THREADS / SHARES), place = threadIdx.x % (THREADS / SHARES);
    for (u32 index = blockIdx.x; index < p.count; index += gridDim.x) {
        const u32 line = divide(index, p.pieces), first = (index - line * p.pieces.divisor) * PIECE;
        const u32 sample = divide(line, p.height), row = p.first_row + line - sample * p.height.divisor, batch = p.first_batch + sample;
        const u32 outputs = min(PIECE, p.width - first), mine = place * RUN;
        const ResizeTap* down = pointer_to<ResizeTap>(p.rows, static_cast<i64>(row) * 2);
        const ResizeTap above = down[0], below = down[1];
        if (threadIdx.x == 0) nearest = 0x7fffffff, farthest = -1;
        __syncthreads();
        i32 columns[RUN][2];
        float weights[RUN][4];
        i32 low = 0x7fffffff, high = -1;
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            const uint4 both = reinterpret_cast<const uint4*>(p.columns)[first + min(mine + o, outputs - 1)];
            const float2 across = make_float2(__uint_as_float(both.y), __uint_as_float(both.w));
            const bool inside = static_cast<i32>(both.x) >= 0;
            columns[o][0] = static_cast<i32>(both.x), columns[o][1] = static_cast<i32>(both.z);
            weights[o][0] = __fmul_rn(above.weight, across.x), weights[o][1] = __fmul_rn(above.weight, across.y);
            weights[o][2] = __fmul_rn(below.weight, across.x), weights[o][3] = __fmul_rn(below.weight, across.y);
            if (inside) low = min(low, min(columns[o][0], columns[o][1])), high = max(high, max(columns[o][0], columns[o][1]));
        }
        low = __reduce_min_sync(0xffffffff, low), high = __reduce_max_sync(0xffffffff, high);
        if (threadIdx.x % 32 == 0) atomicMin(&nearest, low), atomicMax(&farthest, high);
        __syncthreads();
        const bool empty = above.position < 0 || farthest < 0;
        const i32 begin = nearest;
        if (!empty) {
            const u32 reach = static_cast<u32>(farthest - begin) + 1;
            const i64 from = batch * p.x_batch + begin * p.x_pixel;
            const u16* upper = pointer_to<u16>(p.x, from + above.position * p.x_row);
            const u16* lower = pointer_to<u16>(p.x, from + below.position * p.x_row);
            const u32 count = reach * channels;
#pragma unroll 1
            for (u32 i = threadIdx.x; i < count; i += AT_ONCE * THREADS) {
                u16 loaded[AT_ONCE][2];
                u32 places[AT_ONCE];
#pragma unroll
                for (u32 k = 0; k < AT_ONCE; ++k) {
                    const u32 one = min(i + k * THREADS, count - 1), column = divide(one, p.depth), channel = one - column * channels;
                    const i64 at = column * p.x_pixel + channel;
                    loaded[k][0] = upper[at], loaded[k][1] = lower[at];
                    places[k] = channel * p.room + column;
                }
#pragma unroll
                for (u32 k = 0; k < AT_ONCE; ++k) pixels[places[k]] = make_float2(half_to_float(loaded[k][0]), half_to_float(loaded[k][1]));
            }
        }
        __syncthreads();
        bool alike = !empty;
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) alike &= columns[o][0] == columns[0][0] && columns[o][1] == columns[0][1] && columns[0][0] >= 0;
        // Most warps have all outputs of a thread between the same pixels.
        alike = __all_sync(0xffffffff, alike);
        const i64 to = batch * p.y_batch + row * p.y_row;
        const u32 shift = PLANES ? 0 : static_cast<u32>(p.y + (to + first * channels) * 2) % 16;
        const bool aligned = (p.y + (to + first + mine) * sizeof(T)) % (RUN * sizeof(T)) == 0 && p.y_channel % RUN == 0;
        const bool whole = mine + RUN <= outputs && aligned;
        const auto put = [&](u32 channel, const float (&v)[RUN]) {
            if constexpr (PLANES) {
                T* out = reinterpret_cast<T*>(p.y) + to + channel * p.y_channel + first + mine;
                float r[RUN];
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) r[o] = rounded_to_half(v[o]);
                if (whole) {
                    store_four(out, r);
                    return;
                }
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) {
                    if (mine + o < outputs) store_one(out + o, r[o]);
                }
            } else {
                u16* out = reinterpret_cast<u16*>(made + shift) + mine * channels + channel;
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) {
                    if (mine + o < outputs) out[o * channels] = float_to_half(v[o]);
                }
            }
        };
        const auto between = [&](u32 o, float2 left, float2 right) {
            float v = __fmul_rn(weights[o][0], left.x);
            v = __fmaf_rn(weights[o][1], right.x, v);
            v = __fmaf_rn(weights[o][2], left.y, v);
            return __fmaf_rn(weights[o][3], right.y, v);
        };
        if (mine < outputs && alike) {
            const float2* left = pixels + share * p.room + (columns[0][0] - begin);
            const u32 apart = columns[0][1] - columns[0][0];
#pragma unroll 2
            for (u32 channel = share; channel < channels; channel += SHARES, left += SHARES * p.room) {
                const float2 a = left[0], b = left[apart];
                float v[RUN];
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) v[o] = between(o, a, b);
                put(channel, v);
            }
        } else if (mine < outputs) {
            for (u32 channel = share; channel < channels; channel += SHARES) {
                const float2* plane = pixels + channel * p.room;
                float v[RUN];
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) {
                    const bool inside = !empty && columns[o][0] >= 0;
                    v[o] = inside ? between(o, plane[columns[o][0] - begin], plane[columns[o][1] - begin]) : p.outside;
                }
                put(channel, v);
            }
        }
        __syncthreads();
        if constexpr (!PLANES) {
            // Pieces of 16 bytes that memory has whole; at the ends single halves.
            const u32 halves = outputs * channels, skipped = shift / 2;
            u16* const out = reinterpret_cast<u16*>(p.y) + to + first * channels - skipped;
            const u16* const line = reinterpret_cast<const u16*>(made);
            for (u32 i = threadIdx.x * 8; i < skipped + halves; i += THREADS * 8) {
                if (i >= skipped && i + 8 <= skipped + halves) {
                    *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(line + i);
                } else {
                    for (u32 k = max(i, skipped); k < min(i + 8, skipped + halves); ++k) out[k] = line[k];
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) resize_rows(const __grid_constant__ ResizeRows p) {
    bring_more(p, 0, sizeof(p));
    wait_for_predecessors();
    release_successors();
    resize_pieces<u16, false>(p);
}

extern "C" __global__ void __launch_bounds__(THREADS) resize_planes(const __grid_constant__ ResizeRows p) {
    bring_more(p, 0, sizeof(p));
    wait_for_predecessors();
    release_successors();
    resize_pieces<float, true>(p);
}

extern "C" __global__ void __launch_bounds__(THREADS) resize_half_planes(const __grid_constant__ ResizeRows p) {
    bring_more(p, 0, sizeof(p));
    wait_for_predecessors();
    release_successors();
    resize_pieces<u16, true>(p);
}
