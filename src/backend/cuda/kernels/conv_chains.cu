// Convolution of 3 by 3 neighbouring taps for Hopper, for small pictures and many input channels: as conv_deep.cu, a block keeps the
// patches of all channels of its tile and weights stream past them, but both its warpgroups work on one tile of 8 by 8 outputs of 64
// channels, and sum their chains of products side by side.
//
// The warpgroups' products keep the tensor cores busy where one's would wait for its own sums, and nothing passes between blocks. A
// second block of such a launch on an SM would have its share of what the second cache gives, which is what they wait for: so no two fit,
// but beside one with few stages of weights there is room for blocks of the launches before and behind.
//
// In the end each warpgroup finishes half of the tile's rows: the other gives it its sums of them through the memory of the patches.
// Chains are added in order, so that bits are those of conv_wgmma.cu.

#include "conv_patch_tile.cuh"

constexpr u32 MAX_BLOCKS = 8;  // of 64 input channels
constexpr u32 WARPGROUPS = 2, WORKERS = WARPGROUPS * WARPGROUP;
constexpr u32 LOADERS = WARPGROUPS;  // warps that load: one for the weights of each warpgroup
constexpr u32 THREADS = WORKERS + LOADERS * WARP;
constexpr u32 ROWS = 8, OWN_ROWS = ROWS / WARPGROUPS;  // output rows of a tile, and those that a warpgroup finishes
constexpr u32 PIXELS = ROWS * COLUMNS;
constexpr u32 PATCH_BYTES = (ROWS + TAPS - 1) * PATCH_ROW_BYTES;
constexpr u32 PATCH_STAGE = (PATCH_BYTES + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES;
constexpr u32 ROW_SUMS = 4, OWN_SUMS = OWN_ROWS * ROW_SUMS;  // of a thread: of a row, and of the rows that its warpgroup finishes
constexpr u32 GIFT_BYTES = OWN_SUMS * 4 * WARPGROUP;         // those sums of all threads, of one chain

static_assert(OWN_ROWS % 2 == 0, "rows are turned round in pairs");
static_assert(OWN_ROWS * COLUMNS * K_BYTES <= GIFT_BYTES, "rows are turned round where their sums were given");

// Shared memory: patches, weights, barriers.
struct Room {
    u32 patches, weights, barriers, stages;

    __device__ __forceinline__ Room(const ConvPatchParams& p, u32 base) {
        stages = p.weight_stages;
        patches = base;
        weights = patches + p.k_blocks * PATCH_STAGE;
        barriers = weights + stages * WEIGHT_BYTES;
    }
    __device__ __forceinline__ u32 patch(u32 block) const { return patches + block * PATCH_STAGE; }
    __device__ __forceinline__ u32 patch_full(u32 block) const { return barriers + block * 8; }
    __device__ __forceinline__ u32 patches_empty() const { return barriers + MAX_BLOCKS * 8; }
    __device__ __forceinline__ u32 weight(u32 stage) const { return weights + stage * WEIGHT_BYTES; }
    __device__ __forceinline__ u32 weight_full(u32 stage) const { return barriers + (MAX_BLOCKS + 2) * 8 + stage * 16; }
    __device__ __forceinline__ u32 weight_empty(u32 stage) const { return weight_full(stage) + 8; }

    __device__ __forceinline__ void init(const ConvPatchParams& p) const {
        for (u32 i = 0; i < p.k_blocks; ++i) barrier_init(patch_full(i), 1);
        barrier_init(patches_empty(), WORKERS / WARP);
        for (u32 i = 0; i < stages; ++i) {
            barrier_init(weight_full(i), 1);
            barrier_init(weight_empty(i), WARPGROUP / WARP);
        }
        barrier_init_fence();
    }
};

// A place in a warpgroup's ring of weights, and how often the ring went round. The rings lie in each other: one has the even stages, the
// other the odd ones. A barrier tells a phase only from the next one, so no stage may change hands: of one warpgroup's stages the other
// one's loads and products say nothing, and it may be ahead by any number of them.
struct Ring {
    u32 stage, parity = 0;
    __device__ __forceinline__ explicit Ring(u32 group) : stage(group) {}
    __device__ __forceinline__ void advance(const Room& room) {
        stage += WARPGROUPS;
        if (stage >= room.stages) {
            stage %= WARPGROUPS;
            parity ^= 1;
        }
    }
};

// How the blocks of K are shared out. Of every chain as many stages are filled, the last of a shorter one with nothing.
template <u32 CHAINS>
struct Split {
    static constexpr u32 OWN = CHAINS / WARPGROUPS;  // chains of a warpgroup
    u32 blocks;

    __device__ __forceinline__ explicit Split(const ConvPatchParams& p) : blocks(TAPS * TAPS * p.k_blocks) {}
    __device__ __forceinline__ u32 first(u32 chain) const { return chain * blocks / CHAINS; }
    __device__ __forceinline__ u32 count(u32 chain) const { return first(chain + 1) - first(chain); }
    __device__ __forceinline__ u32 shortest() const { return blocks / CHAINS; }
    __device__ __forceinline__ u32 longest() const { return (blocks + CHAINS - 1) / CHAINS; }
};

// The weights of a warpgroup's chains, as they are loaded: of one chain and the other in turn.
template <u32 CHAINS>
struct Weights {
    struct Chain {
        u64 next;
        u32 left;
    } chains[2];
    u64 step;

    __device__ __forceinline__ Weights(const ConvPatchParams& p, u32 group, u32 channel) : step(static_cast<u64>(p.channels) * K_BYTES) {
        const Split<CHAINS> split(p);
#pragma unroll
        for (u32 own = 0; own < Split<CHAINS>::OWN; ++own) {
            const u32 chain = group * Split<CHAINS>::OWN + own;
            chains[own] = {p.weights + split.first(chain) * step + channel * K_BYTES, split.count(chain)};
        }
    }
    __device__ __forceinline__ void load(const Room& room, Ring& ring) {
        Chain now = chains[0];
        const u32 full = room.weight_full(ring.stage);
        barrier_wait(room.weight_empty(ring.stage), ring.parity ^ 1);
        if (elected()) {
            if (now.left > 0) {
                barrier_arrive_expecting(full, WEIGHT_BYTES);
                copy_run(room.weight(ring.stage), reinterpret_cast<const void*>(now.next), WEIGHT_BYTES, full);
            } else {
                barrier_arrive(full);
            }
        }
        ring.advance(room);
        now = {now.next + step, now.left - 1};
        if constexpr (Split<CHAINS>::OWN == 2) {
            chains[0] = chains[1];
            chains[1] = now;
        } else {
            chains[0] = now;
        }
    }
};

// What a warp that loads does, with all its lanes: the weights of a warpgroup, and every second patch.
template <u32 CHAINS, Store STORE>
__device__ __forceinline__ void load(const ConvPatchParams& p, const Room& room, u32 group) {
    constexpr i32 POOL = STORE == Store::POOLED ? 2 : 1;
    const u32 all = p.tiles * p.channel_tiles, turns = Split<CHAINS>(p).longest() * Split<CHAINS>::OWN;
    const u32 ahead = min((room.stages + 1 - group) / WARPGROUPS, turns);
    Ring ring(group);
    Weights<CHAINS> weights(p, group, blockIdx.x % p.channel_tiles * CHANNELS);
    // Weights are constants.
    if (blockIdx.x < all) {
        for (u32 turn = 0; turn < ahead; ++turn) weights.load(room, ring);
    }
    wait_for_predecessors();
    release_successors();
    u32 parity = 1;
#pragma unroll 1
    for (u32 index = blockIdx.x; index < all; index += gridDim.x, parity ^= 1) {
        const Tile t = tile_at<ROWS, STORE>(p, index / p.channel_tiles);
        const i32 column = static_cast<i32>(t.column) * POOL - static_cast<i32>(p.pad_columns);
        const i32 row = static_cast<i32>(t.row) * POOL - static_cast<i32>(p.pad_rows);
        if (index != blockIdx.x) {
            weights = Weights<CHAINS>(p, group, index % p.channel_tiles * CHANNELS);
            for (u32 turn = 0; turn < ahead; ++turn) weights.load(room, ring);
        }
        barrier_wait(room.patches_empty(), parity);
        for (u32 block = group; block < p.k_blocks; block += LOADERS) {
            if (elected()) {
                barrier_arrive_expecting(room.patch_full(block), PATCH_BYTES);
                copy_patch(room.patch(block), &p.image, room.patch_full(block), block * BLOCK_K, column, row, t.batch);
            }
        }
#pragma unroll 1
        for (u32 turn = ahead; turn < turns; ++turn) weights.load(room, ring);
    }
}

// A chain on its way: the next block of K as its tap and its patch.
struct Walk {
    u32 tap, block;
    __device__ __forceinline__ void advance(const ConvPatchParams& p) {
        if (++block == p.k_blocks) {
            block = 0;
            ++tap;
        }
    }
};

// Sums the chains of a warpgroup, block by block in turn.
template <u32 CHAINS>
__device__ __forceinline__ void multiply(float (&sums)[CHAINS / WARPGROUPS][PIXELS / 2], const ConvPatchParams& p, const Room& room, u32 group,
                                         u32 parity, u32 lane, Ring& ring) {
    const Split<CHAINS> split(p);
    constexpr u32 OWN = Split<CHAINS>::OWN;
    const u32 rows = pixel_groups(PATCH_ROW_BYTES), chain = group * OWN;
    Walk walks[OWN];
#pragma unroll
    for (u32 own = 0; own < OWN; ++own) {
        const u32 first = split.first(chain + own);
        walks[own] = {first / p.k_blocks, first % p.k_blocks};
#pragma unroll
        for (u32 i = 0; i < PIXELS / 2; ++i) sums[own][i] = 0.0f;
    }
    u32 before = 0;
    const auto leave = [&] {
        if (lane == 0 && before != 0) barrier_arrive(before);
    };
    // Multiplies block i of a chain, whose patch no block before has met if `anew`.
    const auto step = [&](u32 own, bool anew) {
        Walk& at = walks[own];
        if (anew) barrier_wait(room.patch_full(at.block), parity);
        barrier_wait(room.weight_full(ring.stage), ring.parity);
        const u32 a = swizzled_matrix(room.weight(ring.stage));
        const u32 b = swizzled_matrix(room.patch(at.block) + at.tap / TAPS * PATCH_ROW_BYTES + at.tap % TAPS * K_BYTES);
        products_begin();
#pragma unroll
        for (u32 j = 0; j < BLOCK_K / PRODUCT_K; ++j) {
            const u32 offset = j * PRODUCT_K * 2 >> 4;  // descriptors count in 16 bytes
            PatchProduct<PIXELS>::multiply(sums[own], a + offset, b + offset, rows);
        }
        products_commit();
        // The products before are done.
        products_wait<1>();
        leave();
        before = room.weight_empty(ring.stage);
        ring.advance(room);
        at.advance(p);
    };
    const u32 shortest = split.shortest();
#pragma unroll 1
    for (u32 i = 0; i < shortest; ++i) {
#pragma unroll
        for (u32 own = 0; own < OWN; ++own) step(own, i < p.k_blocks);
    }
    if (shortest < split.longest()) {
#pragma unroll 1
        for (u32 own = 0; own < OWN; ++own) {
            if (split.count(chain + own) > shortest) {
                if (own == 0) {
                    step(0, shortest < p.k_blocks);
                } else {
                    step(OWN - 1, shortest < p.k_blocks);
                }
                continue;
            }
            products_wait<0>();
            leave();
            barrier_wait(room.weight_full(ring.stage), ring.parity);
            before = room.weight_empty(ring.stage);
            ring.advance(room);
        }
    }
    products_wait<0>();
    leave();
}

// All warpgroups meet.
__device__ __forceinline__ void workers_meet() {
    asm volatile("bar.sync %0, %1;" ::"n"(WARPGROUPS + 1), "n"(WORKERS) : "memory");
}

// Adds up the chains of the rows that a warpgroup finishes. The first one has the first chains, and gives the other one the sum of
// them; the other gives each of its chains, for the first to add in order.
template <u32 CHAINS>
__device__ __forceinline__ void exchange(const float (&sums)[CHAINS / WARPGROUPS][PIXELS / 2], float (&own)[OWN_SUMS], u32 base, u32 group, u32 thread) {
    constexpr u32 OWN = Split<CHAINS>::OWN;
    const auto gift = [&](u32 to, u32 number) { return base + (to * OWN + number) * GIFT_BYTES + thread * 16; };
    const auto give = [&](u32 address, const float* from) {
#pragma unroll
        for (u32 i = 0; i < OWN_SUMS; i += 4) {
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address + i * 4 * WARPGROUP), "f"(from[i]), "f"(from[i + 1]), "f"(from[i + 2]),
                         "f"(from[i + 3])
                         : "memory");
        }
    };
    const auto add = [&](const float* other) {
#pragma unroll
        for (u32 i = 0; i < OWN_SUMS; ++i) own[i] = __fadd_rn(own[i], other[i]);
    };
    const auto take = [&](float (&to)[OWN_SUMS], u32 address) {
#pragma unroll
        for (u32 i = 0; i < OWN_SUMS; i += 4) {
            const float4 four = load_four(address + i * 4 * WARPGROUP);
            to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
        }
    };
    // The patches have been read.
    workers_meet();
    if (group == 0) {
        const auto total = [&](u32 first) {
#pragma unroll
            for (u32 i = 0; i < OWN_SUMS; ++i) own[i] = sums[0][first + i];
#pragma unroll
            for (u32 chain = 1; chain < OWN; ++chain) add(sums[chain] + first);
        };
        total(OWN_SUMS);
        give(gift(1, 0), own);
        total(0);
    } else {
#pragma unroll
        for (u32 chain = 0; chain < OWN; ++chain) give(gift(0, chain), sums[chain]);
    }
    workers_meet();
    if (group == 0) {
#pragma unroll
        for (u32 chain = 0; chain < OWN; ++chain) {
            float given[OWN_SUMS];
            take(given, gift(0, chain));
            add(given);
        }
    } else {
        take(own, gift(1, 0));
#pragma unroll
        for (u32 chain = 0; chain < OWN; ++chain) add(sums[chain] + OWN_SUMS);
    }
    // All of the warpgroup have read what it was given: its rows are turned round there.
    warpgroup_meet(group);
}

