// Products of few pixels with large weights for Hopper: the weights stream through, at the speed of memory.
//
// The same sums as conv_wgmma.cu, bit for bit, with the operands' sides exchanged: 64 output channels are the rows of a
// warpgroup product and 8, 16 or 32 pixels its columns, so that a stage is almost all weights. A warpgroup waits longest for its own
// sums, from one product to the next: where few SMs share the memory's speed, blocks have two or four, of 64 channels each. Two warps keep a
// deep ring of stages in flight, as one does not ask for copies fast enough where few SMs share the memory's speed: one asks for
// weights, which are constants, and fills the ring before it waits for the launches whose pixels the other brings. Two blocks share
// an SM: the next launch's first stages load while this one ends.

#include "conv_wgmma_params.cuh"
#include "epilogue.cuh"
#include "hopper.cuh"
#include "ring.cuh"
#include "wgmma.cuh"

constexpr u32 BLOCK_K = 64;                  // channels of a stage
constexpr u32 K_BYTES = BLOCK_K * 2;         // one swizzled row
constexpr u32 PRODUCT_K = 16;                // channels of one warpgroup product
constexpr u32 WARP = 32;
constexpr u32 WARPGROUP = 128;
constexpr u32 TEAM_CHANNELS = 64;            // of a warpgroup

struct StreamParams {
    ConvWgmmaParams product;
    // Where chains are summed apart:
    float* partials;  // of every tile, of every chain, the fragments of the block that multiplied it
    u32* counters;    // one for each tile, 0 between launches
};

static_assert(sizeof(StreamParams) == sizeof(ConvWgmmaParams) + 64, "mirrored in bind/stream_wgmma.rs");

// Who sums the chains of a tile: there is one chain; one block sums them in turn; a cluster's blocks side by side; or the block
// that ends last, through memory, which lets blocks stand wherever there is room.
enum class Chains { ONE, IN_TURN, CLUSTER, APART };

// A tile of `PIXELS` pixels, how many K blocks are in flight, and how many warpgroups multiply.
template <u32 N, u32 DEPTH, u32 TEAMS>
struct Shape {
    static constexpr u32 PIXELS = N, STAGES = DEPTH;
    static constexpr u32 WORKERS = TEAMS * WARPGROUP;  // threads that multiply
    static constexpr u32 THREADS = WORKERS + 2 * WARP;
    static constexpr u32 CHANNELS = TEAMS * TEAM_CHANNELS, GROUPS = CHANNELS / GROUP;
    static constexpr u32 SHARE_STRIDE = CHANNELS + 8;  // floats from pixel to pixel of a shared tile, against bank conflicts
    static constexpr u32 WEIGHT_BYTES = CHANNELS * K_BYTES;
    static constexpr u32 IMAGE_BYTES = N * K_BYTES;
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + IMAGE_BYTES;
    // Shared memory: stages, a tile of sums, barriers.
    static constexpr u32 SHARE = DEPTH * STAGE_BYTES;
    static constexpr u32 BARRIERS = SHARE + N * SHARE_STRIDE * 4;
    static constexpr u32 LAST = BARRIERS + DEPTH * 16;  // a word that says whether this block ends a tile
    static_assert(DEPTH * 16 + 4 <= 256, "barriers fit");
    static_assert(STAGE_BYTES % 1024 == 0, "stages begin where the swizzle's pattern does");
};

// A tile: its first pixel (counted like `first_pixel`), its valid pixels, its first channel.
struct Tile {
    u32 pixel, pixels, channel;
};

template <class S>
__device__ __forceinline__ Tile tile_at(const ConvWgmmaParams& p, u32 index) {
    const u32 rows = index / p.channel_tiles;
    const u32 run = rows / p.run_tiles;
    const u32 offset = (rows - run * p.run_tiles) * S::PIXELS;
    return {p.first_pixel + run * p.run_stride + offset, min(p.run_pixels - offset, S::PIXELS), (index - rows * p.channel_tiles) * S::CHANNELS};
}

