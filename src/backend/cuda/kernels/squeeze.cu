// Squeeze and excitation (Hu et al. 2018): the mean of every channel, two fully connected layers of the means, a function
// behind each. All values between are rounded to halves.
//
// `squeeze_means_..`: a block averages the channels of a range and multiplies them by the first layer's weights.
// `squeeze_gates`: a block adds what the ranges gave, and computes some channels of the second layer. Two launches without
// clusters are done sooner than one whose blocks meet; each has its weights in registers before the one in front has ended.
// A block does so for `span` samples with the same weights, and asks for the next sample's values before it needs them.
//
// Every sum has one order, fixed by the shape. Of a range's pixels, each of SLOTS threads takes every SLOTS-th; the sums of a
// warp's threads are added pair by pair, then the warps' in order. The first layer sums a range's channels, shared by two
// lanes where they are many, and the ranges in order; of the second layer, each of four lanes takes every fourth piece of eight inputs. The bias comes last.
#include "chain.cuh"
#include "divide.cuh"
#include "tail.cuh"

constexpr u32 SQUEEZE_THREADS = 512;
constexpr u32 SQUEEZE_WARPS = SQUEEZE_THREADS / 32;
constexpr u32 PIECE = 8;                                 // channels that a lane reads at once
constexpr u32 MAX_RANGES = 32;                           // as plan/tactic/squeeze.rs has them
constexpr u32 MAX_HIDDEN = 512;
constexpr u32 IN_FLIGHT = 4;                             // pixels that a thread loads before it adds the first

// How the threads of a block share out a range of C channels: the pixels, and then the first layer's units.
template <u32 C>
struct Range {
    static constexpr u32 CHANNELS = C;
    static constexpr u32 GROUPS = C / PIECE;                    // lanes that sum a pixel
    static constexpr u32 SLOTS = SQUEEZE_THREADS / GROUPS;      // pixels at once
    static constexpr u32 SHARERS = GROUPS > 1 ? 2 : 1;          // lanes that share a unit
    static constexpr u32 PIECES = GROUPS / SHARERS;             // of such a lane
    static constexpr u32 UNITS = SQUEEZE_THREADS / SHARERS;     // at once
    static constexpr u32 ROUNDS = MAX_HIDDEN / UNITS;
};

constexpr u32 GATE_THREADS = 256;
constexpr u32 GATE_SHARERS = 4;                          // lanes that share a channel
constexpr u32 GATES = GATE_THREADS / GATE_SHARERS;       // channels of a block
constexpr u32 GATE_ROUNDS = MAX_HIDDEN / GATE_SHARERS / PIECE;
constexpr u32 HELD = 8;                                  // of them whose weights wait in registers

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
    u64 parts;        // f32 [samples of the chunk][ranges][hidden]
    Divisor ranges;
    Divisor slabs;    // of GATES channels
    Divisor width;    // of the input
    u32 channels;
    u32 hidden;
    u32 pixels;       // of a sample
    u32 first_batch;  // of the chunk
    u32 samples;
    u32 span;         // samples of a tile
    u32 padding;
};

static_assert(sizeof(SqueezeLayer) == 32 && sizeof(Squeeze) == 2 * 88 + 2 * 32 + 72, "mirrored in bind/squeeze.rs");

__device__ __forceinline__ u32 in_pieces(u32 count) { return (count + PIECE - 1) / PIECE; }

// The eight channels from `channel` on of a pixel; zeros behind the last of `count`.
__device__ __forceinline__ uint4 load_channels(u64 address, i64 step, bool whole, u32 count) {
    if (whole) return *reinterpret_cast<const uint4*>(address);
    const u16* from = reinterpret_cast<const u16*>(address);
    u32 halves[PIECE];
#pragma unroll
    for (u32 k = 0; k < PIECE; ++k) halves[k] = k < count ? from[k * step] : 0;
    return make_uint4(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16, halves[4] | halves[5] << 16, halves[6] | halves[7] << 16);
}

// Eight channels at this thread's pixels, some of them under way together; zeros behind the last pixel and channel.
template <class R>
struct PixelLoads {
    const Squeeze& p;
    u32 channel, count;
    bool whole, flat;
    uint4 bits[IN_FLIGHT];

    __device__ __forceinline__ PixelLoads(const Squeeze& squeeze, u32 first_channel) : p(squeeze), channel(first_channel) {
        const i64* strides = p.x.strides;
        whole = strides[1] == 1 && p.channels % PIECE == 0 && p.x.address % 16 == 0 && (strides[0] | strides[2] | strides[3]) % PIECE == 0;
        flat = strides[2] == p.width.divisor * strides[3];
        const u32 left = p.channels - min(p.channels, channel);
        count = left < PIECE ? left : PIECE;
    }

