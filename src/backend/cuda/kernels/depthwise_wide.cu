// Depthwise convolution of f16 under large windows, channels side by side: the sums of depthwise.cu, bit for bit.
//
// A block keeps the input pixels under a tile of outputs in shared memory, and all taps, for a lot of channels. A thread owns
// two channels and a run of neighbouring outputs of a row: of every row of taps it holds the pixels under some taps, as many
// as its run, in registers. The sums pass through shared memory, so that eight channels are finished at once.
#include "chain.cuh"
#include "groups.cuh"
#include "mma.cuh"
#include "window.cuh"

constexpr u32 WIDE_THREADS = 128;
// Channels of a block, and outputs of its tile: rows, and runs of a row.
constexpr u32 LOT = 16;
constexpr u32 TILE_ROWS = 8;
constexpr u32 TILE_RUNS = 2;
constexpr u32 RUN = 7;
constexpr u32 TILE_COLUMNS = TILE_RUNS * RUN;
// Taps of a row that are met at once.
constexpr u32 TAPS = 7;
constexpr u32 PAIRS = LOT / 2;

static_assert(PAIRS * TILE_ROWS * TILE_RUNS == WIDE_THREADS, "a thread for each run of each pair of channels");

struct DepthwiseWide {
    PixelFrame frame;  // its division into runs is not used
    Pixels x;
    Window window;   // without dilation
    u64 weights;     // packed: [tap][channels rounded up to 8], f16
    u64 bias;        // packed: f32, channels rounded up to 8
    u32 pitch;       // channels rounded up to 8
    u32 line;        // pixels of a line in shared memory, odd: then the rows of a warp lie in different banks
    u32 tiles;
    Divisor lots;    // of channels
    Divisor across;  // tiles along a row
    Divisor down;    // and along the rows of the chunk
};

static_assert(sizeof(DepthwiseWide) == sizeof(PixelFrame) + 48 + 64 + 16 + 12 + 36, "mirrored in bind/depthwise_wide.rs");

__device__ __forceinline__ u32 load_word(u32 shared) {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
    return word;
}

__device__ __forceinline__ float low_of(u32 word) { return half_to_float(static_cast<u16>(word)); }
__device__ __forceinline__ float high_of(u32 word) { return half_to_float(static_cast<u16>(word >> 16)); }

// Brings the pixels under a tile, and the taps, into shared memory; zeros outside of the input and behind the last channel.
template <u32 S>
__device__ __forceinline__ void fetch(const DepthwiseWide& p, u32 pixels, u32 taps, u32 batch, u32 channel, i32 top, i32 left) {
    const u32 rows = (TILE_ROWS - 1) * S + p.window.kernel[0], columns = (TILE_COLUMNS - 1) * S + p.window.kernel[1];
    constexpr u32 EACH = LOT / GROUP_CHANNELS;
    for (u32 i = threadIdx.x; i < rows * columns * EACH; i += WIDE_THREADS) {
        const u32 place = i / EACH, group = i % EACH;
        const u32 row = place / columns, column = place - row * columns;
        const i32 y = top + static_cast<i32>(row), x = left + static_cast<i32>(column);
        const bool inside = static_cast<u32>(y) < p.x.height && static_cast<u32>(x) < p.x.width &&
                            channel + group * GROUP_CHANNELS < p.frame.channels;
        const u64 from = p.x.address + static_cast<u64>(element_of(p.x, batch, channel + group * GROUP_CHANNELS, y, x) * 2);
        copy_16(pixels + ((row * p.line + column) * EACH + group) * 16, from, inside ? 16 : 0);
    }
    for (u32 i = threadIdx.x; i < p.window.kernel[0] * p.window.kernel[1] * EACH; i += WIDE_THREADS) {
        const u32 tap = i / EACH, group = i % EACH;
        const bool inside = channel + group * GROUP_CHANNELS < p.frame.channels;
        copy_16(taps + i * 16, p.weights + 2 * (static_cast<u64>(tap) * p.pitch + channel + group * GROUP_CHANNELS), inside ? 16 : 0);
    }
    commit_copies();
}