__device__ __forceinline__ u32 chain_begin(const ConvWgmmaParams& p, u32 chain) { return chain * p.k_blocks / p.splits; }

// Where the weights of a tile's K block lie.
template <class S>
struct Weights {
    u64 address;
    u64 step;   // bytes from one K block to the next
    u32 bytes;  // of a K block

    __device__ __forceinline__ Weights(const ConvWgmmaParams& p, u32 channel, u32 begin) {
        const u32 padded = (p.channels + GROUP - 1) / GROUP * GROUP;
        step = static_cast<u64>(padded) * K_BYTES;
        address = p.weights + begin * step + channel * K_BYTES;
        bytes = min(S::CHANNELS, padded - channel) * K_BYTES;
    }
};

// Announces what a stage gets and copies its weights. A whole warp comes here, and to what fills stages.
template <class S>
__device__ __forceinline__ void load_weights(Weights<S>& weights, u32 base, u32 stage) {
    const u32 full = base + S::BARRIERS + stage * 16;
    if (elected()) {
        barrier_arrive_expecting(full, weights.bytes + S::IMAGE_BYTES);
        copy_run(base + stage * S::STAGE_BYTES, reinterpret_cast<const void*>(weights.address), weights.bytes, full);
    }
    weights.address += weights.step;
}

// Fills the weights' part of the stages of the K blocks `begin..end` of a tile; that of the first `ahead` of them is on its way.
template <class S>
__device__ __forceinline__ void fill_weights(const ConvWgmmaParams& p, const Tile& t, u32 begin, u32 end, u32 ahead, u32 base,
                                             Ring<S::STAGES>& ring) {
    Weights<S> weights(p, t.channel, begin + ahead);
#pragma unroll 1
    for (u32 k = begin; k < end; ++k, ring.advance()) {
        if (k < begin + ahead) continue;
        barrier_wait(base + S::BARRIERS + ring.stage * 16 + 8, ring.parity ^ 1);
        load_weights<S>(weights, base, ring.stage);
    }
}

// Fills the pixels' part. Their bytes may come before it is said that they will: a stage is not full until it is.
template <class S>
__device__ __forceinline__ void fill_pixels(const ConvWgmmaParams& p, const Tile& t, u32 begin, u32 end, u32 base, Ring<S::STAGES>& ring) {
    const u32 line = t.pixel / p.walk_columns;
    const i32 x = static_cast<i32>((t.pixel - line * p.walk_columns) * p.stride_columns) - static_cast<i32>(p.pad_columns);
    const i32 batch = static_cast<i32>(line / p.walk_rows);
    const i32 y = static_cast<i32>((line - batch * p.walk_rows) * p.stride_rows) - static_cast<i32>(p.pad_rows);
    u32 tap = begin / p.channel_blocks;
    u32 block = begin - tap * p.channel_blocks;
    u32 down = tap / p.kernel_columns, across = tap - down * p.kernel_columns;
#pragma unroll 1
    for (u32 k = begin; k < end; ++k, ring.advance()) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        if (!ring.fresh) barrier_wait(full + 8, ring.parity ^ 1);
        if (elected()) {
            copy_im2col(base + ring.stage * S::STAGE_BYTES + S::WEIGHT_BYTES, &p.image, full, block * BLOCK_K, x, y, batch,
                        static_cast<u16>(across * p.dilation_columns), static_cast<u16>(down * p.dilation_rows));
        }
        if (++block == p.channel_blocks) {
            block = 0;
            if (++across == p.kernel_columns) {
                across = 0;
                ++down;
            }
        }
    }
}