// What a warpgroup does.
template <u32 CHAINS, Store STORE>
__device__ __forceinline__ void work(const ConvPatchParams& p, const Room& room, u8* memory, u32 group, u32 thread) {
    constexpr u32 POOL = STORE == Store::POOLED ? 2 : 1;
    const u32 lane = thread % WARP, warp = __shfl_sync(0xffffffff, thread / WARP, 0), all = p.tiles * p.channel_tiles;
    const float* biases = reinterpret_cast<const float*>(p.epilogue.bias);
    Ring ring(group);
    u32 parity = 0;
    wait_for_predecessors();
#pragma unroll 1
    for (u32 index = blockIdx.x; index < all; index += gridDim.x, parity ^= 1) {
        const u32 channel = index % p.channel_tiles * CHANNELS, own_channel = channel + warp * 16 + lane / 4;
        Tile t = tile_at<ROWS, STORE>(p, index / p.channel_tiles);
        t.row += group * (OWN_ROWS / POOL);
        float bias[2] = {};
        if (STORE != Store::ANY && biases != nullptr) bias[0] = biases[own_channel], bias[1] = biases[own_channel + 8];
        float sums[Split<CHAINS>::OWN][PIXELS / 2], own[OWN_SUMS];
        multiply<CHAINS>(sums, p, room, group, parity, lane, ring);
        exchange<CHAINS>(sums, own, room.patches, group, thread);
        store_tile<OWN_ROWS, STORE>(p, t, own, bias, channel, memory + group * Split<CHAINS>::OWN * GIFT_BYTES, group, thread);
        if (lane == 0) barrier_arrive(room.patches_empty());
    }
}

