// Squeeze and excitation (Hu et al. 2018) in one launch: the mean of every channel, two fully connected layers of the means,
// a function behind each. All values between are rounded to halves.
//
// Every sum has one order, fixed by the shape. The channels are cut into RANGES ranges. Of a range's pixels, a thread takes
// every S-th, where S threads stand side by side; sums of a warp's threads are added pair by pair, then the warps' in order.
// The first layer sums each range's channels on its own (a lane eight of them, lanes pair by pair), then the ranges in
// order; of the second layer, each of four lanes takes every fourth piece of eight inputs. The bias comes last.
//
// `squeeze_cluster`: the blocks of a cluster take a range each, and meet once, between the layers. Both layers' weights are
// in registers before the pixels are there. `squeeze_alone`: one block does everything. Both give the same bits.
#include "divide.cuh"
#include "hopper.cuh"
#include "tail.cuh"

constexpr u32 SQUEEZE_THREADS = 512;
constexpr u32 SQUEEZE_WARPS = SQUEEZE_THREADS / 32;
constexpr u32 RANGES = 8;       // of channels; blocks of a cluster
constexpr u32 PIECE = 8;        // channels that a lane reads at once
constexpr u32 MAX_SHARE = 128;  // channels of a range: a RANGES-th of the most that plan/tactic/squeeze.rs allows
constexpr u32 MAX_HIDDEN = 512;
constexpr u32 IN_FLIGHT = 8;    // pixels that a thread loads before it adds the first
constexpr u32 FIRST_LANES = MAX_SHARE / PIECE;                           // that share an output of the first layer
constexpr u32 FIRST_OUTPUTS = SQUEEZE_THREADS / FIRST_LANES;             // of the block at once
constexpr u32 SECOND_LANES = SQUEEZE_THREADS / MAX_SHARE;                // that share an output of the second
constexpr u32 FIRST_ROUNDS = MAX_HIDDEN / FIRST_OUTPUTS;
constexpr u32 SECOND_ROUNDS = MAX_HIDDEN / (SECOND_LANES * PIECE);
constexpr u32 HELD = 8;         // rounds of each layer whose weights wait in registers

struct SqueezeLayer {
    u64 weights;  // packed: [outputs][inputs rounded up to PIECE], halves
    u64 bias;     // packed: f32
    u32 function;
    float first;
    float second;
    u32 padding;
};

struct Squeeze {
    View y;  // [N, C, 1, 1]
    View x;  // [N, C, H, W]
    SqueezeLayer layers[2];
    u32 channels;
    u32 hidden;
    u32 pixels;       // of a sample
    u32 share;        // channels of a range, a multiple of PIECE
    Divisor width;    // of the input
    u32 first_batch;  // of the chunk
    u32 samples;
    u32 padding;
};

static_assert(sizeof(SqueezeLayer) == 32 && sizeof(Squeeze) == 2 * 88 + 2 * 32 + 40, "mirrored in bind/squeeze.rs");

struct SqueezeShared {
    float sums[SQUEEZE_WARPS][MAX_SHARE];
    float means[MAX_SHARE];                  // of the range
    float parts[2][RANGES][MAX_HIDDEN];      // the first layer by ranges, of this sample and the next
    float hidden[MAX_HIDDEN];
};

__device__ __forceinline__ u32 in_pieces(u32 count) { return (count + PIECE - 1) / PIECE; }

// A range of channels.
struct Range {
    u32 first;  // channel
    u32 count;  // of channels; 0 for ranges behind the last channel

    __device__ __forceinline__ Range(const Squeeze& p, u32 number)
        : first(number * p.share), count(p.channels > first ? min(p.channels - first, p.share) : 0) {}
};

// The eight channels from `channel` on of a pixel; zeros behind the last of `count`.
__device__ __forceinline__ uint4 load_channels(u64 address, i64 step, bool whole, u32 count) {
    if (whole) return *reinterpret_cast<const uint4*>(address);
    const u16* from = reinterpret_cast<const u16*>(address);
    u32 halves[PIECE];
#pragma unroll
    for (u32 k = 0; k < PIECE; ++k) halves[k] = k < count ? from[k * step] : 0;
    return make_uint4(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16, halves[4] | halves[5] << 16, halves[6] | halves[7] << 16);
}

