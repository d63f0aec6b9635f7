// Convolution of 3 by 3 neighbouring taps for Hopper, for many input channels: as conv_patch.cu, but a block keeps the patches
// of all channels of its tile, and the weights stream past them.
//
// A tile is 8 by ROWS outputs of 64 channels for each warpgroup. Two warps keep a ring of weights full, a stage each in turn, as one
// does not ask for copies fast enough; the first loads the patches, too. The warpgroups multiply side by side, each the weights of
// its own channels by the pixels of all. Products have the order of conv_wgmma.cu, and so its bits: taps in row-major order and
// inside a tap the channels, in chains that are summed one after another and added in order.

#include "conv_patch_tile.cuh"

constexpr u32 MAX_BLOCKS = 8;          // of 64 input channels
constexpr u32 LOADERS = 2;             // warps that load

// Tiles of HEIGHT rows and GROUPS times 64 channels.
template <u32 HEIGHT, u32 GROUPS>
struct Shape {
    static constexpr u32 ROWS = HEIGHT, WARPGROUPS = GROUPS;
    static constexpr u32 PIXELS = HEIGHT * COLUMNS;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP;
    static constexpr u32 THREADS = WORKERS + LOADERS * WARP;
    static constexpr u32 PATCH_BYTES = (HEIGHT + TAPS - 1) * PATCH_ROW_BYTES;
    static constexpr u32 PATCH_STAGE = (PATCH_BYTES + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES;
    static constexpr u32 WEIGHT_STAGE = GROUPS * WEIGHT_BYTES;
    static_assert(PIXELS * CHANNELS * 2 <= PATCH_STAGE, "a warpgroup's tile is turned round in a patch's place");
};

// Shared memory: patches, weights, barriers. Of every patch and every stage of weights two barriers: that it is there, and
// that it may be filled.
template <class S>
struct Room {
    u32 patches, weights, barriers;

    __device__ __forceinline__ Room(const ConvPatchParams& p, u32 base) {
        patches = base;
        weights = patches + p.k_blocks * S::PATCH_STAGE;
        barriers = weights + p.weight_stages * S::WEIGHT_STAGE;
    }
    __device__ __forceinline__ u32 patch(u32 block) const { return patches + block * S::PATCH_STAGE; }
    __device__ __forceinline__ u32 patch_full(u32 block) const { return barriers + block * 16; }
    __device__ __forceinline__ u32 patch_empty(u32 block) const { return patch_full(block) + 8; }
    __device__ __forceinline__ u32 weight(u32 stage) const { return weights + stage * S::WEIGHT_STAGE; }
    __device__ __forceinline__ u32 weight_full(u32 stage) const { return barriers + (MAX_BLOCKS + stage) * 16; }
    __device__ __forceinline__ u32 weight_empty(u32 stage) const { return weight_full(stage) + 8; }