    // Asks for the pixels from `begin` on.
    __device__ __forceinline__ void ask(u32 batch, u32 begin) {
        const i64* strides = p.x.strides;
        const u64 base = p.x.address + 2 * static_cast<u64>(batch * strides[0] + channel * strides[1]);
#pragma unroll
        for (u32 j = 0; j < IN_FLIGHT; ++j) {
            const u32 pixel = begin + j * R::SLOTS + threadIdx.x / R::GROUPS, row = flat ? 0 : divide(pixel, p.width);
            const i64 element = row * strides[2] + (pixel - row * p.width.divisor) * strides[3];
            bits[j] = make_uint4(0, 0, 0, 0);
            if (pixel < p.pixels && count > 0) bits[j] = load_channels(base + 2 * element, strides[1], whole, count);
        }
    }

    // The sums over all pixels of a sample, of which the first were asked for.
    __device__ __forceinline__ void sum(u32 batch, float (&sums)[PIECE]) {
#pragma unroll 1
        for (u32 begin = 0;;) {
#pragma unroll
            for (u32 j = 0; j < IN_FLIGHT; ++j) {
                float x[PIECE];
                widen(bits[j], x);
#pragma unroll
                for (u32 k = 0; k < PIECE; ++k) sums[k] = __fadd_rn(sums[k], x[k]);
            }
            begin += R::SLOTS * IN_FLIGHT;
            if (begin >= p.pixels) return;
            ask(batch, begin);
        }
    }
};

