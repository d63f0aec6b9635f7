// Convolution of 3 by 3 neighbouring taps for Hopper, for many input channels: as conv_patch.cu, but a block keeps the patches
// of all channels of its tile, and the weights stream past them.
//
// A tile is 8 by ROWS outputs of 64 channels for each warpgroup. Two warps keep a ring of weights full, a stage each in turn, as one
// does not ask for copies fast enough; the first loads the patches, too. The warpgroups multiply side by side, each the weights of
// its own channels by the pixels of all. Products have the order of conv_wgmma.cu, and so its bits: taps in row-major order and
// inside a tap the channels, in chains that are summed one after another and added in order.
//
// Of 128 channels, a tile of 14 rows wants 16 KB of weights for 448 cycles of products, seven times as much as of pixels: with them
// the second cache passes 42 bytes a cycle to each SM, about as much as it can, and other launches wait for it. So blocks may work
// in pairs, on neighbouring tiles of pixels and the same channels: each loads every second stage of the weights, for both, and 23
// bytes are left. Where the number of tiles is odd, the last pair's second block multiplies nothing, but loads for its mate.

#include "conv_patch_tile.cuh"

constexpr u32 MAX_BLOCKS = 8;          // of 64 input channels
constexpr u32 LOADERS = 2;             // warps that load

// Tiles of HEIGHT rows and GROUPS times 64 channels, for BLOCKS that load weights for each other: 1, or a cluster of 2.
template <u32 HEIGHT, u32 GROUPS, u32 BLOCKS>
struct Shape {
    static constexpr u32 ROWS = HEIGHT, WARPGROUPS = GROUPS, MATES = BLOCKS;
    static constexpr bool PAIR = BLOCKS == 2;
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

