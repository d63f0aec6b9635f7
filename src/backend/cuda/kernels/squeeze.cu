// Squeeze and excitation (Hu et al. 2018): the mean of every channel, two fully connected layers of the means, a function
// behind each. All values between are rounded to halves.
//
// `squeeze_means_..`: a block averages the channels of a range and multiplies them by the first layer's weights.
// `squeeze_shares_..`: the same of many pixels, which the blocks of a cluster share; `squeeze_alone_..`: or the warps of a block.
// `squeeze_gates_..`: a block adds what the ranges gave, and computes some channels of the second layer. Two launches are done
// sooner than one whose blocks all meet; each has its weights in registers before the one in front has ended.
// A block does so for SPAN samples at once, which its warps share among themselves: they are the columns of one product.
//
// Every sum has one order, fixed by the shape. A range's pixels go round the shares, in each of them round STRIPES stripes, in
// each of them round a warp's slots. Every slot of a stripe sums its pixels; a share's stripes are added pair by pair, then its
// slots; then the shares in order. The first layer's products sum a range's channels, and the ranges are added in order; the
// second layer's sum every other sixteen of its inputs, then both halves. The bias comes last.
#include "chain.cuh"
#include "cluster.cuh"
#include "divide.cuh"
#include "elementwise_halves.cuh"
#include "mma.cuh"
#include "tail.cuh"

constexpr u32 THREADS = 256;
constexpr u32 WARPS = THREADS / 32;
constexpr u32 STRIPES = WARPS;       // of pixels; a warp takes as many as its block takes samples
constexpr u32 PIECE = 8;             // channels that a lane reads at once
constexpr u32 STEP = 16;             // inputs, and outputs, of a product of tensor cores
constexpr u32 MAX_RANGES = 16;       // as plan/tactic/squeeze.rs has them
constexpr u32 MANY_SHARES = 8;       // likewise, of many pixels
constexpr u32 MAX_HIDDEN = 512;
constexpr u32 LOADS = 8;             // of a thread under way together

// How the threads of a block share out a range of C channels of S samples, of whose pixels there are SH shares, of which a
// block sums BLOCK_SH.
template <u32 C, u32 S, u32 SH, u32 BLOCK_SH>
struct Range {
    static constexpr u32 CHANNELS = C;
    static constexpr u32 SPAN = S;
    static constexpr u32 SHARES = SH;
    static constexpr u32 BLOCKS = SH / BLOCK_SH;          // of a cluster
    static constexpr u32 TEAMS = S * BLOCK_SH;            // of warps: each sums a share of a sample
    static constexpr u32 SHARERS = WARPS / TEAMS;         // warps of a team
    static constexpr u32 TAKEN = STRIPES / SHARERS;       // stripes of a warp
    static constexpr u32 GROUPS = C / PIECE;              // lanes that read a pixel
    static constexpr u32 SLOTS = 32 / GROUPS;             // pixels of a warp at once
    static constexpr u32 DEPTH = LOADS / TAKEN;           // pixels of each of a warp's stripes that are loaded together
    static constexpr u32 APART = SH * STRIPES * SLOTS;    // from a slot's pixel to its next
    static constexpr u32 STEPS = C / STEP;
    static constexpr u32 GAP = PIECE * SLOTS + SLOTS;     // floats between pieces in shared memory: no two lanes meet in a bank
    static constexpr u32 ROW = C + PIECE;                 // halves of a sample in shared memory, likewise
};

constexpr u32 UNIT_ROUNDS = MAX_HIDDEN / STEP / WARPS;
constexpr u32 UNIT_HELD = 2;                              // of them whose weights wait in registers

constexpr u32 GATES = 64;                                 // channels of a block of the second layer
constexpr u32 GATE_HALVES = WARPS * STEP / GATES;         // warps that share its inputs
constexpr u32 GATE_ROUNDS = MAX_HIDDEN / STEP / GATE_HALVES;
constexpr u32 GATE_HELD = 8;
constexpr u32 HIDDEN_ROW = MAX_HIDDEN + PIECE;

static_assert(GATE_HALVES == 2, "the halves of a sum are added as two");

struct SqueezeLayer {
    u64 weights;  // packed: the fragments of 16 outputs by 16 inputs, inputs first; the first layer's by range
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
    u64 parts;        // f32 [samples of the chunk][ranges][hidden, rounded up to STEP]
    Divisor ranges;
    Divisor slabs;    // of GATES channels
    Divisor width;    // of the input
    u32 channels;
    u32 hidden;
    u32 pixels;       // of a sample
    u32 first_batch;  // of the chunk
    u32 samples;
    u32 padding[2];
};