// Adds the products of one row of taps to a run's sums, from the first tap to the last.
template <u32 S>
__device__ __forceinline__ void add_row(u32 pixels, u32 taps, u32 columns, float (&sums)[RUN][2]) {
    constexpr u32 HELD = (RUN - 1) * S + TAPS;
    for (u32 first = 0; first < columns; first += TAPS) {
        float x[HELD][2];
#pragma unroll
        for (u32 i = 0; i < HELD; ++i) {
            // Under taps behind the last this reads what nothing uses; it lies in shared memory.
            const u32 word = load_word(pixels + (first + i) * LOT * 2);
            x[i][0] = low_of(word), x[i][1] = high_of(word);
        }
#pragma unroll
        for (u32 j = 0; j < TAPS; ++j) {
            if (first + j >= columns) break;
            const u32 word = load_word(taps + (first + j) * LOT * 2);
            const float w[2] = {low_of(word), high_of(word)};
#pragma unroll
            for (u32 o = 0; o < RUN; ++o) {
                sums[o][0] = __fmaf_rn(x[o * S + j][0], w[0], sums[o][0]);
                sums[o][1] = __fmaf_rn(x[o * S + j][1], w[1], sums[o][1]);
            }
        }
    }
}

template <u32 S>
__device__ __forceinline__ void convolve(const DepthwiseWide& p) {
    extern __shared__ __align__(128) u8 memory[];
    const u32 pixels = shared_address(memory);
    // TAPS pixels more than the tile has: what add_row reads behind the last row.
    const u32 lines = (TILE_ROWS - 1) * S + p.window.kernel[0];
    const u32 taps = pixels + (lines * p.line + TAPS) * LOT * 2;
    const u32 pair = threadIdx.x % PAIRS, row = threadIdx.x / PAIRS % TILE_ROWS, run = threadIdx.x / PAIRS / TILE_ROWS;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 place = divide(tile, p.lots), channel = (tile - place * p.lots.divisor) * LOT;
        const u32 level = divide(place, p.across), column = (place - level * p.across.divisor) * TILE_COLUMNS;
        const u32 sample = divide(level, p.down);
        const u32 below = (level - sample * p.down.divisor) * TILE_ROWS, first_row = p.frame.first_row + below;
        const u32 batch = p.frame.first_batch + sample;
        fetch<S>(p, pixels, taps, batch, channel, static_cast<i32>(first_row * S) - static_cast<i32>(p.window.pad_begin[0]),
                 static_cast<i32>(column * S) - static_cast<i32>(p.window.pad_begin[1]));
        float sums[RUN][2];
        const bool own = channel + pair * 2 < p.pitch;
        const float low = own ? pointer_to<float>(p.bias, channel)[pair * 2] : 0.0f;
        const float high = own ? pointer_to<float>(p.bias, channel)[pair * 2 + 1] : 0.0f;
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) sums[o][0] = low, sums[o][1] = high;
        wait_copies<0>();
        __syncthreads();
#pragma unroll 1
        for (u32 i = 0; i < p.window.kernel[0]; ++i) {
            add_row<S>(pixels + (((row * S + i) * p.line + run * RUN * S) * PAIRS + pair) * 4,
                       taps + (i * p.window.kernel[1] * PAIRS + pair) * 4, p.window.kernel[1], sums);
        }
        __syncthreads();
        float* const turned = reinterpret_cast<float*>(memory);
#pragma unroll
        for (u32 o = 0; o < RUN; ++o) {
            *reinterpret_cast<float2*>(turned + ((row * TILE_RUNS + run) * RUN + o) * LOT + pair * 2) = make_float2(sums[o][0], sums[o][1]);
        }
        __syncthreads();
        constexpr u32 EACH = LOT / GROUP_CHANNELS;
        for (u32 i = threadIdx.x; i < TILE_ROWS * TILE_COLUMNS * EACH; i += WIDE_THREADS) {
            const u32 spot = i / EACH, group = i % EACH;
            const u32 y = spot / TILE_COLUMNS, pixel = column + spot % TILE_COLUMNS;
            Spot s;
            s.batch = batch, s.row = first_row + y, s.pixel = pixel;
            s.channel = channel + group * GROUP_CHANNELS;
            s.count = GROUP_CHANNELS;
            if (below + y >= p.frame.rows.divisor || pixel >= p.frame.y.width || s.channel >= p.frame.channels) continue;
            const float4* from = reinterpret_cast<const float4*>(turned + spot * LOT + group * GROUP_CHANNELS);
            const float4 a = from[0], b = from[1];
            float v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            finish_pixel(p.frame, s, pixel, v);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(WIDE_THREADS) depthwise_wide_1(const __grid_constant__ DepthwiseWide p) {
    wait_for_predecessors();
    release_successors();
    convolve<1>(p);
}
extern "C" __global__ void __launch_bounds__(WIDE_THREADS) depthwise_wide_2(const __grid_constant__ DepthwiseWide p) {
    wait_for_predecessors();
    release_successors();
    convolve<2>(p);
}
