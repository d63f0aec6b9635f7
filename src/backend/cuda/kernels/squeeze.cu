// Squeeze and excitation (Hu et al. 2018) in one launch: the mean of every channel, two fully connected layers of the means,
// a function behind each. All values between are rounded to halves.
//
// Every sum has one order, fixed by the shape. The pixels are cut into RANGES ranges of equal length. Of a range, slot s of
// the S that fit a block takes every S-th pixel, beginning with pixel s; the slots' sums are added in order, then the
// ranges'. Of a layer, each of the lanes that share an output takes every such piece of eight inputs, and the lanes' sums
// are added pair by pair; the bias comes last.
//
// `squeeze_cluster`: the blocks of a cluster take a range each, and share out the layers. `squeeze_alone`: one block does
// everything. Both give the same bits.
#include "divide.cuh"
#include "hopper.cuh"
#include "tail.cuh"

constexpr u32 SQUEEZE_THREADS = 512;
constexpr u32 SQUEEZE_WARPS = SQUEEZE_THREADS / 32;
constexpr u32 RANGES = 8;           // of pixels; blocks of a cluster
constexpr u32 MAX_CHANNELS = 1024;  // as plan/tactic/squeeze.rs has them
constexpr u32 MAX_HIDDEN = 512;
constexpr u32 IN_FLIGHT = 8;        // pixels that a thread loads before it adds the first
constexpr u32 PIECE = 8;            // inputs that a lane reads at once
constexpr u32 SHARERS = 4;          // lanes that share an output of the second layer; of the first a warp does

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
    u32 share;        // pixels of a range
    Divisor width;    // of the input
    u32 first_batch;  // of the chunk
    u32 samples;
    u32 padding;
};

static_assert(sizeof(SqueezeLayer) == 32 && sizeof(Squeeze) == 2 * 88 + 2 * 32 + 40, "mirrored in bind/squeeze.rs");

struct SqueezeShared {
    float slots[SQUEEZE_THREADS * PIECE];  // [slot][channels rounded up to PIECE]
    float range[MAX_CHANNELS];             // sums of one range, which the cluster reads
    float means[MAX_CHANNELS];
    float hidden[MAX_HIDDEN];
};

__device__ __forceinline__ u32 in_pieces(u32 count) { return (count + PIECE - 1) / PIECE; }

// The sum of every channel over one range of pixels, into `range`.
__device__ __forceinline__ void sum_range(const Squeeze& p, SqueezeShared& s, u32 batch, u32 number) {
    const u32 groups = in_pieces(p.channels), slots = SQUEEZE_THREADS / groups;
    const u32 group = threadIdx.x % groups, slot = threadIdx.x / groups;
    const i64* strides = p.x.strides;
    const i64 base = batch * strides[0] + group * PIECE * strides[1];
    const bool whole = strides[1] == 1 && p.channels % PIECE == 0 && p.x.address % 16 == 0 &&
                       (strides[0] | strides[2] | strides[3]) % PIECE == 0;
    const u32 first = number * p.share, end = first + p.share < p.pixels ? first + p.share : p.pixels;
    const u32 left = p.channels - group * PIECE, count = left < PIECE ? left : PIECE;
    float sums[PIECE] = {};
    if (slot < slots) {
        for (u32 begin = first + slot; begin < end; begin += slots * IN_FLIGHT) {
            uint4 bits[IN_FLIGHT];
#pragma unroll
            for (u32 j = 0; j < IN_FLIGHT; ++j) {
                const u32 pixel = begin + j * slots, row = divide(pixel, p.width);
                const i64 element = base + row * strides[2] + (pixel - row * p.width.divisor) * strides[3];
                const u16* from = pointer_to<u16>(p.x.address, element);
                bits[j] = make_uint4(0, 0, 0, 0);
                if (pixel >= end) continue;
                if (whole) {
                    bits[j] = *reinterpret_cast<const uint4*>(from);
                } else {
                    u32 halves[PIECE];
#pragma unroll
                    for (u32 k = 0; k < PIECE; ++k) halves[k] = k < count ? from[k * strides[1]] : 0;
                    bits[j] = make_uint4(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16, halves[4] | halves[5] << 16,
                                         halves[6] | halves[7] << 16);
                }
            }
#pragma unroll
            for (u32 j = 0; j < IN_FLIGHT; ++j) {
                float x[PIECE];
                widen(bits[j], x);
#pragma unroll
                for (u32 k = 0; k < PIECE; ++k) sums[k] = __fadd_rn(sums[k], x[k]);
            }
        }
        float4* to = reinterpret_cast<float4*>(s.slots + threadIdx.x * PIECE);
        to[0] = make_float4(sums[0], sums[1], sums[2], sums[3]);
        to[1] = make_float4(sums[4], sums[5], sums[6], sums[7]);
    }
    __syncthreads();
    for (u32 channel = threadIdx.x; channel < groups * PIECE; channel += SQUEEZE_THREADS) {
        float total = s.slots[channel];
#pragma unroll 8
        for (u32 other = 1; other < slots; ++other) total = __fadd_rn(total, s.slots[other * groups * PIECE + channel]);
        s.range[channel] = total;
    }
    __syncthreads();
}