static_assert(sizeof(SqueezeLayer) == 32 && sizeof(Squeeze) == 2 * 88 + 2 * 32 + 72, "mirrored in bind/squeeze.rs");

__device__ __forceinline__ u32 in_steps(u32 count) { return (count + STEP - 1) / STEP; }

// Has the value computed before what follows, such as a wait.
__device__ __forceinline__ void keep_here(u64& value) { asm volatile("" : "+l"(value)); }

// 16 or 4 bytes of device memory, zeros unless `there`. Volatile, so that all of a thread's loads stay in front of what uses the
// first.
__device__ __forceinline__ uint4 load_if(u64 from, bool there) {
    uint4 v;
    asm volatile(
        "{\n.reg .pred there;\nsetp.ne.u32 there, %5, 0;\n"
        "mov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
        "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(from), "r"(static_cast<u32>(there))
        : "memory");
    return v;
}
__device__ __forceinline__ float load_one_if(u64 from, bool there) {
    u32 v;
    asm volatile("{\n.reg .pred there;\nsetp.ne.u32 there, %2, 0;\nmov.u32 %0, 0;\n@there ld.global.u32 %0, [%1];\n}"
                 : "=r"(v)
                 : "l"(from), "r"(static_cast<u32>(there))
                 : "memory");
    return __uint_as_float(v);
}

// This lane's part of fragment `index` of a layer's weights, ready for `multiply`.
__device__ __forceinline__ uint4 fragment(const SqueezeLayer& layer, u32 index) {
    return reinterpret_cast<const uint4*>(layer.weights)[static_cast<u64>(index) * 32 + threadIdx.x % 32];
}

__device__ __forceinline__ void multiply_fragment(float (&d)[4], uint4 weights, const u16* inputs) {
    const u32 a[4] = {weights.x, weights.y, weights.z, weights.w};
    const u32* b = reinterpret_cast<const u32*>(inputs);
    multiply(d, a, b[0], b[PIECE / 2]);
}

// Function of a layer over sums with their biases, whose results are rounded to halves. The usual ones are asked for first: no table of
// jumps has to be fetched, and nothing that halves do not need.
template <u32 N>
__device__ __forceinline__ void finish_layer(const SqueezeLayer& layer, float (&v)[N]) {
#pragma unroll
    for (u32 i = 0; i < N; ++i) v[i] = rounded_to_half(v[i]);
    if (layer.function == TAIL_RELU) {
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = greater(0.0f, v[i]);
    } else if (layer.function == TAIL_HARD_SIGMOID) {
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = hard_sigmoid(v[i], layer.first, layer.second);
    } else if (layer.function == TAIL_SIGMOID) {
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = sigmoid_of_half(v[i]);
    } else if (layer.function == TAIL_SILU) {
#pragma unroll
        for (u32 i = 0; i < N; ++i) v[i] = silu_of_half(v[i]);
    } else {
        TailCall call;
        call.function = layer.function, call.first = layer.first, call.second = layer.second;
        tail_unary(call, v);
    }
}

// The channels of a piece of one pixel as they lie, `step` apart; zeros behind the last of `count`.
__device__ __forceinline__ uint4 gather_channels(u64 address, i64 step, u32 count) {
    const u16* from = reinterpret_cast<const u16*>(address);
    u32 halves[PIECE];
#pragma unroll
    for (u32 k = 0; k < PIECE; ++k) halves[k] = k < count ? from[k * step] : 0;
    return make_uint4(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16, halves[4] | halves[5] << 16, halves[6] | halves[7] << 16);
}

__device__ __forceinline__ void add_piece(float (&sums)[PIECE], uint4 bits) {
    float x[PIECE];
    widen(bits, x);
#pragma unroll
    for (u32 k = 0; k < PIECE; ++k) sums[k] = __fadd_rn(sums[k], x[k]);
}

// Adds neighbours, then neighbouring sums, down to one.
template <u32 N, u32 WIDTH>
__device__ __forceinline__ void add_pairs(float (&sums)[N][WIDTH]) {
#pragma unroll
    for (u32 apart = 1; apart < N; apart *= 2) {
#pragma unroll
        for (u32 i = 0; i < N; i += 2 * apart) {
#pragma unroll
            for (u32 k = 0; k < WIDTH; ++k) sums[i][k] = __fadd_rn(sums[i][k], sums[i + apart][k]);
        }
    }
}

