// Convolution of 3 by 3 neighbouring taps for Hopper, for few input and many pixels: every pixel is copied to shared memory
// once and read from there by all taps that meet it, and the weights stay there.
//
// A block keeps the weights of 64 output channels. One warp loads patches: the pixels under a tile of 8 by ROWS outputs, by
// a tiled copy whose zeros outside the image are the padding. Warpgroups take the tiles in turn: one multiplies all taps of
// its tile, weights by pixels, while others store theirs. A tap is an offset into the patch: the swizzle acts on addresses,
// so a matrix of pixels may begin at any of them. Products have the order of conv_wgmma.cu, taps in row-major order and
// inside a tap the channels, in one chain or in two that are added in the end: bits are the same, whatever tile and grid.
//
// The maximum of every 2 by 2 outputs may follow: a thread holds all four, so only maxima are stored.

#include "conv_patch_tile.cuh"

constexpr u32 BARRIER_BYTES = 512;

// Tiles of HEIGHT rows; inputs of BLOCKS times 64 channels; DEPTH patches in shared memory; GROUPS warpgroups; CHAINS of
// products.
template <u32 HEIGHT, u32 BLOCKS, u32 DEPTH, u32 GROUPS, u32 CHAINS>
struct Shape {
    static constexpr u32 ROWS = HEIGHT, K_BLOCKS = BLOCKS, STAGES = DEPTH, WARPGROUPS = GROUPS, SPLITS = CHAINS;
    static constexpr u32 PIXELS = HEIGHT * COLUMNS;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP;
    static constexpr u32 THREADS = WORKERS + WARP;
    static constexpr u32 PATCH_BYTES = (HEIGHT + TAPS - 1) * PATCH_ROW_BYTES;
    static constexpr u32 STAGE_BYTES = (PATCH_BYTES + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES;
    static constexpr u32 TILES = DEPTH / BLOCKS;  // whose patches are in shared memory at once
    // Shared memory: weights, patches, barriers.
    static constexpr u32 PATCHES = TAPS * TAPS * BLOCKS * WEIGHT_BYTES;
    static constexpr u32 BARRIERS = PATCHES + DEPTH * STAGE_BYTES;
    static_assert(DEPTH % BLOCKS == 0, "the patches of a tile follow each other");
    static_assert(HEIGHT % 2 == 0, "rows are turned round in pairs");
    static_assert(PIXELS * CHANNELS * 2 <= STAGE_BYTES, "a tile is turned round in a patch's place");
    static_assert((DEPTH + 1) * 16 + GROUPS * 8 <= BARRIER_BYTES, "barriers fit");
};

// The barriers of a block: of each stage, that its patch is there, and that it may be filled; the same of the weights; of
// each warpgroup, that it may multiply.
template <class S>
struct Barriers {
    u32 base;
    __device__ __forceinline__ u32 full(u32 stage) const { return base + stage * 16; }
    __device__ __forceinline__ u32 empty(u32 stage) const { return base + stage * 16 + 8; }
    __device__ __forceinline__ u32 weights() const { return full(S::STAGES); }
    __device__ __forceinline__ u32 weights_read() const { return empty(S::STAGES); }
    __device__ __forceinline__ u32 turn(u32 group) const { return full(S::STAGES + 1) + group * 8; }

    __device__ __forceinline__ void init() const {
        for (u32 i = 0; i < S::STAGES; ++i) {
            barrier_init(full(i), 1);
            barrier_init(empty(i), WARPGROUP / WARP);
        }
        barrier_init(weights(), 1);
        barrier_init(weights_read(), S::WORKERS / WARP);
        for (u32 i = 0; i < S::WARPGROUPS; ++i) barrier_init(turn(i), WARPGROUP / WARP);
        barrier_init_fence();
    }
};

// What a block computes: the tiles `first + i * step` of every `lanes`-th 64 channels. The tiles of all its channels are
// numbered through; tile n is of warpgroup n % WARPGROUPS.
struct Share {
    u32 lane, lanes, first, step, count;

    __device__ __forceinline__ explicit Share(const ConvPatchParams& p) {
        lanes = min(p.channel_tiles, gridDim.x);
        lane = blockIdx.x % lanes;
        first = blockIdx.x / lanes;
        step = gridDim.x / lanes;
        count = first < step && first < p.tiles ? (p.tiles - first + step - 1) / step : 0;
    }
    // Turns in which it keeps the weights of 64 channels.
    __device__ __forceinline__ u32 turns(const ConvPatchParams& p) const { return count ? (p.channel_tiles - lane + lanes - 1) / lanes : 0; }
    __device__ __forceinline__ u32 channel(u32 turn) const { return (lane + turn * lanes) * CHANNELS; }
};

// Asks for the weights of 64 channels. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load_weights(const ConvPatchParams& p, u32 channel, u32 base, u32 full) {
    if (!elected()) return;
    barrier_arrive_expecting(full, S::PATCHES);
    const u64 step = static_cast<u64>(p.channels) * K_BYTES;
#pragma unroll 1
    for (u32 k = 0; k < TAPS * TAPS * S::K_BLOCKS; ++k) {
        copy_run(base + k * WEIGHT_BYTES, reinterpret_cast<const void*>(p.weights + k * step + channel * K_BYTES), WEIGHT_BYTES, full);
    }
}