// One lane's share of an output: pieces `lane`, `lane + LANES` and so on; then the lanes' sums, the same in all of them.
template <u32 LANES>
__device__ __forceinline__ float product(const SqueezeLayer& layer, u32 output, const float* inputs, u32 pieces, u32 lane) {
    const uint4* weights = reinterpret_cast<const uint4*>(layer.weights) + static_cast<u64>(output) * pieces;
    float sum = 0.0f;
#pragma unroll 4
    for (u32 piece = lane; piece < pieces; piece += LANES) {
        float w[PIECE];
        widen(weights[piece], w);
#pragma unroll
        for (u32 k = 0; k < PIECE; ++k) sum = __fmaf_rn(inputs[piece * PIECE + k], w[k], sum);
    }
#pragma unroll
    for (u32 apart = LANES / 2; apart > 0; apart /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, apart));
    return sum;
}

// Bias and function of a layer.
__device__ __forceinline__ float finished(const SqueezeLayer& layer, u32 output, float sum) {
    TailCall call;
    call.function = layer.function, call.first = layer.first, call.second = layer.second;
    float v[1] = {rounded_to_half(__fadd_rn(sum, *pointer_to<float>(layer.bias, output)))};
    tail_unary(call, v);
    return rounded_to_half(v[0]);
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void store_remote(u32 address, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
#endif

template <bool CLUSTER>
__device__ __forceinline__ void squeeze(const Squeeze& p, SqueezeShared& s) {
    const u32 padded = in_pieces(p.channels) * PIECE, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float pixels = static_cast<float>(p.pixels);
    u32 rank = 0, blocks = 1;
#if __CUDA_ARCH__ >= 900
    if (CLUSTER) rank = cluster_rank(), blocks = RANGES;
#endif
    for (u32 unit = p.hidden + threadIdx.x; unit < in_pieces(p.hidden) * PIECE; unit += SQUEEZE_THREADS) s.hidden[unit] = 0.0f;
    for (u32 sample = blockIdx.x / blocks; sample < p.samples; sample += gridDim.x / blocks) {
        const u32 batch = p.first_batch + sample;
        if (CLUSTER) {
            sum_range(p, s, batch, rank);
#if __CUDA_ARCH__ >= 900
            cluster_meet();
            for (u32 first = threadIdx.x * 4; first < padded; first += SQUEEZE_THREADS * 4) {
                const u32 own = shared_address(s.range + first);
                float4 of[RANGES];
#pragma unroll
                for (u32 r = 0; r < RANGES; ++r) of[r] = load_remote(remote_address(own, r));
                float4 total = of[0];
#pragma unroll
                for (u32 r = 1; r < RANGES; ++r) {
                    total = make_float4(__fadd_rn(total.x, of[r].x), __fadd_rn(total.y, of[r].y), __fadd_rn(total.z, of[r].z),
                                        __fadd_rn(total.w, of[r].w));
                }
                *reinterpret_cast<float4*>(s.means + first) = total;
            }
#endif
        } else {
            for (u32 range = 0; range < RANGES; ++range) {
                sum_range(p, s, batch, range);
                for (u32 c = threadIdx.x; c < padded; c += SQUEEZE_THREADS) {
                    s.means[c] = range == 0 ? s.range[c] : __fadd_rn(s.means[c], s.range[c]);
                }
            }
        }
        __syncthreads();
        for (u32 c = threadIdx.x; c < padded; c += SQUEEZE_THREADS) s.means[c] = rounded_to_half(__fdiv_rn(s.means[c], pixels));
        __syncthreads();
        for (u32 unit = warp * blocks + rank; unit < p.hidden; unit += SQUEEZE_WARPS * blocks) {
            const float value = finished(p.layers[0], unit, product<32>(p.layers[0], unit, s.means, in_pieces(p.channels), lane));
            if (CLUSTER) {
#if __CUDA_ARCH__ >= 900
                if (lane < RANGES) store_remote(remote_address(shared_address(s.hidden + unit), lane), value);
#endif
            } else if (lane == 0) {
                s.hidden[unit] = value;
            }
        }
#if __CUDA_ARCH__ >= 900
        if (CLUSTER) cluster_meet();
#endif
        if (!CLUSTER) __syncthreads();
        const u32 part = (p.channels + blocks - 1) / blocks, begin = rank * part;
        const u32 end = begin + part < p.channels ? begin + part : p.channels;
        // All lanes of a warp stay for the exchange.
        for (u32 first = begin + warp * (32 / SHARERS); first < end; first += SQUEEZE_THREADS / SHARERS) {
            const u32 channel = first + lane / SHARERS, read = channel < end ? channel : end - 1;
            const float sum = product<SHARERS>(p.layers[1], read, s.hidden, in_pieces(p.hidden), lane % SHARERS);
            const float value = finished(p.layers[1], read, sum);
            if (channel < end && lane % SHARERS == 0) {
                reinterpret_cast<u16*>(p.y.address)[batch * p.y.strides[0] + channel * p.y.strides[1]] = float_to_half(value);
            }
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(SQUEEZE_THREADS) squeeze_alone(const __grid_constant__ Squeeze p) {
    __shared__ alignas(16) SqueezeShared s;
#if __CUDA_ARCH__ >= 900
    wait_for_predecessors();
    release_successors();
#endif
    squeeze<false>(p, s);
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __launch_bounds__(SQUEEZE_THREADS) squeeze_cluster(const __grid_constant__ Squeeze p) {
    __shared__ alignas(16) SqueezeShared s;
    wait_for_predecessors();
    release_successors();
    squeeze<true>(p, s);
}
#endif