// A piece of eight channels at the pixels of this lane's slot of its warp's stripes.
template <class R>
struct Slot {
    u64 address;      // of pixel 0
    u64 start;        // of the first pixel of the stripe, where pixels lie in one run
    u32 pixel_bytes;  // likewise
    u32 first;        // pixel of share 0
    u32 count;        // channels
    bool flat;        // pixels lie in one run, channels of a piece in 16 bytes

    // `channel`: of the first of the piece; `sharer`: which of its team's warps this is.
    __device__ __forceinline__ Slot(const Squeeze& p, u32 batch, u32 channel, u32 sharer) {
        const i64* strides = p.x.strides;
        const u32 left = p.channels - min(p.channels, channel);
        count = left < PIECE ? left : PIECE;
        first = sharer * R::TAKEN * R::SLOTS + threadIdx.x % 32 / R::GROUPS;
        address = p.x.address + 2 * static_cast<u64>(batch * strides[0] + channel * strides[1]);
        const bool whole = strides[1] == 1 && p.channels % PIECE == 0 && p.x.address % 16 == 0 && (strides[0] | strides[3]) % PIECE == 0;
        flat = whole && strides[2] == p.width.divisor * strides[3] && static_cast<u64>(strides[3]) < 1u << 30;
        pixel_bytes = static_cast<u32>(2 * strides[3]);
        start = address + static_cast<u64>(first) * pixel_bytes;
        keep_here(start);
    }

    // The sums of the stripes of a share, added pair by pair.
    __device__ __forceinline__ void sum(const Squeeze& p, u32 share, float (&sums)[R::TAKEN][PIECE]) const {
#pragma unroll
        for (u32 i = 0; i < R::TAKEN; ++i) {
#pragma unroll
            for (u32 k = 0; k < PIECE; ++k) sums[i][k] = 0.0f;
        }
        if (count == 0) return;
        const u32 before = share * STRIPES * R::SLOTS;
        if (flat) {
            u64 from = start + static_cast<u64>(before) * pixel_bytes;
#pragma unroll 1
            for (u32 begin = before; begin < p.pixels; begin += R::DEPTH * R::APART) {
                const u32 left = p.pixels > begin + first ? p.pixels - begin - first : 0;
                uint4 bits[R::DEPTH][R::TAKEN];
#pragma unroll
                for (u32 d = 0; d < R::DEPTH; ++d) {
#pragma unroll
                    for (u32 i = 0; i < R::TAKEN; ++i) {
                        const u32 ahead = d * R::APART + i * R::SLOTS;
                        bits[d][i] = load_if(from + static_cast<u64>(ahead) * pixel_bytes, ahead < left);
                    }
                }
#pragma unroll
                for (u32 d = 0; d < R::DEPTH; ++d) {
                    if (begin + d * R::APART >= p.pixels) break;
#pragma unroll
                    for (u32 i = 0; i < R::TAKEN; ++i) add_piece(sums[i], bits[d][i]);
                }
                from += static_cast<u64>(R::DEPTH * R::APART) * pixel_bytes;
            }
        } else {
            const i64* strides = p.x.strides;
#pragma unroll
            for (u32 i = 0; i < R::TAKEN; ++i) {
#pragma unroll 1
                for (u32 pixel = before + first + i * R::SLOTS; pixel < p.pixels; pixel += R::APART) {
                    const u32 row = divide(pixel, p.width);
                    const i64 element = row * strides[2] + (pixel - row * p.width.divisor) * strides[3];
                    add_piece(sums[i], gather_channels(address + 2 * static_cast<u64>(element), strides[1], count));
                }
            }
        }
        add_pairs(sums);
    }
};

// Writes into the shared memory of a cluster's first block.
__device__ __forceinline__ void give(float* to, float value) { store_remote(remote_address(shared_address(to), 0), value); }

