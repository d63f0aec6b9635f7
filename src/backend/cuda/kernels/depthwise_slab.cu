// Depthwise convolution of f16 under square windows of 3 or 5 taps: the sums of depthwise.cu, bit for bit.
//
// A block computes the channels of one slab at several runs of pixels. Its weights, in f32, and all addresses are there before
// the launches whose pixels are read have ended; then a thread asks for all pixels under its windows at once.
#include "chain.cuh"
#include "groups.cuh"
#include "window.cuh"

struct DepthwiseSlab {
    PixelFrame frame;
    Pixels x;
    Window window;
    u64 weights;        // packed: [tap][channels], f16
    u64 bias;           // packed: f32
    Divisor slab;       // groups of channels of a slab
    Divisor slabs;
    u32 runs;           // of pixels, in the chunk
    u32 block_runs;     // of a block
    u32 tiles;          // slabs by blocks' runs
    u32 function;       // a SlabTail
    float first;        // attributes of the function
    float second;
};

static_assert(sizeof(DepthwiseSlab) == sizeof(PixelFrame) + 48 + 64 + 64, "mirrored in bind/depthwise_slab.rs");

// Tails that have a path of their own; numbered as in bind/depthwise_slab.rs.
enum SlabTail : u32 { SLAB_IDENTITY = 0, SLAB_CLIP = 1, SLAB_RELU = 2, SLAB_HARD_SWISH = 3, SLAB_TAIL = 4 };

constexpr u32 SLAB_GROUPS = 16;  // of channels, at the most

// Eight halves, zeros unless `there`. Volatile, so that all of a thread's loads stay in front of what uses the first.
__device__ __forceinline__ uint4 load_if(const u16* from, bool there) {
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

// Weights of a slab: the low and high four of each group apart, so that neighbouring lanes read neighbouring banks.
template <u32 TAPS>
struct SlabWeights {
    float4 low[TAPS][SLAB_GROUPS];
    float4 high[TAPS][SLAB_GROUPS];
};

template <u32 TAPS>
__device__ __forceinline__ void load_slab(const DepthwiseSlab& p, u32 first_group, SlabWeights<TAPS>& to) {
    const u32 groups = p.frame.channels / GROUP_CHANNELS;
    for (u32 i = threadIdx.x; i < TAPS * p.slab.divisor; i += PIXEL_THREADS) {
        const u32 tap = divide(i, p.slab), group = i - tap * p.slab.divisor;
        if (first_group + group >= groups) continue;
        float w[8];
        widen(reinterpret_cast<const uint4*>(p.weights)[tap * groups + first_group + group], w);
        to.low[tap][group] = make_float4(w[0], w[1], w[2], w[3]);
        to.high[tap][group] = make_float4(w[4], w[5], w[6], w[7]);
    }
}

__device__ __forceinline__ void finish_slab(const DepthwiseSlab& p, const Spot& s, u32 pixel, float (&v)[8]) {
    if (p.function == SLAB_TAIL) {
        finish_pixel(p.frame, s, pixel, v);
        return;
    }
    if (p.function != SLAB_IDENTITY) {
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
            const float x = p.frame.tail.head_rounded ? rounded_to_half(v[k]) : v[k];
            v[k] = p.function == SLAB_RELU   ? greater(0.0f, x)
                   : p.function == SLAB_CLIP ? clip(x, p.first, p.second)
                                             : __fmul_rn(x, hard_sigmoid(x, 1.0f / 6.0f, 0.5f));
        }
    }
    store_run(p.frame.y.address, p.frame.y.dtype, element_of(p.frame.y, s.batch, s.channel, s.row, pixel), 8, v);
}