// Fills patches with the tiles of a block. A whole warp comes here.
template <class S, Store STORE>
__device__ __forceinline__ void load(const ConvPatchParams& p, const Share& share, u32 base, const Barriers<S>& barriers) {
    const u32 turns = share.turns(p);
    u32 n = 0;
#pragma unroll 1
    for (u32 turn = 0; turn < turns; ++turn) {
        if (turn > 0) {
            barrier_wait(barriers.weights_read(), (turn - 1) & 1);
            load_weights<S>(p, share.channel(turn), base, barriers.weights());
        }
#pragma unroll 1
        for (u32 i = 0; i < share.count; ++i, ++n) {
            const Tile t = tile_at<S::ROWS, STORE>(p, share.first + i * share.step);
            constexpr i32 POOL = STORE == Store::POOLED ? 2 : 1;
            const i32 column = static_cast<i32>(t.column) * POOL - static_cast<i32>(p.pad_columns);
            const i32 row = static_cast<i32>(t.row) * POOL - static_cast<i32>(p.pad_rows);
#pragma unroll
            for (u32 block = 0; block < S::K_BLOCKS; ++block) {
                const u32 stage = n % S::TILES * S::K_BLOCKS + block;
                barrier_wait(barriers.empty(stage), ((n / S::TILES) & 1) ^ 1);
                if (elected()) {
                    barrier_arrive_expecting(barriers.full(stage), S::PATCH_BYTES);
                    copy_patch(base + S::PATCHES + stage * S::STAGE_BYTES, &p.image, barriers.full(stage), block * BLOCK_K, column, row, t.batch);
                }
            }
        }
    }
}

// Asks for the products of one chain of a tile whose patches begin at `patch`; they are in flight together. Before the last
// few it calls `ends`.
template <class S, u32 CHAIN, class F>
__device__ __forceinline__ void multiply(float (&sums)[S::PIXELS / 2], u32 weights, u32 patch, const F& ends) {
    constexpr u32 BLOCKS = TAPS * TAPS * S::K_BLOCKS, BEGIN = CHAIN * BLOCKS / S::SPLITS, END = (CHAIN + 1) * BLOCKS / S::SPLITS;
    const u32 rows = pixel_groups(PATCH_ROW_BYTES);
    u32 a = swizzled_matrix(weights), b = swizzled_matrix(patch);
    // Not known to the compiler, which would else keep the sum of each product's offset in a register across all tiles.
    asm volatile("" : "+r"(a), "+r"(b));
#pragma unroll
    for (u32 i = 0; i < S::PIXELS / 2; ++i) sums[i] = 0.0f;
    products_begin();
#pragma unroll
    for (u32 k = BEGIN; k < END; ++k) {
        const u32 tap = k / S::K_BLOCKS, block = k % S::K_BLOCKS;
        if (k == END - 1) ends();
        const u32 first = block * S::STAGE_BYTES + tap / TAPS * PATCH_ROW_BYTES + tap % TAPS * K_BYTES;
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            // Descriptors count in 16 bytes.
            PatchProduct<S::PIXELS>::multiply(sums, a + (k * WEIGHT_BYTES + i * PRODUCT_K * 2 >> 4), b + (first + i * PRODUCT_K * 2 >> 4), rows);
        }
    }
    products_commit();
}

