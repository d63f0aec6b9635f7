// Depthwise convolution of f16 under square windows of 5, 7 or 9 taps at step 1, for few pixels: the sums of depthwise.cu, bit
// for bit.
//
// A block computes the outputs of a tile, runs of some rows, of a lot of channels. It asks for its weights before the launches
// whose pixels are read have ended, and then for all pixels under the tile at once, which it keeps in shared memory: so it waits
// for memory once. A thread owns two channels and a run of neighbouring outputs, or several runs in turn.
#include "depthwise_few.cuh"
#include "mma.cuh"

struct DepthwisePatch {
    DepthwiseStrip strip;  // without dilation; its depth, lots, across and down are of tiles, its count is not used
    Divisor runs;          // of a row of the tile
    Divisor pixels;        // of a row under the tile
    u32 line;              // places of such a row in shared memory
    u32 spots;             // runs of the tile
};

static_assert(sizeof(DepthwisePatch) == sizeof(DepthwiseStrip) + 32, "mirrored in bind/depthwise_patch.rs");

constexpr u32 PATCH_THREADS = 128;  // at the most
constexpr u32 PLACE = LOT * 2;      // bytes of a pixel
constexpr u32 PIECES = 4;           // of a thread, whose addresses are there before the wait
constexpr u32 FEW_TAPS = 7;         // of a row: weights of more lie in shared memory, in whole fours a row

// Where pixel j of a line lies: one place is left out behind each run. Runs then begin an odd number of places apart, and the
// four of a warp lie in different banks.
template <u32 RUN>
__device__ __forceinline__ constexpr u32 place_of(u32 j) {
    static_assert(RUN % 2 == 0, "a place left out makes the distance odd");
    return j + j / RUN;
}

__device__ __forceinline__ u32 load_shared(u32 from) {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
    return word;
}

// The weights of a thread's two channels: in its registers, or of many taps in the block's shared memory.
template <u32 K, bool KEPT>
struct Weights;

template <u32 K>
struct Weights<K, true> {
    static constexpr u32 BYTES = 0;
    Taps<K * K> taps;
    float kept[K * K][2];

    __device__ __forceinline__ void load(const DepthwiseStrip& p, u32, u32 channel) { taps.load(p, channel + threadIdx.x % PAIRS * 2); }
    // Takes time while the pixels are on their way.
    __device__ __forceinline__ void ready() {
        taps.hold();
#pragma unroll
        for (u32 tap = 0; tap < K * K; ++tap) {
            taps.get(tap, kept[tap]);
            asm volatile("" : "+f"(kept[tap][0]), "+f"(kept[tap][1]));
        }
        __syncwarp();  // else the compiler widens them behind the wait for the pixels
    }
    __device__ __forceinline__ void row(u32 i, float (&w)[K][2]) const {
#pragma unroll
        for (u32 j = 0; j < K; ++j) w[j][0] = kept[i * K + j][0], w[j][1] = kept[i * K + j][1];
    }
};

template <u32 K>
struct Weights<K, false> {
    static constexpr u32 FOURS = (K + 3) / 4;  // of a row
    static constexpr u32 BYTES = K * FOURS * FOUR;
    u32 shared;

    __device__ __forceinline__ void load(const DepthwiseStrip& p, u32 to, u32 channel) {
        const u64 from = p.weights + channel / LOT * BYTES;
        for (u32 i = threadIdx.x * 16; i < BYTES; i += blockDim.x * 16) copy_16(to + i, from + i, 16);
        shared = to + threadIdx.x % PAIRS * 16;
    }
    __device__ __forceinline__ void ready() {}
    __device__ __forceinline__ void row(u32 i, float (&w)[K][2]) const {
#pragma unroll
        for (u32 q = 0; q < FOURS; ++q) {
            u32 words[4];
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                         : "r"(shared + (i * FOURS + q) * FOUR)
                         : "memory");
#pragma unroll
            for (u32 t = 0; t < 4; ++t) {
                const u32 bits[1] = {words[t]};
                if (q * 4 + t < K) widen(bits, w[q * 4 + t]);
            }
        }
    }
};