// RUN outputs along a row under K taps by K. At step 1 they lie as far apart as the taps, so that dilated windows share their
// pixels too.
template <u32 K, u32 S, u32 RUN>
__device__ __forceinline__ void convolve(const DepthwiseSlab& p) {
    constexpr u32 PIXELS = (RUN - 1) * S + K;
    __shared__ SlabWeights<K * K> weights;
    const u32 run_in_block = divide(threadIdx.x, p.slab), group = threadIdx.x - run_in_block * p.slab.divisor;
    const u32 apart = S == 1 ? p.window.dilation[1] : 1;
    const i32 height = static_cast<i32>(p.x.height), width = static_cast<i32>(p.x.width);
    bool waited = false;
    u32 held = ~0u;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 runs = divide(tile, p.slabs), slab = tile - runs * p.slabs.divisor;
        const u32 first_group = slab * p.slab.divisor;
        if (slab != held) {
            __syncthreads();
            load_slab<K * K>(p, first_group, weights);
            held = slab;
            __syncthreads();
        }
        const u32 run = runs * p.block_runs + run_in_block;
        Spot s;
        s.channel = (first_group + group) * GROUP_CHANNELS;
        s.count = GROUP_CHANNELS;
        const bool live = run_in_block < p.block_runs && run < p.runs && s.channel < p.frame.channels;
        const u32 rows = divide(run, p.frame.across), across = run - rows * p.frame.across.divisor;
        const u32 samples = divide(rows, p.frame.rows);
        s.row = p.frame.first_row + rows - samples * p.frame.rows.divisor;
        s.batch = p.frame.first_batch + samples;
        // Runs of outputs `apart` from each other interleave.
        const u32 bundle = across / apart;
        s.pixel = bundle * apart * RUN + (across - bundle * apart);
        const i32 top = static_cast<i32>(landing(p.window, 0, s.row, 0)), left = static_cast<i32>(landing(p.window, 1, s.pixel, 0));
        float sums[RUN][8];
        if (live) load_run(p.bias, F32, s.channel, 1, 8, sums[0]);
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        if (!live) continue;
        const u16* origin = pointer_to<u16>(p.x.address, s.batch * p.x.batch + s.channel);
        uint4 pixels[K][PIXELS];
#pragma unroll
        for (u32 i = 0; i < K; ++i) {
            const i32 row = top + static_cast<i32>(i * p.window.dilation[0]);
            const bool inside = row >= 0 && row < height;
            const u16* line = origin + row * p.x.row;
#pragma unroll
            for (u32 j = 0; j < PIXELS; ++j) {
                const i32 pixel = left + static_cast<i32>(j * apart);
                const bool there = inside && pixel >= 0 && pixel < width;
                pixels[i][j] = load_if(line + pixel * p.x.pixel, there);
            }
        }
#pragma unroll
        for (u32 o = 1; o < RUN; ++o) {
#pragma unroll
            for (u32 k = 0; k < 8; ++k) sums[o][k] = sums[0][k];
        }
#pragma unroll
        for (u32 i = 0; i < K; ++i) {
            float w[K][8];
#pragma unroll
            for (u32 j = 0; j < K; ++j) {
                const float4 low = weights.low[i * K + j][group], high = weights.high[i * K + j][group];
                w[j][0] = low.x, w[j][1] = low.y, w[j][2] = low.z, w[j][3] = low.w;
                w[j][4] = high.x, w[j][5] = high.y, w[j][6] = high.z, w[j][7] = high.w;
            }
            // An input pixel meets the outputs whose windows it lies in; each of these meets its pixels from left to right.
#pragma unroll
            for (u32 pixel = 0; pixel < PIXELS; ++pixel) {
                float x[8];
                widen(pixels[i][pixel], x);
#pragma unroll
                for (u32 o = 0; o < RUN; ++o) {
                    const i32 j = static_cast<i32>(pixel) - static_cast<i32>(o * S);
                    if (j < 0 || j >= static_cast<i32>(K)) continue;
#pragma unroll
                    for (u32 k = 0; k < 8; ++k) sums[o][k] = __fmaf_rn(x[k], w[j][k], sums[o][k]);
                }
            }
        }
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            const u32 pixel = s.pixel + o * apart;
            if (pixel < p.frame.y.width) finish_slab(p, s, pixel, sums[o]);
        }
    }
}

// Taps, step and outputs of a run, as bind/depthwise_slab.rs names them.
#define DEPTHWISE_SLAB(name, taps, step, run)                                                                            \
    extern "C" __global__ void __launch_bounds__(PIXEL_THREADS, 1) name(const __grid_constant__ DepthwiseSlab p) {       \
        convolve<taps, step, run>(p);                                                                                    \
    }

DEPTHWISE_SLAB(depthwise_slab_3_1_1, 3, 1, 1)
DEPTHWISE_SLAB(depthwise_slab_3_1_2, 3, 1, 2)
DEPTHWISE_SLAB(depthwise_slab_3_2_1, 3, 2, 1)
DEPTHWISE_SLAB(depthwise_slab_3_2_2, 3, 2, 2)
DEPTHWISE_SLAB(depthwise_slab_5_1_1, 5, 1, 1)
DEPTHWISE_SLAB(depthwise_slab_5_1_2, 5, 1, 2)
DEPTHWISE_SLAB(depthwise_slab_5_2_1, 5, 2, 1)
DEPTHWISE_SLAB(depthwise_slab_5_2_2, 5, 2, 2)