template <u32 CHAINS, Store STORE>
__device__ __forceinline__ void convolve(const ConvPatchParams& p) {
    extern __shared__ __align__(1024) u8 memory[];
    const Room room(p, shared_address(memory));
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0);
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        room.init(p);
    }
    __syncthreads();
    if (warp < WORKERS / WARP) {
        work<CHAINS, STORE>(p, room, memory, warp / (WARPGROUP / WARP), threadIdx.x % WARPGROUP);
    } else {
        load<CHAINS, STORE>(p, room, warp - WORKERS / WARP);
    }
}

// Kernels for so many chains (plan/tactic/conv_chains.rs). Each stands for every way to store. Their registers, too, leave room for others.
#define CONV_CHAINS_KERNEL(CHAINS, NAME, STORE)                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) conv_chains_c##CHAINS##_##NAME(const __grid_constant__ ConvPatchParams p) { \
        convolve<CHAINS, Store::STORE>(p);                                                                             \
    }
#define CONV_CHAINS(CHAINS)                                                                                            \
    CONV_CHAINS_KERNEL(CHAINS, plain, PLAIN)                                                                           \
    CONV_CHAINS_KERNEL(CHAINS, any, ANY)                                                                               \
    CONV_CHAINS_KERNEL(CHAINS, pooled, POOLED)

CONV_CHAINS(2)
CONV_CHAINS(4)