template <u32 K, u32 RUN>
__device__ __forceinline__ void convolve(const DepthwisePatch& patch) {
    constexpr bool KEPT = K <= FEW_TAPS;
    constexpr u32 HELD = RUN + K - 1;  // pixels under a run
    const DepthwiseStrip& p = patch.strip;
    extern __shared__ __align__(128) u8 memory[];
    const u32 taps = shared_address(memory), pixels = taps + Weights<K, KEPT>::BYTES;
    const u32 pair = threadIdx.x % PAIRS;
    // A thread brings pieces of eight channels of one column, some rows apart.
    const u32 piece = threadIdx.x % 2, rows_each = divide(blockDim.x / 2, patch.pixels);
    const u32 first = divide(threadIdx.x / 2, patch.pixels), line_pixel = threadIdx.x / 2 - first * patch.pixels.divisor;
    const u32 to = pixels + (first * patch.line + place_of<RUN>(line_pixel)) * PLACE + piece * 16;
    const u32 apart = rows_each * patch.line * PLACE;
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 area = divide(tile, p.lots), channel = (tile - area * p.lots.divisor) * LOT;
        Weights<K, KEPT> weights;
        weights.load(p, taps, channel);
        const bool own = channel + pair * 2 < p.channels;
        const float2 bias = own ? *reinterpret_cast<const float2*>(p.bias + (channel + pair * 2) * 4) : make_float2(0.0f, 0.0f);
        const u32 level = divide(area, p.across), column = (area - level * p.across.divisor) * patch.runs.divisor * RUN;
        const u32 sample = divide(level, p.down), below = (level - sample * p.down.divisor) * p.depth;
        const u32 batch = p.first_batch + sample, outputs = min(p.depth, p.rows - below), inputs = outputs + K - 1;
        const i32 top = static_cast<i32>(p.first_row + below) - static_cast<i32>(p.pad_rows);
        const i32 x = static_cast<i32>(column + line_pixel) - static_cast<i32>(p.pad_columns);
        const bool inside = static_cast<u32>(x) < p.width && channel + piece * 8 < p.channels;
        u64 from = p.x + batch * p.x_batch + (top + static_cast<i32>(first)) * p.x_row + x * p.x_pixel + (channel + piece * 8) * 2;
        const i64 step = p.x_row * rows_each;
        // Where nothing is read the address is one of the tensor's.
        u64 sources[PIECES];
        u32 there[PIECES];
#pragma unroll
        for (u32 i = 0; i < PIECES; ++i) {
            there[i] = inside && static_cast<u32>(top + static_cast<i32>(first + i * rows_each)) < p.height ? 16 : 0;
            sources[i] = there[i] != 0 ? from : p.x;
            from += step;
            asm volatile("" : "+l"(sources[i]), "+r"(there[i]));
        }
        u64 end = p.y + batch * p.y_batch + (p.first_row + below) * p.y_row + column * p.y_pixel + (channel + pair * 2) * 2;
        asm volatile("" : "+l"(from), "+l"(end));
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        if (first < rows_each) {
            u32 at = to, row = first;
#pragma unroll
            for (u32 i = 0; i < PIECES; ++i) {
                if (row < inputs) copy_16(at, sources[i], there[i]);
                row += rows_each, at += apart;
            }
            for (; row < inputs; row += rows_each) {
                const bool within = inside && static_cast<u32>(top + static_cast<i32>(row)) < p.height;
                copy_16(at, within ? from : p.x, within ? 16 : 0);
                from += step, at += apart;
            }
        }
        commit_copies();
        weights.ready();
        wait_copies<0>();
        __syncthreads();
        // Threads without a spot compute another one's: behind a branch the weights would be widened after the barrier.
        u32 next = threadIdx.x / PAIRS;
        do {
            const u32 spot = min(next, patch.spots - 1);
            const u32 row = divide(spot, patch.runs), run = spot - row * patch.runs.divisor;
            float sums[RUN * 2];
#pragma unroll
            for (u32 o = 0; o < RUN; ++o) sums[2 * o] = bias.x, sums[2 * o + 1] = bias.y;
            u32 under = pixels + (row * patch.line + run * (RUN + 1)) * PLACE + pair * 4;
#pragma unroll(KEPT ? K : 1)
            for (u32 i = 0; i < K; ++i) {
                u32 words[HELD][1];
#pragma unroll
                for (u32 j = 0; j < HELD; ++j) words[j][0] = load_shared(under + place_of<RUN>(j) * PLACE);
                under += patch.line * PLACE;
                float w[K][2], held[HELD][2];
                weights.row(i, w);
#pragma unroll
                for (u32 j = 0; j < HELD; ++j) widen(words[j], held[j]);
#pragma unroll
                for (u32 j = 0; j < K; ++j) {
#pragma unroll
                    for (u32 o = 0; o < RUN; ++o) {
                        sums[2 * o] = __fmaf_rn(held[o + j][0], w[j][0], sums[2 * o]);
                        sums[2 * o + 1] = __fmaf_rn(held[o + j][1], w[j][1], sums[2 * o + 1]);
                    }
                }
            }
            u32 bits[RUN];
            finish(p, sums, bits);
            const u64 start = end + row * p.y_row + run * RUN * p.y_pixel;
            const bool wanted = own && row < outputs && next < patch.spots;
#pragma unroll
            for (u32 o = 0; o < RUN; ++o) {
                if (wanted && column + run * RUN + o < p.columns) store_word(start + o * p.y_pixel, bits[o]);
            }
            next += blockDim.x / PAIRS;
        } while (next < patch.spots);
        if (tile + gridDim.x < p.tiles) __syncthreads();
    }
}

// Taps, outputs of a run; as bind/depthwise_patch.rs names them.
#define DEPTHWISE_PATCH(name, taps, run)                                                                             \
    extern "C" __global__ void __launch_bounds__(PATCH_THREADS, 3) name(const __grid_constant__ DepthwisePatch p) {  \
        convolve<taps, run>(p);                                                                                      \
    }

DEPTHWISE_PATCH(depthwise_patch_5_2, 5, 2)
DEPTHWISE_PATCH(depthwise_patch_5_4, 5, 4)
DEPTHWISE_PATCH(depthwise_patch_7_2, 7, 2)
DEPTHWISE_PATCH(depthwise_patch_7_4, 7, 4)
DEPTHWISE_PATCH(depthwise_patch_9_2, 9, 2)
DEPTHWISE_PATCH(depthwise_patch_9_4, 9, 4)