// Calls `take(team, channel, sum)` with the sums of a range's channels over each team's share of pixels, in a thread for each.
template <class R, class Take>
__device__ __forceinline__ void sum_shares(const Squeeze& p, const Slot<R>& slot, u32 share, const Take& take) {
    __shared__ float sums[WARPS][R::GROUPS * R::GAP];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float own[R::TAKEN][PIECE];
    slot.sum(p, share, own);
#pragma unroll
    for (u32 k = 0; k < PIECE; ++k) sums[warp][lane % R::GROUPS * R::GAP + k * R::SLOTS + lane / R::GROUPS] = own[0][k];
    __syncthreads();
    const u32 channel = threadIdx.x / R::SLOTS, at = threadIdx.x + channel / PIECE * R::SLOTS;
#pragma unroll
    for (u32 team = 0; team < R::TEAMS; ++team) {
        float total[R::SHARERS][1];
#pragma unroll
        for (u32 i = 0; i < R::SHARERS; ++i) total[i][0] = sums[team * R::SHARERS + i][at];
        add_pairs(total);
#pragma unroll
        for (u32 apart = 1; apart < R::SLOTS; apart *= 2) {
            total[0][0] = __fadd_rn(total[0][0], __shfl_xor_sync(0xffffffffu, total[0][0], apart));
        }
        if (threadIdx.x % R::SLOTS == 0) take(team, channel, total[0][0]);
    }
}

// This lane's weights of the first layer for a range, in a round of its warp's units; zeros where there are none.
template <class R>
__device__ __forceinline__ uint4 unit_weights(const Squeeze& p, u32 range, u32 round, u32 step, bool wanted) {
    const u32 at = round * WARPS + threadIdx.x / 32, tiles = in_steps(p.hidden);
    return wanted && at < tiles ? fragment(p.layers[0], (range * tiles + at) * R::STEPS + step) : make_uint4(0, 0, 0, 0);
}

template <class R>
__device__ __forceinline__ void squeeze_range(const Squeeze& p) {
    __shared__ float shares[R::SHARES][R::CHANNELS];
    __shared__ alignas(16) u16 means[R::SPAN][R::ROW];
    const u32 rank = R::BLOCKS > 1 ? cluster_rank() : 0;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = in_steps(p.hidden);
    const u32 work = (p.samples + R::SPAN - 1) / R::SPAN * p.ranges.divisor;
    bool waited = false;
    if (R::BLOCKS > 1) cluster_arrive_relaxed();
    for (u32 tile = blockIdx.x / R::BLOCKS; tile < work; tile += gridDim.x / R::BLOCKS) {
        const u32 span = divide(tile, p.ranges), range = tile - span * p.ranges.divisor, first = span * R::SPAN;
        uint4 held[UNIT_HELD][R::STEPS];
#pragma unroll
        for (u32 round = 0; round < UNIT_HELD; ++round) {
#pragma unroll
            for (u32 step = 0; step < R::STEPS; ++step) held[round][step] = unit_weights<R>(p, range, round, step, rank == 0);
        }
        // Samples behind the last are the last again; what they give is not stored.
        const u32 team = warp / R::SHARERS, share = R::SPAN == 1 ? rank + team : 0;
        const u32 batch = p.first_batch + min(R::SPAN == 1 ? first : first + team, p.samples - 1);
        const Slot<R> slot(p, batch, range * R::CHANNELS + lane % R::GROUPS * PIECE, warp % R::SHARERS);
        // Lane `l` has rows `l / 4` and, eight below, of outputs; it gives column `l / 4` of the inputs, and has two columns of products.
        const u32 row = lane / 4, column = lane % 4 * 2;
        u64 to = p.parts + 4 * (static_cast<u64>(first + column) * p.ranges.divisor + range) * tiles * STEP;
        const u64 apart = 4ull * p.ranges.divisor * tiles * STEP;
        if (!waited) {
            // All blocks of the cluster have begun.
            if (R::BLOCKS > 1) cluster_wait();
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        const auto take_mean = [&](u32 s, u32 channel, float sum) { means[s][channel] = float_to_half(__fdiv_rn(sum, static_cast<float>(p.pixels))); };
        if constexpr (R::SHARES == 1) {
            sum_shares(p, slot, share, take_mean);
            __syncthreads();
        } else {
            static_assert(R::SPAN == 1, "a team is a share");
            sum_shares(p, slot, share, [&](u32 team, u32 channel, float sum) {
                if constexpr (R::BLOCKS > 1) {
                    give(&shares[rank][channel], sum);
                } else {
                    shares[team][channel] = sum;
                }
            });
            if constexpr (R::BLOCKS > 1) {
                cluster_meet();
            } else {
                __syncthreads();
            }
            if (threadIdx.x < R::CHANNELS && rank == 0) {
                float total = shares[0][threadIdx.x];
#pragma unroll
                for (u32 share = 1; share < R::SHARES; ++share) total = __fadd_rn(total, shares[share][threadIdx.x]);
                take_mean(0, threadIdx.x, total);
            }
            __syncthreads();
        }
#pragma unroll
        for (u32 round = 0; round < UNIT_ROUNDS; ++round) {
            const u32 unit = round * WARPS + warp;
            if (round * WARPS >= tiles || rank != 0) break;
            float products[4] = {};
#pragma unroll
            for (u32 step = 0; step < R::STEPS; ++step) {
                const uint4 w = round < UNIT_HELD ? held[round % UNIT_HELD][step] : unit_weights<R>(p, range, round, step, true);
                multiply_fragment(products, w, means[row % R::SPAN] + column + step * STEP);
            }
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                if (column + i >= R::SPAN || first + column + i >= p.samples || unit >= tiles) continue;
                float* part = reinterpret_cast<float*>(to + i * apart) + unit * STEP + row;
                part[0] = products[i], part[PIECE] = products[2 + i];
            }
        }
        // The first block has read what the others gave, before they give the next.
        if constexpr (R::BLOCKS > 1) cluster_meet();
    }
}