__device__ __forceinline__ float add_products(float sum, uint4 weights, const float* inputs) {
    float w[PIECE];
    widen(weights, w);
    const float4 low = reinterpret_cast<const float4*>(inputs)[0], high = reinterpret_cast<const float4*>(inputs)[1];
    const float x[PIECE] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (u32 k = 0; k < PIECE; ++k) sum = __fmaf_rn(x[k], w[k], sum);
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

// Tiles' shares of the samples.
__device__ __forceinline__ u32 spans(const Squeeze& p) { return (p.samples + p.span - 1) / p.span; }

template <class R>
__device__ __forceinline__ void squeeze_range(const Squeeze& p) {
    __shared__ alignas(16) float sums[SQUEEZE_WARPS][R::CHANNELS];
    __shared__ alignas(16) float means[R::CHANNELS];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, work = spans(p) * p.ranges.divisor;
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < work; tile += gridDim.x) {
        const u32 span = divide(tile, p.ranges), range = tile - span * p.ranges.divisor, end = min(p.samples, (span + 1) * p.span);
        const u32 unit = threadIdx.x / R::SHARERS, part = threadIdx.x % R::SHARERS * R::PIECES;
        uint4 weights[R::ROUNDS][R::PIECES];
#pragma unroll
        for (u32 round = 0; round < R::ROUNDS; ++round) {
#pragma unroll
            for (u32 i = 0; i < R::PIECES; ++i) {
                const u32 at = round * R::UNITS + unit, piece = range * R::GROUPS + part + i;
                const bool live = at < p.hidden && piece < in_pieces(p.channels);
                const uint4* rows = reinterpret_cast<const uint4*>(p.layers[0].weights);
                weights[round][i] = live ? rows[at * in_pieces(p.channels) + piece] : make_uint4(0, 0, 0, 0);
            }
        }
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        PixelLoads<R> loads(p, range * R::CHANNELS + threadIdx.x % R::GROUPS * PIECE);
        loads.ask(p.first_batch + span * p.span, 0);
#pragma unroll 1
        for (u32 sample = span * p.span; sample < end; ++sample) {
            float own[PIECE] = {};
            loads.sum(p.first_batch + sample, own);
            if (sample + 1 < end) loads.ask(p.first_batch + sample + 1, 0);
#pragma unroll
            for (u32 apart = R::GROUPS; apart < 32; apart *= 2) {
#pragma unroll
                for (u32 k = 0; k < PIECE; ++k) own[k] = __fadd_rn(own[k], __shfl_xor_sync(0xffffffffu, own[k], apart));
            }
            if (lane < R::GROUPS) {
                float4* to = reinterpret_cast<float4*>(sums[warp] + lane * PIECE);
                to[0] = make_float4(own[0], own[1], own[2], own[3]);
                to[1] = make_float4(own[4], own[5], own[6], own[7]);
            }
            __syncthreads();
            if (threadIdx.x < R::CHANNELS) {
                float total = sums[0][threadIdx.x];
#pragma unroll
                for (u32 other = 1; other < SQUEEZE_WARPS; ++other) total = __fadd_rn(total, sums[other][threadIdx.x]);
                means[threadIdx.x] = rounded_to_half(__fdiv_rn(total, static_cast<float>(p.pixels)));
            }
            __syncthreads();
#pragma unroll
            for (u32 round = 0; round < R::ROUNDS; ++round) {
                if (round * R::UNITS >= p.hidden) break;
                float sum = 0.0f;
#pragma unroll
                for (u32 i = 0; i < R::PIECES; ++i) sum = add_products(sum, weights[round][i], means + (part + i) * PIECE);
                if (R::SHARERS == 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
                const u32 at = round * R::UNITS + unit;
                if (at < p.hidden && part == 0) reinterpret_cast<float*>(p.parts)[(sample * p.ranges.divisor + range) * p.hidden + at] = sum;
            }
        }
    }
}

// By channels of a range, as bind/squeeze.rs names them.
extern "C" __global__ void __launch_bounds__(SQUEEZE_THREADS, 2) squeeze_means_8(const __grid_constant__ Squeeze p) {
    squeeze_range<Range<8>>(p);
}
extern "C" __global__ void __launch_bounds__(SQUEEZE_THREADS, 2) squeeze_means_32(const __grid_constant__ Squeeze p) {
    squeeze_range<Range<32>>(p);
}

// Eight weights of a channel of the second layer for this lane in a round; zeros where there are none.
__device__ __forceinline__ uint4 gate_weights(const Squeeze& p, u32 channel, u32 round) {
    const u32 piece = round * GATE_SHARERS + threadIdx.x % GATE_SHARERS, pieces = in_pieces(p.hidden);
    const uint4* rows = reinterpret_cast<const uint4*>(p.layers[1].weights) + static_cast<u64>(channel) * pieces;
    return channel < p.channels && piece < pieces ? rows[piece] : make_uint4(0, 0, 0, 0);
}

// What the ranges gave for a unit of the first layer, all under way together; zeros where there is none.
struct UnitLoads {
    float part[MAX_RANGES];

    __device__ __forceinline__ void ask(const Squeeze& p, u32 sample, u32 unit) {
        const float* parts = reinterpret_cast<const float*>(p.parts) + static_cast<u64>(sample) * p.ranges.divisor * p.hidden;
#pragma unroll
        for (u32 range = 0; range < MAX_RANGES; ++range) {
            part[range] = range < p.ranges.divisor && unit < p.hidden ? parts[range * p.hidden + unit] : 0.0f;
        }
    }
    __device__ __forceinline__ float sum() const {
        float sum = 0.0f;
#pragma unroll
        for (u32 range = 0; range < MAX_RANGES; ++range) sum = __fadd_rn(sum, part[range]);
        return sum;
    }
};

extern "C" __global__ void __launch_bounds__(GATE_THREADS, 2) squeeze_gates(const __grid_constant__ Squeeze p) {
    __shared__ alignas(16) float hidden[MAX_HIDDEN];
    const u32 lane = threadIdx.x % GATE_SHARERS, work = spans(p) * p.slabs.divisor, pieces = in_pieces(p.hidden);
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < work; tile += gridDim.x) {
        const u32 span = divide(tile, p.slabs), slab = tile - span * p.slabs.divisor, end = min(p.samples, (span + 1) * p.span);
        const u32 channel = slab * GATES + threadIdx.x / GATE_SHARERS;
        uint4 held[HELD];
#pragma unroll
        for (u32 round = 0; round < HELD; ++round) held[round] = gate_weights(p, channel, round);
        const float bias = channel < p.channels ? *pointer_to<float>(p.layers[1].bias, channel) : 0.0f;
        float biases[MAX_HIDDEN / GATE_THREADS];
#pragma unroll
        for (u32 i = 0; i < MAX_HIDDEN / GATE_THREADS; ++i) {
            const u32 unit = i * GATE_THREADS + threadIdx.x;
            biases[i] = unit < p.hidden ? *pointer_to<float>(p.layers[0].bias, unit) : 0.0f;
        }
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        UnitLoads loads;
        loads.ask(p, span * p.span, threadIdx.x);
#pragma unroll 1
        for (u32 sample = span * p.span; sample < end; ++sample) {
#pragma unroll
            for (u32 i = 0; i < MAX_HIDDEN / GATE_THREADS; ++i) {
                const u32 unit = i * GATE_THREADS + threadIdx.x;
                if (unit >= pieces * PIECE) break;
                if (i > 0) loads.ask(p, sample, unit);
                hidden[unit] = unit < p.hidden ? finished(p.layers[0], biases[i], loads.sum()) : 0.0f;
            }
            __syncthreads();
            if (sample + 1 < end) loads.ask(p, sample + 1, threadIdx.x);
            float sum = 0.0f;
#pragma unroll
            for (u32 round = 0; round < GATE_ROUNDS; ++round) {
                const u32 piece = round * GATE_SHARERS + lane;
                if (round * GATE_SHARERS >= pieces) break;
                const uint4 w = round < HELD ? held[round % HELD] : gate_weights(p, channel, round);
                if (piece < pieces) sum = add_products(sum, w, hidden + piece * PIECE);
            }
#pragma unroll
            for (u32 apart = GATE_SHARERS / 2; apart > 0; apart /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, apart));
            if (channel < p.channels && lane == 0) {
                const i64 at = (p.first_batch + sample) * p.y.strides[0] + channel * p.y.strides[1];
                reinterpret_cast<u16*>(p.y.address)[at] = float_to_half(finished(p.layers[1], bias, sum));
            }
            __syncthreads();
        }
    }
}