    // Warpgroup i turns its tile round in patch i, and then gives it back alone. Stages are left by the warps of both blocks of a pair.
    __device__ __forceinline__ void init(const ConvPatchParams& p) const {
        for (u32 i = 0; i < p.k_blocks; ++i) {
            barrier_init(patch_full(i), 1);
            barrier_init(patch_empty(i), (i < S::WARPGROUPS ? WARPGROUP : S::WORKERS) / WARP);
        }
        for (u32 i = 0; i < p.weight_stages; ++i) {
            barrier_init(weight_full(i), 1);
            barrier_init(weight_empty(i), S::MATES * S::WORKERS / WARP);
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

// The tiles of a block or a pair: from `first` on every `step`th of those below `end`. A pair's are two of pixels.
template <class S>
struct Share {
    u32 rank, first, step, end;

    __device__ __forceinline__ Share(const ConvPatchParams& p)
        : rank(S::PAIR ? cluster_rank() : 0),
          first(blockIdx.x / S::MATES),
          step(gridDim.x / S::MATES),
          end((p.tiles + S::MATES - 1) / S::MATES * p.channel_tiles) {}
    __device__ __forceinline__ u32 channel(const ConvPatchParams& p, u32 index) const {
        return index % p.channel_tiles * (S::WARPGROUPS * CHANNELS);
    }
    // The block's own tile of pixels.
    __device__ __forceinline__ u32 pixels(const ConvPatchParams& p, u32 index) const { return index / p.channel_tiles * S::MATES + rank; }
    // False for the second block of a pair behind the last tile of pixels; it has no other tiles then.
    __device__ __forceinline__ bool is_live(const ConvPatchParams& p, u32 index) const { return !S::PAIR || pixels(p, index) < p.tiles; }
};

// --- blocks in pairs ---

// A run of bytes, a multiple of 16, into the same place of both blocks; the bytes count at the same barrier of each.
__device__ __forceinline__ void copy_run_to_both(u32 to, const void* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "h"(static_cast<u16>(3))
                 : "memory");
}

// Arrives at a barrier of another block, given by `remote_address`. It makes no writes visible: what stages held was read by products
// that have ended. One that did would wait, at every stage, for all that the warp has stored.
__device__ __forceinline__ void barrier_arrive_remote(u32 barrier) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the barriers of both blocks are set, which a fence has shown to the cluster: nobody copies into a block, or arrives
// there, before.
template <class S>
__device__ __forceinline__ void meet_mate() {
    if constexpr (S::PAIR) {
        cluster_arrive_relaxed();
        cluster_wait();
    }
}

// A warp needs a stage no longer: it may be filled again, in a pair by either block.
template <class S>
__device__ __forceinline__ void leave_stage(u32 empty) {
    barrier_arrive(empty);
    if constexpr (S::PAIR) barrier_arrive_remote(remote_address(empty, cluster_rank() ^ 1));
}

// Asks for the weights of block `k` of K, for channels from `channel` on, or leaves that to the other block: the bytes come either way.
template <class S>
__device__ __forceinline__ void load_weights(const ConvPatchParams& p, const Room<S>& room, u32 channel, u32 k, u32 stage, bool mine) {
    const void* from = reinterpret_cast<const void*>(p.weights + (static_cast<u64>(k) * p.channels + channel) * K_BYTES);
    barrier_arrive_expecting(room.weight_full(stage), S::WEIGHT_STAGE);
    if constexpr (S::PAIR) {
        if (mine) copy_run_to_both(room.weight(stage), from, S::WEIGHT_STAGE, room.weight_full(stage));
    } else {
        copy_run(room.weight(stage), from, S::WEIGHT_STAGE, room.weight_full(stage));
    }
}

// Loads the tiles of a block, one by one: weights ahead as far as the ring goes, patches, the other weights. Patches that the
// warpgroups turn their tiles round in come last to be free, and so are asked for last. Of the weights, a loader takes every
// LOADERS-th stage; the first loads patches. Of a loader's stages, the blocks of a pair fill every second one each.
template <class S, Store STORE>
__device__ __forceinline__ void load(const ConvPatchParams& p, const Room<S>& room, u32 loader) {
    constexpr i32 POOL = STORE == Store::POOLED ? 2 : 1;
    const Share<S> share(p);
    const u32 blocks = TAPS * TAPS * p.k_blocks, ahead = min(p.weight_stages, blocks);
    Ring ring;
    u32 turn = loader;
    bool mine = share.rank == 0;
    // Waits until the next stage is empty if it is this loader's turn, and then fills it.
    const auto next = [&](const auto& fill) {
        if (turn == 0) {
            barrier_wait(room.weight_empty(ring.stage), ring.parity ^ 1);
            fill();
        }
        turn = (turn + LOADERS - 1) % LOADERS;
        ring.advance(p.weight_stages);
    };
    const auto weights = [&](u32 channel, u32 k) {
        next([&] {
            load_weights<S>(p, room, channel, k, ring.stage, mine);
            mine = !mine;
        });
    };
    // Weights are constants.
    if (share.first < share.end) {
        for (u32 k = 0; k < ahead; ++k) weights(share.channel(p, share.first), k);
    }
    wait_for_predecessors();
    release_successors();
    u32 parity = 1;
#pragma unroll 1
    for (u32 index = share.first; index < share.end; index += share.step, parity ^= 1) {
        const u32 channel = share.channel(p, index);
        const bool live = share.is_live(p, index);
        const Tile t = tile_at<S::ROWS, STORE>(p, share.pixels(p, index));
        const i32 column = static_cast<i32>(t.column) * POOL - static_cast<i32>(p.pad_columns);
        const i32 row = static_cast<i32>(t.row) * POOL - static_cast<i32>(p.pad_rows);
        const auto patch = [&](u32 block) {
            if (loader != 0 || !live) return;
            barrier_wait(room.patch_empty(block), parity);
            barrier_arrive_expecting(room.patch_full(block), S::PATCH_BYTES);
            copy_patch(room.patch(block), &p.image, room.patch_full(block), block * BLOCK_K, column, row, t.batch);
        };
        if (index == share.first) {
            for (u32 block = 0; block < p.k_blocks; ++block) patch(block);
        } else {
            for (u32 block = S::WARPGROUPS; block < p.k_blocks; ++block) patch(block);
            for (u32 k = 0; k < ahead; ++k) weights(channel, k);
            for (u32 block = 0; block < min(S::WARPGROUPS, p.k_blocks); ++block) patch(block);
        }
#pragma unroll 1
        for (u32 k = ahead; k < blocks; ++k) weights(channel, k);
    }
    if constexpr (S::PAIR) {
        // Warps of the other block arrive here until they have left all stages, and this block does not end before.
        for (u32 i = 0; i < p.weight_stages; ++i) next([] {});
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
        if (lane == 0 && weight_done != 0) leave_stage<S>(weight_done);
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

// Lets `count` stages pass, as a block does that has no pixels: what is copied into one block of a pair is copied into both.
template <class S>
__device__ __forceinline__ void pass(const ConvPatchParams& p, const Room<S>& room, u32 count, u32 lane, Ring& ring) {
#pragma unroll 1
    for (u32 k = 0; k < count; ++k, ring.advance(p.weight_stages)) {
        barrier_wait(room.weight_full(ring.stage), ring.parity);
        __syncwarp();  // a lane that still waits would take the stage's next weights for these
        if (lane == 0) leave_stage<S>(room.weight_empty(ring.stage));
    }
}

// What a warpgroup does.
template <class S, Store STORE>
__device__ __forceinline__ void work(const ConvPatchParams& p, const Room<S>& room, u8* memory, u32 group, u32 thread) {
    const u32 lane = thread % WARP, warp = __shfl_sync(0xffffffff, thread / WARP, 0);
    const u32 blocks = TAPS * TAPS * p.k_blocks;
    const Share<S> share(p);
    const float* biases = reinterpret_cast<const float*>(p.epilogue.bias);
    Stand at = {0, 0, 0, {}};
    wait_for_predecessors();
#pragma unroll 1
    for (u32 index = share.first; index < share.end; index += share.step, at.parity ^= 1) {
        if (!share.is_live(p, index)) {
            pass<S>(p, room, blocks, lane, at.ring);
            continue;
        }
        const Tile t = tile_at<S::ROWS, STORE>(p, share.pixels(p, index));
        const u32 channel = share.channel(p, index) + group * CHANNELS, own = channel + warp * 16 + lane / 4;
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
    meet_mate<S>();
    if (warp < S::WORKERS / WARP) {
        work<S, STORE>(p, room, memory, warp / (WARPGROUP / WARP), threadIdx.x % WARPGROUP);
    } else if (threadIdx.x % WARP == 0) {
        load<S, STORE>(p, room, warp - S::WORKERS / WARP);
    } else {
        wait_for_predecessors();
        release_successors();
    }
}

// Kernels of the menu (plan/tactic/conv_patch.rs): rows of a tile, and warpgroups; of blocks for themselves, and in pairs. Each stands
// for every way to store.
#define CONV_DEEP_KERNEL(ROWS, GROUPS, BLOCKS, NAME, STORE)                                                            \
    extern "C" __global__ void __launch_bounds__(Shape<ROWS, GROUPS, BLOCKS>::THREADS, 1)                              \
        NAME(const __grid_constant__ ConvPatchParams p) {                                                              \
        convolve<Shape<ROWS, GROUPS, BLOCKS>, Store::STORE>(p);                                                        \
    }
#define CONV_DEEP(ROWS, GROUPS)                                                                                        \
    CONV_DEEP_KERNEL(ROWS, GROUPS, 1, conv_deep_r##ROWS##_g##GROUPS##_plain, PLAIN)                                    \
    CONV_DEEP_KERNEL(ROWS, GROUPS, 1, conv_deep_r##ROWS##_g##GROUPS##_any, ANY)                                        \
    CONV_DEEP_KERNEL(ROWS, GROUPS, 1, conv_deep_r##ROWS##_g##GROUPS##_pooled, POOLED)
#define CONV_DEEP_PAIR(ROWS, GROUPS)                                                                                   \
    CONV_DEEP_KERNEL(ROWS, GROUPS, 2, conv_deep_pair_r##ROWS##_g##GROUPS##_plain, PLAIN)                               \
    CONV_DEEP_KERNEL(ROWS, GROUPS, 2, conv_deep_pair_r##ROWS##_g##GROUPS##_any, ANY)                                   \
    CONV_DEEP_KERNEL(ROWS, GROUPS, 2, conv_deep_pair_r##ROWS##_g##GROUPS##_pooled, POOLED)

CONV_DEEP(14, 1)
CONV_DEEP(14, 2)
CONV_DEEP(8, 1)
CONV_DEEP(8, 2)
CONV_DEEP_PAIR(14, 2)
CONV_DEEP_PAIR(8, 2)