// The rounded means of a range's channels, into `means`.
__device__ __forceinline__ void average(const Squeeze& p, SqueezeShared& s, u32 batch, const Range& range) {
    const u32 groups = in_pieces(range.count), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Lanes side by side take the groups of a pixel, as many as the next power of two.
    const u32 log = groups > 1 ? 32 - __clz(groups - 1) : 0, lanes = 1u << log, slots = SQUEEZE_THREADS >> log;
    const u32 group = threadIdx.x & (lanes - 1), slot = threadIdx.x >> log;
    const i64* strides = p.x.strides;
    const u64 base = p.x.address + 2 * static_cast<u64>(batch * strides[0] + (range.first + group * PIECE) * strides[1]);
    const bool whole = strides[1] == 1 && p.channels % PIECE == 0 && p.x.address % 16 == 0 &&
                       (strides[0] | strides[2] | strides[3]) % PIECE == 0;
    const bool flat = strides[2] == p.width.divisor * strides[3];
    const u32 left = range.count - min(range.count, group * PIECE), count = left < PIECE ? left : PIECE;
    float sums[PIECE] = {};
    for (u32 begin = 0; begin < p.pixels; begin += slots * IN_FLIGHT) {
        uint4 bits[IN_FLIGHT];
#pragma unroll
        for (u32 j = 0; j < IN_FLIGHT; ++j) {
            bits[j] = make_uint4(0, 0, 0, 0);
            if (begin + j * slots >= p.pixels) continue;
            const u32 pixel = begin + j * slots + slot, row = flat ? 0 : divide(pixel, p.width);
            const i64 element = row * strides[2] + (pixel - row * p.width.divisor) * strides[3];
            if (pixel < p.pixels && count > 0) bits[j] = load_channels(base + 2 * element, strides[1], whole, count);
        }
#pragma unroll
        for (u32 j = 0; j < IN_FLIGHT; ++j) {
            if (begin + j * slots >= p.pixels) continue;
            float x[PIECE];
            widen(bits[j], x);
#pragma unroll
            for (u32 k = 0; k < PIECE; ++k) sums[k] = __fadd_rn(sums[k], x[k]);
        }
    }
    for (u32 apart = lanes; apart < 32; apart *= 2) {
#pragma unroll
        for (u32 k = 0; k < PIECE; ++k) sums[k] = __fadd_rn(sums[k], __shfl_xor_sync(0xffffffffu, sums[k], apart));
    }
    if (lane < lanes) {
        float4* to = reinterpret_cast<float4*>(s.sums[warp] + group * PIECE);
        to[0] = make_float4(sums[0], sums[1], sums[2], sums[3]);
        to[1] = make_float4(sums[4], sums[5], sums[6], sums[7]);
    }
    __syncthreads();
    if (threadIdx.x < groups * PIECE) {
        float total = s.sums[0][threadIdx.x];
#pragma unroll
        for (u32 other = 1; other < SQUEEZE_WARPS; ++other) total = __fadd_rn(total, s.sums[other][threadIdx.x]);
        s.means[threadIdx.x] = rounded_to_half(__fdiv_rn(total, static_cast<float>(p.pixels)));
    }
    __syncthreads();
}

// Eight weights of the first layer for this lane in a round; zeros where there is nothing to do.
__device__ __forceinline__ uint4 first_weights(const Squeeze& p, const Range& range, u32 round) {
    const u32 unit = round * FIRST_OUTPUTS + threadIdx.x / FIRST_LANES, piece = threadIdx.x % FIRST_LANES;
    if (unit >= p.hidden || piece * PIECE >= range.count) return make_uint4(0, 0, 0, 0);
    const u32 at = unit * in_pieces(p.channels) + range.first / PIECE + piece;
    return reinterpret_cast<const uint4*>(p.layers[0].weights)[at];
}

// The same of the second layer.
__device__ __forceinline__ uint4 second_weights(const Squeeze& p, const Range& range, u32 round) {
    const u32 output = threadIdx.x / SECOND_LANES, piece = round * SECOND_LANES + threadIdx.x % SECOND_LANES;
    if (output >= range.count || piece >= in_pieces(p.hidden)) return make_uint4(0, 0, 0, 0);
    return reinterpret_cast<const uint4*>(p.layers[1].weights)[(range.first + output) * in_pieces(p.hidden) + piece];
}

__device__ __forceinline__ float add_products(float sum, uint4 weights, const float* inputs) {
    float w[PIECE];
    widen(weights, w);
    const float4 low = reinterpret_cast<const float4*>(inputs)[0], high = reinterpret_cast<const float4*>(inputs)[1];
    const float x[PIECE] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (u32 k = 0; k < PIECE; ++k) sum = __fmaf_rn(x[k], w[k], sum);
    return sum;
}

template <u32 LANES>
__device__ __forceinline__ float over_lanes(float sum) {
#pragma unroll
    for (u32 apart = LANES / 2; apart > 0; apart /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, apart));
    return sum;
}