// Multiplies the next `count` (at least 1) stages into `sums` of a warpgroup's channels, which start anew.
template <class S>
__device__ __forceinline__ void multiply(float (&sums)[S::PIXELS / 2], u32 count, u32 base, u32 team, u32 lane, Ring<S::STAGES>& ring) {
#pragma unroll
    for (u32 i = 0; i < S::PIXELS / 2; ++i) sums[i] = 0.0f;
    u32 previous = 0;
#pragma unroll 1
    for (u32 k = 0; k < count; ++k, ring.advance()) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        barrier_wait(full, ring.parity);
        const u32 weights = base + ring.stage * S::STAGE_BYTES;
        const u32 a = swizzled_matrix(weights + team * (TEAM_CHANNELS * K_BYTES)), b = swizzled_matrix(weights + S::WEIGHT_BYTES);
        products_begin();
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            const u32 step = i * PRODUCT_K * 2 >> 4;  // descriptors count in 16 bytes
            Wgmma<S::PIXELS>::multiply(sums, a + step, b + step);
        }
        products_commit();
        // The products of the stage before are done: it may be filled again.
        products_wait<1>();
        if (k > 0 && lane == 0) barrier_arrive(previous);
        previous = full + 8;
    }
    products_wait<0>();
    if (lane == 0) barrier_arrive(previous);
}

__device__ __forceinline__ Place place_of(const ConvWgmmaParams& p, u32 pixel, u32 channel) {
    const u32 line = pixel / p.columns;
    const u32 batch = line / p.rows;
    return {batch, line - batch * p.rows, pixel - line * p.columns, channel};
}

// Turns the sums of one chain round: channels of a pixel side by side.
template <class S>
__device__ __forceinline__ void share(const float (&sums)[S::PIXELS / 2], float* tile, u32 warp, u32 lane) {
    constexpr u32 STRIDE = S::SHARE_STRIDE;
    float* fragment = tile + lane % 4 * 2 * STRIDE + warp * 16 + lane / 4;
#pragma unroll
    for (u32 j = 0; j < S::PIXELS / 8; ++j) {
        float* pixel = fragment + j * 8 * STRIDE;
        pixel[0] = sums[4 * j];
        pixel[STRIDE] = sums[4 * j + 1];
        pixel[8] = sums[4 * j + 2];
        pixel[STRIDE + 8] = sums[4 * j + 3];
    }
}

template <class S>
__device__ __forceinline__ void workers_meet() {
    asm volatile("bar.sync 1, %0;" ::"n"(S::WORKERS) : "memory");
}

// Adds the chains of the cluster's blocks, in order, for this block's part of the groups, and stores them.
template <class S>
__device__ __forceinline__ void gather(const ConvWgmmaParams& p, const Tile& t, u32 rank, u32 chains, u32 share, u32 worker) {
#pragma unroll 1
    for (u32 i = worker * chains + rank; i < t.pixels * S::GROUPS; i += S::WORKERS * chains) {
        const u32 pixel = i / S::GROUPS, column = i % S::GROUPS * GROUP, channel = t.channel + column;
        if (channel >= p.channels) continue;
        const u32 at = share + (pixel * S::SHARE_STRIDE + column) * 4;
        float values[GROUP];
#pragma unroll 1
        for (u32 chain = 0; chain < chains; ++chain) {
            const u32 from = chains == 1 ? at : remote_address(at, chain);
            const float4 low = load_remote(from), high = load_remote(from + 16);
            const float part[GROUP] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (u32 j = 0; j < GROUP; ++j) values[j] = chain == 0 ? part[j] : __fadd_rn(values[j], part[j]);
        }
        finish(values, p.epilogue, place_of(p, t.pixel + pixel, channel), min(GROUP, p.channels - channel));
    }
}

