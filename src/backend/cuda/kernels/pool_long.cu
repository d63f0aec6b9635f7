// Averages of f16 under large windows, channels side by side: the sums of pool.cu, for so many taps that a thread which loads its own
// would wait for them again and again.
//
// A block has one output pixel of up to 128 channels. All of its threads bring the window's pixels into shared memory, in steps that
// follow each other, and each adds those of one channel in row-major order.
#include "chain.cuh"
#include "groups.cuh"
#include "mma.cuh"
#include "parameters.cuh"
#include "pool_taps.cuh"

constexpr u32 LOT = 16;    // groups of channels of a block, a channel for each thread
constexpr u32 STEP = 64;   // pixels of a step
constexpr u32 STEPS = 2;   // in shared memory at once
constexpr u32 LOT_CHANNELS = LOT * GROUP_CHANNELS;

struct PoolLong {
    PixelFrame frame;  // `across` counts single pixels
    Pixels x;
    Window window;
    Divisor lots;      // of a pixel
    u32 count_pad;     // positions in the declared padding count
    u32 tiles;         // lots of all pixels
    u32 padding;
};

static_assert(sizeof(PoolLong) == sizeof(PixelFrame) + 48 + 64 + 24, "mirrored in bind/pool_long.rs");
static_assert(LOT_CHANNELS == PIXEL_THREADS, "a thread has a channel");

extern "C" __global__ void __launch_bounds__(PIXEL_THREADS) pool_long(const __grid_constant__ PoolLong p) {
    bring_around(p, p.frame.tail);
    wait_for_predecessors();
    release_successors();
    __shared__ uint4 pixels[STEPS][STEP][LOT];
    __shared__ float sums[LOT_CHANNELS];
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 place = divide(tile, p.lots);
        const u32 first = (tile - place * p.lots.divisor) * LOT;  // group of channels
        const u32 rows = divide(place, p.frame.across), samples = divide(rows, p.frame.rows);
        Spot s;
        s.pixel = place - rows * p.frame.across.divisor;
        s.row = p.frame.first_row + rows - samples * p.frame.rows.divisor;
        s.batch = p.frame.first_batch + samples;
        s.channel = (first + threadIdx.x) * GROUP_CHANNELS;  // of the group that a thread stores
        s.count = GROUP_CHANNELS;
        const u32 left = p.frame.groups.divisor - first, groups = left < LOT ? left : LOT;
        const LiveTaps live(p.window, s.row, s.pixel, p.x.height, p.x.width);
        const u32 columns = live.columns(), taps = live.rows() * columns;
        const auto fetch = [&](u32 step) {
            const u32 end = taps < (step + 1) * STEP ? taps : (step + 1) * STEP;
            for (u32 i = threadIdx.x; i < STEP * LOT; i += PIXEL_THREADS) {
                const u32 tap = step * STEP + i / LOT, group = i % LOT;
                if (tap >= end || group >= groups) continue;
                const u32 down = tap / columns, across = tap - down * columns;
                const i64 row = live.top + static_cast<i64>(live.row_first + down) * p.window.dilation[0];
                const i64 column = live.left + static_cast<i64>(live.column_first + across) * p.window.dilation[1];
                const i64 element = element_of(p.x, s.batch, (first + group) * GROUP_CHANNELS, row, column);
                copy_16(shared_address(&pixels[step % STEPS][i / LOT][group]), p.x.address + static_cast<u64>(element * 2), 16);
            }
            commit_copies();
        };
        float sum = 0.0f;
        fetch(0);
#pragma unroll 1
        for (u32 step = 0; step * STEP < taps; ++step) {
            fetch(step + 1);
            wait_copies<1>();
            __syncthreads();
            const u16* const own = reinterpret_cast<const u16*>(pixels[step % STEPS]) + threadIdx.x;
            const u32 there = taps - step * STEP < STEP ? taps - step * STEP : STEP;
#pragma unroll 16
            for (u32 i = 0; i < there; ++i) sum = __fadd_rn(sum, half_to_float(own[i * LOT_CHANNELS]));
            __syncthreads();  // before the step after the next takes this one's place
        }
        sums[threadIdx.x] = __fdiv_rn(sum, live.divisor(p.window, p.x.height, p.x.width, p.count_pad != 0));
        __syncthreads();
        if (threadIdx.x < groups) {
            float v[GROUP_CHANNELS];
#pragma unroll
            for (u32 i = 0; i < GROUP_CHANNELS; ++i) v[i] = sums[threadIdx.x * GROUP_CHANNELS + i];
            finish_pixel(p.frame, s, s.pixel, v);
        }
        __syncthreads();
    }
}