// Bias and function of a layer.
__device__ __forceinline__ float finished(const SqueezeLayer& layer, float bias, float sum) {
    TailCall call;
    call.function = layer.function, call.first = layer.first, call.second = layer.second;
    float v[1] = {rounded_to_half(__fadd_rn(sum, bias))};
    tail_unary(call, v);
    return rounded_to_half(v[0]);
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void store_remote(u32 address, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// The two halves of a meeting: other work fits between them.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
#endif

// The first layer's part of a range, to all who need it.
template <bool CLUSTER>
__device__ __forceinline__ void first_layer(const Squeeze& p, SqueezeShared& s, u32 number, const Range& range, u32 parity, const uint4 (&held)[HELD]) {
    const u32 lane = threadIdx.x % FIRST_LANES;
#pragma unroll
    for (u32 round = 0; round < FIRST_ROUNDS; ++round) {
        if (round * FIRST_OUTPUTS >= p.hidden) break;
        const uint4 weights = CLUSTER && round < HELD ? held[round % HELD] : first_weights(p, range, round);
        const float own = lane * PIECE < range.count ? add_products(0.0f, weights, s.means + lane * PIECE) : 0.0f;
        const float sum = over_lanes<FIRST_LANES>(own);
        const u32 unit = round * FIRST_OUTPUTS + threadIdx.x / FIRST_LANES;
        float* to = s.parts[parity][number] + unit;
        if (CLUSTER) {
#if __CUDA_ARCH__ >= 900
            if (lane < RANGES && unit < p.hidden) store_remote(remote_address(shared_address(to), lane), sum);
#endif
        } else if (lane == 0 && unit < p.hidden) {
            *to = sum;
        }
    }
}

// The hidden units from all ranges' parts.
__device__ __forceinline__ void join(const Squeeze& p, SqueezeShared& s, u32 parity, float bias) {
    if (threadIdx.x < in_pieces(p.hidden) * PIECE) {
        float sum = s.parts[parity][0][threadIdx.x];
#pragma unroll
        for (u32 range = 1; range < RANGES; ++range) sum = __fadd_rn(sum, s.parts[parity][range][threadIdx.x]);
        s.hidden[threadIdx.x] = threadIdx.x < p.hidden ? finished(p.layers[0], bias, sum) : 0.0f;
    }
    __syncthreads();
}

// The second layer's outputs of a range.
template <bool CLUSTER>
__device__ __forceinline__ void second_layer(
    const Squeeze& p, const SqueezeShared& s, u32 batch, const Range& range, float bias, const uint4 (&held)[HELD]) {
    const u32 lane = threadIdx.x % SECOND_LANES, output = threadIdx.x / SECOND_LANES;
    float sum = 0.0f;
#pragma unroll
    for (u32 round = 0; round < SECOND_ROUNDS; ++round) {
        const u32 piece = round * SECOND_LANES + lane;
        if (round * SECOND_LANES >= in_pieces(p.hidden)) break;
        const uint4 weights = CLUSTER && round < HELD ? held[round % HELD] : second_weights(p, range, round);
        if (piece < in_pieces(p.hidden)) sum = add_products(sum, weights, s.hidden + piece * PIECE);
    }
    sum = over_lanes<SECOND_LANES>(sum);
    if (output < range.count && lane == 0) {
        const i64 at = batch * p.y.strides[0] + (range.first + output) * p.y.strides[1];
        reinterpret_cast<u16*>(p.y.address)[at] = float_to_half(finished(p.layers[1], bias, sum));
    }
}

__device__ __forceinline__ float first_bias(const Squeeze& p) {
    return threadIdx.x < p.hidden ? *pointer_to<float>(p.layers[0].bias, threadIdx.x) : 0.0f;
}

__device__ __forceinline__ float second_bias(const Squeeze& p, const Range& range) {
    const u32 output = threadIdx.x / SECOND_LANES;
    return output < range.count ? *pointer_to<float>(p.layers[1].bias, range.first + output) : 0.0f;
}

extern "C" __global__ void __launch_bounds__(SQUEEZE_THREADS) squeeze_alone(const __grid_constant__ Squeeze p) {
    __shared__ alignas(16) SqueezeShared s;
    wait_for_predecessors();
    release_successors();
    const uint4 none[HELD] = {};
    for (u32 sample = blockIdx.x; sample < p.samples; sample += gridDim.x) {
        const u32 batch = p.first_batch + sample;
        for (u32 number = 0; number < RANGES; ++number) {
            const Range range(p, number);
            average(p, s, batch, range);
            first_layer<false>(p, s, number, range, 0, none);
            __syncthreads();
        }
        join(p, s, 0, first_bias(p));
        for (u32 number = 0; number < RANGES; ++number) {
            const Range range(p, number);
            second_layer<false>(p, s, batch, range, second_bias(p, range), none);
        }
        __syncthreads();
    }
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __launch_bounds__(SQUEEZE_THREADS, 1) squeeze_cluster(const __grid_constant__ Squeeze p) {
    __shared__ alignas(16) SqueezeShared s;
    cluster_arrive();
    const u32 number = cluster_rank();
    const Range range(p, number);
    uint4 first[HELD], second[HELD];
#pragma unroll
    for (u32 round = 0; round < HELD; ++round) {
        first[round] = first_weights(p, range, round);
        second[round] = second_weights(p, range, round);
    }
    const float biases[2] = {first_bias(p), second_bias(p, range)};
    // All blocks run: their memory may be written.
    cluster_wait();
    wait_for_predecessors();
    release_successors();
    u32 parity = 0;
    for (u32 sample = blockIdx.x / RANGES; sample < p.samples; sample += gridDim.x / RANGES) {
        const u32 batch = p.first_batch + sample;
        average(p, s, batch, range);
        first_layer<true>(p, s, number, range, parity, first);
        cluster_meet();
        join(p, s, parity, biases[0]);
        second_layer<true>(p, s, batch, range, biases[1], second);
        // The next sample's parts go elsewhere: a block may still read these.
        parity ^= 1;
    }
}
#endif