// Leaves the sums of one chain in memory. True in the block that comes last, which `last` tells its threads: it then holds the
// sums of all chains, added in order.
template <class S>
__device__ __forceinline__ bool join(
    const ConvWgmmaParams& p, float (&sums)[S::PIXELS / 2], float* partials, u32* counters, u32 tile, u32 chain, volatile u32* last) {
    constexpr u32 ROUNDS = S::PIXELS / 8, FLOATS = S::PIXELS * S::CHANNELS;
    const u32 worker = threadIdx.x;
    float* const all = partials + static_cast<u64>(tile) * p.splits * FLOATS + worker * 4;
#pragma unroll
    for (u32 j = 0; j < ROUNDS; ++j) {
        const float4 four = make_float4(sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]);
        __stcg(reinterpret_cast<float4*>(all + chain * FLOATS + j * S::WORKERS * 4), four);
    }
    __threadfence();
    workers_meet<S>();
    if (worker == 0) {
        const bool ends = atomicAdd(counters + tile, 1u) + 1 == p.splits;
        if (ends) counters[tile] = 0;
        *last = ends;
    }
    workers_meet<S>();
    if (!*last) return false;
    __threadfence();
#pragma unroll 1
    for (u32 other = 0; other < p.splits; ++other) {
#pragma unroll
        for (u32 j = 0; j < ROUNDS; ++j) {
            const float4 four = __ldcg(reinterpret_cast<const float4*>(all + other * FLOATS + j * S::WORKERS * 4));
            const float part[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (u32 i = 0; i < 4; ++i) sums[4 * j + i] = other == 0 ? part[i] : __fadd_rn(sums[4 * j + i], part[i]);
        }
    }
    return true;
}

// What a block computes at a time: a tile, or one chain of it. `peers` blocks of a cluster share a tile.
template <Chains CHAINS>
struct Unit {
    u32 tile, chain, begin, end;

    __device__ __forceinline__ Unit(const ConvWgmmaParams& p, u32 index, u32 rank) {
        const u32 units = CHAINS == Chains::APART ? p.splits : 1;
        tile = index / units;
        chain = CHAINS == Chains::CLUSTER ? rank : index - tile * units;
        begin = chain_begin(p, chain);
        end = CHAINS == Chains::CLUSTER || CHAINS == Chains::APART ? chain_begin(p, chain + 1) : p.k_blocks;
    }
};