    // Warpgroup i turns its tile round in patch i, and then gives it back alone.
    __device__ __forceinline__ void init(const ConvPatchParams& p) const {
        for (u32 i = 0; i < p.k_blocks; ++i) {
            barrier_init(patch_full(i), 1);
            barrier_init(patch_empty(i), (i < S::WARPGROUPS ? WARPGROUP : S::WORKERS) / WARP);
        }
        for (u32 i = 0; i < p.weight_stages; ++i) {
            barrier_init(weight_full(i), 1);
            barrier_init(weight_empty(i), S::WORKERS / WARP);
        }
        barrier_init_fence();
    }
};

// A place in the ring of weights, and how often the ring went round.
struct Ring {
    u32 stage = 0, parity = 0;
    __device__ __forceinline__ void advance(u32 stages) {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// Asks for the weights of block `k` of K, for channels from `channel` on: one thread.
template <class S>
__device__ __forceinline__ void load_weights(const ConvPatchParams& p, const Room<S>& room, u32 channel, u32 k, u32 stage) {
    const u64 from = p.weights + (static_cast<u64>(k) * p.channels + channel) * K_BYTES;
    barrier_arrive_expecting(room.weight_full(stage), S::WEIGHT_STAGE);
    copy_run(room.weight(stage), reinterpret_cast<const void*>(from), S::WEIGHT_STAGE, room.weight_full(stage));
}

template <class S>
__device__ __forceinline__ u32 channel_of(const ConvPatchParams& p, u32 index) {
    return index % p.channel_tiles * (S::WARPGROUPS * CHANNELS);
}

// Loads the tiles of a block, one by one, with all lanes of a warp: weights ahead as far as the ring goes, patches, the other weights. Patches that the
// warpgroups turn their tiles round in come last to be free, and so are asked for last. Of the weights, a loader takes every
// LOADERS-th stage; the first loads patches.
template <class S, Store STORE>
__device__ __forceinline__ void load(const ConvPatchParams& p, const Room<S>& room, u32 loader) {
    constexpr i32 POOL = STORE == Store::POOLED ? 2 : 1;
    const u32 blocks = TAPS * TAPS * p.k_blocks, all = p.tiles * p.channel_tiles, ahead = min(p.weight_stages, blocks);
    Ring ring;
    u32 turn = loader;
    const auto weights = [&](u32 channel, u32 k) {
        if (turn == 0) {
            barrier_wait(room.weight_empty(ring.stage), ring.parity ^ 1);
            if (elected()) load_weights<S>(p, room, channel, k, ring.stage);
        }
        turn = (turn + LOADERS - 1) % LOADERS;
        ring.advance(p.weight_stages);
    };
    // Weights are constants.
    if (blockIdx.x < all) {
        for (u32 k = 0; k < ahead; ++k) weights(channel_of<S>(p, blockIdx.x), k);
    }
    wait_for_predecessors();
    release_successors();
    u32 parity = 1;
#pragma unroll 1
    for (u32 index = blockIdx.x; index < all; index += gridDim.x, parity ^= 1) {
        const u32 channel = channel_of<S>(p, index);
        const Tile t = tile_at<S::ROWS, STORE>(p, index / p.channel_tiles);
        const i32 column = static_cast<i32>(t.column) * POOL - static_cast<i32>(p.pad_columns);
        const i32 row = static_cast<i32>(t.row) * POOL - static_cast<i32>(p.pad_rows);
        const auto patch = [&](u32 block) {
            if (loader != 0) return;
            barrier_wait(room.patch_empty(block), parity);
            if (elected()) {
                barrier_arrive_expecting(room.patch_full(block), S::PATCH_BYTES);
                copy_patch(room.patch(block), &p.image, room.patch_full(block), block * BLOCK_K, column, row, t.batch);
            }
        };
        if (index == blockIdx.x) {
            for (u32 block = 0; block < p.k_blocks; ++block) patch(block);
        } else {
            for (u32 block = S::WARPGROUPS; block < p.k_blocks; ++block) patch(block);
            for (u32 k = 0; k < ahead; ++k) weights(channel, k);
            for (u32 block = 0; block < min(S::WARPGROUPS, p.k_blocks); ++block) patch(block);
        }
#pragma unroll 1
        for (u32 k = ahead; k < blocks; ++k) weights(channel, k);
    }
}

// Where a warpgroup stands in a tile: the next block of K as its tap and its patch, and the ring.
struct Stand {
    u32 tap, block, parity;
    Ring ring;
};

// Multiplies `count` (at least 1) blocks of K into `sums`, which start anew.
template <class S>
__device__ __forceinline__ void multiply(float (&sums)[S::PIXELS / 2], const ConvPatchParams& p, const Room<S>& room, u32 count, u32 group, u32 lane,
                                         Stand& at) {
    const u32 rows = pixel_groups(PATCH_ROW_BYTES);
#pragma unroll
    for (u32 i = 0; i < S::PIXELS / 2; ++i) sums[i] = 0.0f;
    u32 weight_done = 0, patch_done = 0;
    const auto release = [&] {
        if (lane == 0 && weight_done != 0) barrier_arrive(weight_done);
        if (lane == 0 && patch_done != 0) barrier_arrive(patch_done);
    };
#pragma unroll 1
    for (u32 k = 0; k < count; ++k) {
        if (at.tap == 0) barrier_wait(room.patch_full(at.block), at.parity);
        barrier_wait(room.weight_full(at.ring.stage), at.ring.parity);
        const u32 a = swizzled_matrix(room.weight(at.ring.stage) + group * WEIGHT_BYTES);
        const u32 b = swizzled_matrix(room.patch(at.block) + at.tap / TAPS * PATCH_ROW_BYTES + at.tap % TAPS * K_BYTES);
        products_begin();
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            const u32 step = i * PRODUCT_K * 2 >> 4;  // descriptors count in 16 bytes
            PatchProduct<S::PIXELS>::multiply(sums, a + step, b + step, rows);
        }
        products_commit();
        // The products of the block before are done.
        products_wait<1>();
        release();
        weight_done = room.weight_empty(at.ring.stage);
        patch_done = at.tap + 1 == TAPS * TAPS && at.block >= S::WARPGROUPS ? room.patch_empty(at.block) : 0;
        at.ring.advance(p.weight_stages);
        if (++at.block == p.k_blocks) {
            at.block = 0;
            ++at.tap;
        }
    }
    products_wait<0>();
    release();
}

// What a warpgroup does.
template <class S, Store STORE>
__device__ __forceinline__ void work(const ConvPatchParams& p, const Room<S>& room, u8* memory, u32 group, u32 thread) {
    const u32 lane = thread % WARP, warp = __shfl_sync(0xffffffff, thread / WARP, 0);
    const u32 blocks = TAPS * TAPS * p.k_blocks, all = p.tiles * p.channel_tiles;
    const float* biases = reinterpret_cast<const float*>(p.epilogue.bias);
    Stand at = {0, 0, 0, {}};
    wait_for_predecessors();
#pragma unroll 1
    for (u32 index = blockIdx.x; index < all; index += gridDim.x, at.parity ^= 1) {
        const Tile t = tile_at<S::ROWS, STORE>(p, index / p.channel_tiles);
        const u32 channel = channel_of<S>(p, index) + group * CHANNELS, own = channel + warp * 16 + lane / 4;
        float bias[2] = {};
        if (STORE != Store::ANY && biases != nullptr) bias[0] = biases[own], bias[1] = biases[own + 8];
        float sums[S::PIXELS / 2];
        at.tap = at.block = 0;
        multiply<S>(sums, p, room, blocks / p.chains, group, lane, at);
#pragma unroll 1
        for (u32 chain = 1; chain < p.chains; ++chain) {
            float more[S::PIXELS / 2];
            multiply<S>(more, p, room, (chain + 1) * blocks / p.chains - chain * blocks / p.chains, group, lane, at);
#pragma unroll
            for (u32 i = 0; i < S::PIXELS / 2; ++i) sums[i] = __fadd_rn(sums[i], more[i]);
        }
        // The other warps have read the first patches, too: the tile is turned round in their place.
        asm volatile("bar.sync %0, %1;" ::"n"(S::WARPGROUPS + 1), "n"(S::WORKERS) : "memory");
        store_tile<S::ROWS, STORE>(p, t, sums, bias, channel, memory + group * S::PATCH_STAGE, group, thread);
        if (lane == 0) barrier_arrive(room.patch_empty(group));
    }
}

template <class S, Store STORE>
__device__ __forceinline__ void convolve(const ConvPatchParams& p) {
    extern __shared__ __align__(1024) u8 memory[];
    const Room<S> room(p, shared_address(memory));
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0);
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        room.init(p);
    }
    __syncthreads();
    if (warp < S::WORKERS / WARP) {
        work<S, STORE>(p, room, memory, warp / (WARPGROUP / WARP), threadIdx.x % WARPGROUP);
    } else {
        load<S, STORE>(p, room, warp - S::WORKERS / WARP);
    }
}

// Kernels of the menu (plan/tactic/conv_patch.rs): rows of a tile, and warpgroups. Each stands for every way to store.
#define CONV_DEEP_KERNEL(ROWS, GROUPS, NAME, STORE)                                                                    \
    extern "C" __global__ void __launch_bounds__(Shape<ROWS, GROUPS>::THREADS, 1)                                      \
        conv_deep_r##ROWS##_g##GROUPS##_##NAME(const __grid_constant__ ConvPatchParams p) {                            \
        convolve<Shape<ROWS, GROUPS>, Store::STORE>(p);                                                                \
    }
#define CONV_DEEP(ROWS, GROUPS)                                                                                        \
    CONV_DEEP_KERNEL(ROWS, GROUPS, plain, PLAIN)                                                                       \
    CONV_DEEP_KERNEL(ROWS, GROUPS, any, ANY)                                                                           \
    CONV_DEEP_KERNEL(ROWS, GROUPS, pooled, POOLED)

CONV_DEEP(14, 1)
CONV_DEEP(14, 2)
CONV_DEEP(8, 1)
CONV_DEEP(8, 2)