// By channels of a range and samples of a block, as bind/squeeze.rs names them.
#define MEANS(name, blocks, C, ...)                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks) name(const __grid_constant__ Squeeze p) { \
        squeeze_range<Range<C, __VA_ARGS__>>(p);                                                           \
    }
MEANS(squeeze_means_16_1, 2, 16, 1, 1, 1)
MEANS(squeeze_means_32_1, 2, 32, 1, 1, 1)
MEANS(squeeze_means_64_1, 2, 64, 1, 1, 1)
MEANS(squeeze_means_128_1, 2, 128, 1, 1, 1)
MEANS(squeeze_means_16_2, 2, 16, 2, 1, 1)
MEANS(squeeze_means_32_4, 2, 32, 4, 1, 1)
MEANS(squeeze_means_64_4, 2, 64, 4, 1, 1)
MEANS(squeeze_means_128_4, 2, 128, 4, 1, 1)
MEANS(squeeze_alone_16_1, 1, 16, 1, MANY_SHARES, MANY_SHARES)
MEANS(squeeze_alone_32_1, 1, 32, 1, MANY_SHARES, MANY_SHARES)
MEANS(squeeze_alone_64_1, 1, 64, 1, MANY_SHARES, MANY_SHARES)
MEANS(squeeze_alone_128_1, 1, 128, 1, MANY_SHARES, MANY_SHARES)

// Architectures from sm_90 on have clusters.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
MEANS(squeeze_shares_16_1, 2, 16, 1, MANY_SHARES, 1)
MEANS(squeeze_shares_32_1, 2, 32, 1, MANY_SHARES, 1)
MEANS(squeeze_shares_64_1, 2, 64, 1, MANY_SHARES, 1)
MEANS(squeeze_shares_128_1, 2, 128, 1, MANY_SHARES, 1)
#endif

// Units `unit` to `unit + N - 1` of the first layer, of what the ranges gave from `parts` on; zeros behind the last unit.
template <u32 N>
__device__ __forceinline__ void add_ranges(const Squeeze& p, u64 parts, u32 unit, u16* to) {
    const u32 range_bytes = in_steps(p.hidden) * STEP * 4;
    float part[MAX_RANGES][N], sum[N] = {};
#pragma unroll
    for (u32 range = 0; range < MAX_RANGES; ++range) {
        const u64 from = parts + static_cast<u64>(range) * range_bytes;
        const bool live = range < p.ranges.divisor;
        if constexpr (N == 4) {
            const uint4 four = load_if(from, live);
            part[range][0] = __uint_as_float(four.x), part[range][1] = __uint_as_float(four.y);
            part[range][2] = __uint_as_float(four.z), part[range][3] = __uint_as_float(four.w);
        } else {
#pragma unroll
            for (u32 i = 0; i < N; ++i) part[range][i] = load_one_if(from + 4 * i, live);
        }
    }
#pragma unroll
    for (u32 range = 0; range < MAX_RANGES; ++range) {
#pragma unroll
        for (u32 i = 0; i < N; ++i) sum[i] = __fadd_rn(sum[i], part[range][i]);
    }
#pragma unroll
    for (u32 i = 0; i < N; ++i) sum[i] = __fadd_rn(sum[i], unit + i < p.hidden ? *pointer_to<float>(p.layers[0].bias, unit + i) : 0.0f);
    finish_layer(p.layers[0], sum);
#pragma unroll
    for (u32 i = 0; i < N; ++i) to[unit + i] = unit + i < p.hidden ? float_to_half(sum[i]) : 0;
}