// What a warpgroup does.
template <class S, Store STORE>
__device__ __forceinline__ void work(const ConvPatchParams& p, const Share& share, u8* memory, const Barriers<S>& barriers, u32 group, u32 thread) {
    const u32 base = shared_address(memory), lane = thread % WARP, warp = __shfl_sync(0xffffffff, thread / WARP, 0);
    const u32 turns = share.turns(p), total = turns * share.count;
    float bias[2] = {};
    u32 turn = 0;
    // The weights of another 64 channels.
    const auto begin_turn = [&] {
        const float* biases = reinterpret_cast<const float*>(p.epilogue.bias);
        const u32 own = share.channel(turn) + warp * 16 + lane / 4;
        if (STORE != Store::ANY && biases != nullptr) bias[0] = biases[own], bias[1] = biases[own + 8];
        barrier_wait(barriers.weights(), turn & 1);
    };
    if (total > 0) begin_turn();
    wait_for_predecessors();
    if (total == 0) return;
#pragma unroll 1
    for (u32 n = group; n < total + S::WARPGROUPS; n += S::WARPGROUPS) {
        // Past the last tile, the block's other turns are passed.
        while (turn < min(n / share.count, turns - 1)) {
            if (lane == 0) barrier_arrive(barriers.weights_read());
            ++turn;
            begin_turn();
        }
        if (n >= total) break;
        const Tile t = tile_at<S::ROWS, STORE>(p, share.first + n % share.count * share.step);
        const u32 stage = n % S::TILES * S::K_BLOCKS, patch = S::PATCHES + stage * S::STAGE_BYTES, channel = share.channel(turn);
#pragma unroll
        for (u32 block = 0; block < S::K_BLOCKS; ++block) barrier_wait(barriers.full(stage + block), (n / S::TILES) & 1);
        // Warpgroups multiply one after another, so that one stores while the next multiplies.
        if (n > 0) barrier_wait(barriers.turn(group), ((n - 1) / S::WARPGROUPS) & 1);
        float sums[S::PIXELS / 2];
        const auto pass_turn = [&] {
            if (lane == 0) barrier_arrive(barriers.turn((n + 1) % S::WARPGROUPS));
        };
        if constexpr (S::SPLITS == 2) {
            float more[S::PIXELS / 2];
            multiply<S, 0>(sums, base, base + patch, [] {});
            multiply<S, 1>(more, base, base + patch, pass_turn);
            products_wait<0>();
#pragma unroll
            for (u32 i = 0; i < S::PIXELS / 2; ++i) sums[i] = __fadd_rn(sums[i], more[i]);
        } else {
            multiply<S, 0>(sums, base, base + patch, pass_turn);
            products_wait<0>();
        }
        // The other warps have read the patch, too: the tile is turned round in its place.
        warpgroup_meet(group);
        store_tile<S::ROWS, STORE>(p, t, sums, bias, channel, memory + patch, group, thread);
        if (lane == 0) {
#pragma unroll
            for (u32 block = 0; block < S::K_BLOCKS; ++block) barrier_arrive(barriers.empty(stage + block));
        }
    }
}

template <class S, Store STORE>
__device__ __forceinline__ void convolve(const ConvPatchParams& p) {
    extern __shared__ __align__(1024) u8 memory[];
    const u32 base = shared_address(memory);
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0);
    const Barriers<S> barriers = {base + S::BARRIERS};
    const Share share(p);
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        barriers.init();
    }
    __syncthreads();
    if (warp == S::WORKERS / WARP) {
        // Weights are constants.
        if (share.count > 0) load_weights<S>(p, share.channel(0), base, barriers.weights());
        wait_for_predecessors();
        release_successors();
        load<S, STORE>(p, share, base, barriers);
    } else {
        work<S, STORE>(p, share, memory, barriers, warp / (WARPGROUP / WARP), threadIdx.x % WARPGROUP);
    }
}

// Kernels of the menu (plan/tactic/conv_patch.rs): rows of a tile, input channels in blocks of 64, patches in shared memory,
// warpgroups, chains. Each stands for every way to store.
#define CONV_PATCH_KERNEL(ROWS, BLOCKS, STAGES, GROUPS, CHAINS, NAME, STORE)                                           \
    extern "C" __global__ void __launch_bounds__(Shape<ROWS, BLOCKS, STAGES, GROUPS, CHAINS>::THREADS, 1)              \
        conv_patch_r##ROWS##_k##BLOCKS##_s##STAGES##_g##GROUPS##_c##CHAINS##_##NAME(const __grid_constant__ ConvPatchParams p) { \
        convolve<Shape<ROWS, BLOCKS, STAGES, GROUPS, CHAINS>, Store::STORE>(p);                                        \
    }
#define CONV_PATCH(ROWS, BLOCKS, STAGES, GROUPS, CHAINS)                                                               \
    CONV_PATCH_KERNEL(ROWS, BLOCKS, STAGES, GROUPS, CHAINS, plain, PLAIN)                                              \
    CONV_PATCH_KERNEL(ROWS, BLOCKS, STAGES, GROUPS, CHAINS, any, ANY)                                                  \
    CONV_PATCH_KERNEL(ROWS, BLOCKS, STAGES, GROUPS, CHAINS, pooled, POOLED)

CONV_PATCH(14, 1, 7, 3, 1)
CONV_PATCH(8, 1, 10, 3, 1)
CONV_PATCH(14, 2, 4, 2, 1)
CONV_PATCH(8, 2, 6, 3, 1)
CONV_PATCH(14, 2, 4, 2, 2)
CONV_PATCH(8, 2, 6, 3, 2)