template <class S, Chains CHAINS>
__device__ __forceinline__ void stream(const ConvWgmmaParams& p, float* partials, u32* counters) {
    constexpr bool CLUSTER = CHAINS == Chains::CLUSTER, APART = CHAINS == Chains::APART;
    // The swizzle's pattern begins at multiples of 1024 bytes, as dynamic shared memory does where nothing else is shared.
    extern __shared__ __align__(1024) u8 stages[];
    const u32 base = shared_address(stages);
    // Taken from one lane, so that the compiler knows it to be the same in all.
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const u32 peers = CLUSTER ? p.splits : 1, rank = CLUSTER ? cluster_rank() : 0;
    const u32 units = APART ? p.tiles * p.splits : p.tiles;
    const u32 first = blockIdx.x / peers, step = gridDim.x / peers;
    u32 ahead = 0;
    if (warp == S::WORKERS / WARP) {
        if (lane == 0) {
            prefetch_map(&p.image);
            for (u32 i = 0; i < S::STAGES; ++i) {
                barrier_init(base + S::BARRIERS + i * 16, 1);                      // full: the copies
                barrier_init(base + S::BARRIERS + i * 16 + 8, S::WORKERS / WARP);  // empty: the warps that multiply
            }
            barrier_init_fence();
        }
        __syncwarp();
        if (first < units) {
            const Unit<CHAINS> unit(p, first, rank);
            ahead = min(unit.end - unit.begin, S::STAGES);
            Weights<S> weights(p, tile_at<S>(p, unit.tile).channel, unit.begin);
#pragma unroll 1
            for (u32 i = 0; i < ahead; ++i) load_weights<S>(weights, base, i);
        }
    }
    wait_for_predecessors();
    // Not before: launches further behind would take the places of the next one's blocks.
    release_successors();
    __syncthreads();
    Ring<S::STAGES> ring;
    if (warp >= S::WORKERS / WARP) {
        for (u32 i = first; i < units; i += step, ahead = 0) {
            const Unit<CHAINS> unit(p, i, rank);
            const Tile t = tile_at<S>(p, unit.tile);
            if (warp == S::WORKERS / WARP) {
                fill_weights<S>(p, t, unit.begin, unit.end, ahead, base, ring);
            } else {
                fill_pixels<S>(p, t, unit.begin, unit.end, base, ring);
            }
            __syncwarp();
            if constexpr (CLUSTER) {
                cluster_meet();
                cluster_meet();
            }
        }
    } else {
        float* tile = reinterpret_cast<float*>(stages + S::SHARE);
        const u32 team = warp / (WARPGROUP / WARP);
        for (u32 i = first; i < units; i += step) {
            const Unit<CHAINS> unit(p, i, rank);
            float sums[S::PIXELS / 2];
            multiply<S>(sums, chain_begin(p, unit.chain + 1) - unit.begin, base, team, lane, ring);
            if constexpr (CHAINS == Chains::IN_TURN) {
#pragma unroll 1
                for (u32 chain = 1; chain < p.splits; ++chain) {
                    float more[S::PIXELS / 2];
                    multiply<S>(more, chain_begin(p, chain + 1) - chain_begin(p, chain), base, team, lane, ring);
#pragma unroll
                    for (u32 j = 0; j < S::PIXELS / 2; ++j) sums[j] = __fadd_rn(sums[j], more[j]);
                }
            }
            if constexpr (APART) {
                u32* const last = reinterpret_cast<u32*>(stages + S::LAST);
                if (!join<S>(p, sums, partials, counters, unit.tile, unit.chain, last)) continue;
            }
            share<S>(sums, tile, warp, lane);
            __syncwarp();
            if constexpr (CLUSTER) {
                cluster_meet();
            } else {
                workers_meet<S>();
            }
            gather<S>(p, tile_at<S>(p, unit.tile), rank, peers, base + S::SHARE, threadIdx.x);
            __syncwarp();
            if constexpr (CLUSTER) {
                cluster_meet();
            } else {
                workers_meet<S>();
            }
        }
    }
}

// Kernels of the menu (plan/tactic/stream_wgmma.rs): pixels, stages, warpgroups; each for every way to sum chains.
#define STREAM_WGMMA_KERNEL(PIXELS, STAGES, TEAMS, CHAINS, NAME)                                                                   \
    extern "C" __global__ void __launch_bounds__(Shape<PIXELS, STAGES, TEAMS>::THREADS, 2)                                         \
        stream_wgmma_##PIXELS##_s##STAGES##_t##TEAMS##_##NAME(const __grid_constant__ ConvWgmmaParams p) {                         \
        stream<Shape<PIXELS, STAGES, TEAMS>, Chains::CHAINS>(p, nullptr, nullptr);                                                 \
    }
#define STREAM_WGMMA(PIXELS, STAGES, TEAMS)                                                                                        \
    STREAM_WGMMA_KERNEL(PIXELS, STAGES, TEAMS, ONE, one)                                                                           \
    STREAM_WGMMA_KERNEL(PIXELS, STAGES, TEAMS, IN_TURN, turns)                                                                     \
    STREAM_WGMMA_KERNEL(PIXELS, STAGES, TEAMS, CLUSTER, cluster)                                                                   \
    extern "C" __global__ void __launch_bounds__(Shape<PIXELS, STAGES, TEAMS>::THREADS, 2)                                         \
        stream_wgmma_##PIXELS##_s##STAGES##_t##TEAMS##_apart(const __grid_constant__ StreamParams p) {                             \
        stream<Shape<PIXELS, STAGES, TEAMS>, Chains::APART>(p.product, p.partials, p.counters);                                    \
    }

STREAM_WGMMA(8, 12, 1)
STREAM_WGMMA(16, 10, 1)
STREAM_WGMMA(32, 8, 1)
STREAM_WGMMA(8, 6, 2)
STREAM_WGMMA(8, 3, 4)
