// Transposed convolutions of few channels whose windows lie side by side, without gaps and without overlap: mma.sync from registers.
//
// All places of a pixel's window are columns of one product, so a pixel is read once. A warp takes 16 pixels at a time: a lane's words of
// them are the fragment that the product wants, and the weights' fragments stay in its registers. Every element is one chain of m16n8k16
// instructions in ascending K, as in conv_parts.cu, whose bits these are.
#include "chain.cuh"
#include "divide.cuh"
#include "epilogue.cuh"
#include "mma.cuh"

struct ConvSpread {
    u64 x;         // element [0, 0, 0, 0] of the input
    u64 weights;   // packed: [step][8 columns][lane][2 words], columns in the order [row of the window][place in it][channel]
    i32 x_batch;   // strides of the input in elements
    i32 x_row;
    i32 x_pixel;
    u32 inputs;    // channels
    u32 outputs;
    u32 columns;   // of the product
    u32 down;      // rows of a window, and places in each
    u32 across;
    u32 first_batch;
    u32 first_grid_row;  // input row
    u32 first_row;       // output rows of the chunk
    u32 end_row;
    u32 m;               // pixels of the chunk
    u32 tiles;           // of 16
    Divisor sample;      // pixels of a sample
    Divisor row;         // and of a row
    Epilogue epilogue;   // its function is none or relu
};

static_assert(sizeof(ConvSpread) == 96 + sizeof(Epilogue), "mirrored in bind/conv_spread.rs");

constexpr u32 WARPS = 4;   // of a block
constexpr u32 TILE = 16;   // pixels of a product
constexpr u32 STEP = 16;   // of its K
constexpr u32 COLUMNS = 8;

// Where a pixel lies: element of the input and of its window's first place, and that place's row.
struct Pixel {
    i32 from;
    i64 to;
    u32 row;
    bool live;
};

__device__ __forceinline__ Pixel pixel_at(const ConvSpread& p, u32 index) {
    const u32 own = min(index, p.m - 1), sample = divide(own, p.sample), inside = own - sample * p.sample.divisor;
    const u32 line = divide(inside, p.row), place = inside - line * p.row.divisor;
    const u32 batch = p.first_batch + sample, row = p.first_grid_row + line;
    const ChannelsLast& y = p.epilogue.output;
    Pixel at;
    at.from = static_cast<i32>(batch) * p.x_batch + static_cast<i32>(row) * p.x_row + static_cast<i32>(place) * p.x_pixel;
    at.row = row * p.down;
    at.to = batch * y.batch + at.row * y.row + place * p.across * y.pixel;
    at.live = index < p.m;
    return at;
}

// STEPS of K, and so many times 8 columns.
template <u32 STEPS, u32 PLACES>
__device__ __forceinline__ void convolve(const ConvSpread& p) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, word = lane % 4 * 2;
    const Epilogue& e = p.epilogue;
    uint2 weights[STEPS][PLACES];
    float2 bias[PLACES];
    i64 spread[PLACES];  // elements from a window's first place
    u32 rows[PLACES];    // and rows; behind the chunk's for columns that there are not
#pragma unroll
    for (u32 j = 0; j < PLACES; ++j) {
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) weights[step][j] = reinterpret_cast<const uint2*>(p.weights)[(step * PLACES + j) * 32 + lane];
        const u32 column = j * COLUMNS + word, tap = column / p.outputs, channel = column - tap * p.outputs;
        const u32 down = tap / p.across, across = tap - down * p.across;
        const bool there = column < p.columns;
        bias[j] = make_float2(0.0f, 0.0f);
        if (there && e.bias != 0) bias[j] = *reinterpret_cast<const float2*>(e.bias + 4ull * channel);
        rows[j] = there ? down : p.end_row;
        spread[j] = down * e.output.row + across * e.output.pixel + channel;
    }
    const u16* const x = reinterpret_cast<const u16*>(p.x);
    u16* const y = reinterpret_cast<u16*>(e.output.address);
    wait_for_predecessors();
    release_successors();
#pragma unroll 1
    for (u32 tile = blockIdx.x * WARPS + warp; tile < p.tiles; tile += gridDim.x * WARPS) {
        Pixel at[2];
        u32 a[STEPS][4];
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            at[half] = pixel_at(p, tile * TILE + half * 8 + lane / 4);
            const u32* const from = reinterpret_cast<const u32*>(x + at[half].from + word);
#pragma unroll
            for (u32 step = 0; step < STEPS; ++step) {
                // Channels come in pieces of 8, of which a step has one or two.
                a[step][half] = step * STEP < p.inputs ? from[step * STEP / 2] : 0;
                a[step][half + 2] = step * STEP + 8 < p.inputs ? from[step * STEP / 2 + 4] : 0;
            }
        }
        float sums[PLACES][4];
#pragma unroll
        for (u32 j = 0; j < PLACES; ++j) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) sums[j][i] = 0.0f;
        }
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) {
#pragma unroll
            for (u32 j = 0; j < PLACES; ++j) multiply(sums[j], a[step], weights[step][j].x, weights[step][j].y);
        }
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
#pragma unroll
            for (u32 j = 0; j < PLACES; ++j) {
                float low = __fadd_rn(sums[j][2 * half], bias[j].x), high = __fadd_rn(sums[j][2 * half + 1], bias[j].y);
                // Before they are rounded: what is a little below zero is no negative zero behind a relu.
                if (e.function == EPILOGUE_RELU) low = greater(0.0f, low), high = greater(0.0f, high);
                const u32 row = at[half].row + rows[j];
                if (!at[half].live || row < p.first_row || row >= p.end_row) continue;
                *reinterpret_cast<u32*>(y + at[half].to + spread[j]) = two_halves(low, high);
            }
        }
    }
}

// Kernels of the menu (plan/tactic/conv_spread.rs): steps of K, times 8 columns.
#define CONV_SPREAD(STEPS, PLACES)                                                                                                        \
    extern "C" __global__ void __launch_bounds__(WARPS * 32) conv_spread_k##STEPS##_n##PLACES(const __grid_constant__ ConvSpread p) {     \
        convolve<STEPS, PLACES>(p);                                                                                                       \
    }

CONV_SPREAD(1, 1)
CONV_SPREAD(1, 2)
CONV_SPREAD(1, 4)
CONV_SPREAD(1, 8)
CONV_SPREAD(2, 1)
CONV_SPREAD(2, 2)
CONV_SPREAD(2, 4)
CONV_SPREAD(2, 8)
CONV_SPREAD(4, 1)
CONV_SPREAD(4, 2)
CONV_SPREAD(4, 4)
CONV_SPREAD(4, 8)