// This lane's weights of the second layer for the sixteen channels `at`, of a step of inputs; zeros where there are none.
__device__ __forceinline__ uint4 gate_weights(const Squeeze& p, u32 at, u32 step) {
    const u32 steps = in_steps(p.hidden);
    return step < steps && at * STEP < p.channels ? fragment(p.layers[1], at * steps + step) : make_uint4(0, 0, 0, 0);
}

template <u32 SPAN>
__device__ __forceinline__ void gates(const Squeeze& p) {
    constexpr u32 SHARERS = THREADS / SPAN;          // threads of a sample
    constexpr u32 UNITS = SPAN < 4 ? 1 : 4;          // of a thread at once
    __shared__ alignas(16) u16 hidden[SPAN][HIDDEN_ROW];
    __shared__ float4 halves[THREADS / GATE_HALVES];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = warp % GATE_HALVES, steps = in_steps(p.hidden);
    const u32 work = (p.samples + SPAN - 1) / SPAN * p.slabs.divisor;
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < work; tile += gridDim.x) {
        const u32 span = divide(tile, p.slabs), slab = tile - span * p.slabs.divisor, first = span * SPAN;
        const u32 at = slab * (GATES / STEP) + warp / GATE_HALVES, row = lane / 4, column = lane % 4 * 2, channel = at * STEP + row;
        uint4 held[GATE_HELD];
#pragma unroll
        for (u32 round = 0; round < GATE_HELD; ++round) held[round] = gate_weights(p, at, round * GATE_HALVES + half);
        float bias[2];
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            const u32 c = channel + i * PIECE;
            bias[i] = c < p.channels ? *pointer_to<float>(p.layers[1].bias, c) : 0.0f;
        }
        const u32 sample = threadIdx.x / SHARERS, begin = threadIdx.x % SHARERS * UNITS;
        u64 parts = p.parts + 4 * (static_cast<u64>(first + sample) * p.ranges.divisor * steps * STEP + begin);
        keep_here(parts);
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        if (first + sample < p.samples) {
#pragma unroll 1
            for (u32 unit = begin; unit < steps * STEP; unit += SHARERS * UNITS, parts += 4 * SHARERS * UNITS) {
                add_ranges<UNITS>(p, parts, unit, hidden[sample]);
            }
        }
        __syncthreads();
        const u16* inputs = hidden[row % SPAN] + column;
        float sums[4] = {};
#pragma unroll
        for (u32 round = 0; round < GATE_ROUNDS; ++round) {
            const u32 step = round * GATE_HALVES + half;
            if (step >= steps) break;
            multiply_fragment(sums, round < GATE_HELD ? held[round % GATE_HELD] : gate_weights(p, at, step), inputs + step * STEP);
        }
        const u32 place = warp / GATE_HALVES * 32 + lane;
        if (half == 1) halves[place] = make_float4(sums[0], sums[1], sums[2], sums[3]);
        __syncthreads();
        if (half == 0) {
            const float4 other = halves[place];
            const float more[4] = {other.x, other.y, other.z, other.w};
#pragma unroll
            for (u32 i = 0; i < 4; ++i) sums[i] = __fadd_rn(__fadd_rn(sums[i], more[i]), bias[i / 2]);
            finish_layer(p.layers[1], sums);
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                const u32 c = channel + i / 2 * PIECE, s = column + i % 2;
                if (s >= SPAN || first + s >= p.samples || c >= p.channels) continue;
                const i64 element = (p.first_batch + first + s) * p.y.strides[0] + c * p.y.strides[1];
                reinterpret_cast<u16*>(p.y.address)[element] = float_to_half(sums[i]);
            }
        }
    }
}

// By samples of a block.
#define GATES_OF(S)                                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) squeeze_gates_##S(const __grid_constant__ Squeeze p) { \
        gates<S>(p);                                                                                               \
    }
GATES_OF(1)
GATES_OF(4)
