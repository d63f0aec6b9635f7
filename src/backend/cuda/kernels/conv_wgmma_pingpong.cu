// Convolution for Hopper where every SM has several tiles: the sums and bits of conv_wgmma.cu, by two warpgroups that take turns at
// the tensor cores.
//
// Each warpgroup multiplies tiles of its own, and finishes one while the other multiplies the next: the tensor cores, which stand
// still at the end of every tile of conv_wgmma.cu, do not wait for rounding, functions and stores. (CUTLASS calls such kernels
// ping-pong.) Stages pass in order, so the second tile begins when the last stage of the first is there. Warps of a third warpgroup
// load weights, pixels and what is joined, and leave their registers to the two that multiply.
//
// Blocks may work in pairs, on tiles of the same pixels and neighbouring channels: each loads every second K block of the pixels, for
// both. So what leaves the second cache is a quarter less, which bounds products whose tiles are no wider than 128.

#include "conv_wgmma_pingpong.cuh"

constexpr u32 BARRIER_BYTES = 256;

// A warpgroup's tile of M pixels and N channels, how many warpgroups multiply, how many K blocks are in flight, and whether blocks
// work in pairs.
template <u32 M, u32 N, u32 GROUPS, u32 DEPTH, bool PAIRS>
struct Shape {
    static constexpr bool PAIR = PAIRS;
    static constexpr u32 TILE_M = M, TILE_N = N, STAGES = DEPTH, WARPGROUPS = GROUPS, BUFFERS = 1;
    static constexpr u32 THREADS = (WARPGROUPS + 1) * WARPGROUP;
    static constexpr u32 IMAGE_BYTES = M * K_BYTES, STAGE_BYTES = (M + N) * K_BYTES;
    static constexpr bool FUNCTIONS = true;
    // Registers of a thread that multiplies, and of one that loads.
    static constexpr u32 WORK_REGISTERS = GROUPS == 2 ? 232 : 152, LOAD_REGISTERS = GROUPS == 2 ? 40 : 56;
    static_assert((GROUPS * WORK_REGISTERS + LOAD_REGISTERS) * WARPGROUP <= 65536, "there are registers for all");
    // Shared memory: stages, the warpgroups' buffers, barriers.
    static constexpr u32 OUTPUTS = DEPTH * STAGE_BYTES;
    static constexpr u32 BARRIERS = OUTPUTS + WARPGROUPS * M * N * 2;
    static constexpr u32 BUFFER_BARRIERS = BARRIERS + DEPTH * 16;
    static constexpr u32 ORDER_BARRIERS = BUFFER_BARRIERS + WARPGROUPS * BUFFERS * 16;
    static_assert(DEPTH * 16 + WARPGROUPS * (BUFFERS * 16 + 8) <= BARRIER_BYTES, "barriers fit");
};

// --- blocks in pairs: a cluster of two ---

// Pixels of an im2col map into the same place of both blocks; the bytes count at the same barrier of each.
__device__ __forceinline__ void copy_im2col_to_both(u32 to, const TensorMap* map, u32 barrier, i32 channel, i32 x, i32 y, i32 image, u16 across,
                                                    u16 down) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(to),
        "l"(map), "r"(barrier), "r"(channel), "r"(x), "r"(y), "r"(image), "h"(across), "h"(down), "h"(static_cast<u16>(3))
        : "memory");
}

// Waits until the barriers of both blocks are set: nobody copies into a block, or arrives there, before.
template <class S>
__device__ __forceinline__ void meet_mate() {
    if constexpr (S::PAIR) cluster_wait();
}

// Arrives at a barrier of another block, given by `remote_address`. It makes no writes visible: what stages held was read by products
// that have ended. One that did would wait, at every stage, for all that the warp has stored.
__device__ __forceinline__ void barrier_arrive_remote(u32 barrier) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// A warp needs a stage no longer: it may be filled again, in a pair by either block.
template <class S>
__device__ __forceinline__ void leave_stage(u32 empty) {
    barrier_arrive(empty);
    if constexpr (S::PAIR) barrier_arrive_remote(remote_address(empty, cluster_rank() ^ 1));
}

// Loads a block's share of a tile's pixels: of the K blocks that both blocks of the pair have, counted over all tiles, every second. Its
// warp waits for the stages of the others, too: else it would not know which phase of a stage's barrier it meets (ring.cuh). All of it
// comes here.
template <class S>
__device__ __forceinline__ void load_for_both(const ConvWgmmaParams& p, const Walk& w, u32 count, bool mine, u32 base, Ring<S::STAGES>& ring) {
    u32 block = w.block, down = w.down, across = w.across;
#pragma unroll 1
    for (u32 k = 0; k < count; ++k, ring.advance(), mine = !mine) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        if (!ring.fresh) barrier_wait(full + 8, ring.parity ^ 1);
        if (mine && elected()) {
            copy_im2col_to_both(base + ring.stage * S::STAGE_BYTES, &p.image, full, block * BLOCK_K, w.x, w.y, w.batch,
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

// Multiplies the next `count` stages into `sums`, which start anew. When the last of them is there, it is the next warpgroup's turn,
// whose barrier is `next`; 0 if more stages of the tile follow.
template <class S>
__device__ __forceinline__ void multiply_tile(TileSums<S>& sums, u32 count, u32 next, u32 base, u32 lane, Ring<S::STAGES>& ring) {
    constexpr u32 HALVES = S::TILE_M / WARPGROUP_ROWS;
    // Set here, not by the first product: some compilers would else set them between products and wait for each.
#pragma unroll
    for (u32 i = 0; i < HALVES; ++i) {
#pragma unroll
        for (u32 j = 0; j < S::TILE_N / 2; ++j) sums[i][j] = 0.0f;
    }
    if (next != 0 && count == 0 && lane == 0) barrier_arrive(next);
    u32 previous = 0;
#pragma unroll 1
    for (u32 k = 0; k < count; ++k, ring.advance()) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        barrier_wait(full, ring.parity);
        if (next != 0 && k + 1 == count && lane == 0) barrier_arrive(next);
        const u32 image = base + ring.stage * S::STAGE_BYTES;
        const u32 a = swizzled_matrix(image), b = swizzled_matrix(image + S::IMAGE_BYTES);
        products_begin();
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            const u32 step = i * PRODUCT_K * 2 >> 4;  // descriptors count in 16 bytes
#pragma unroll
            for (u32 half = 0; half < HALVES; ++half) {
                Wgmma<S::TILE_N>::multiply(sums[half], a + half * (WARPGROUP_ROWS * K_BYTES >> 4) + step, b + step);
            }
        }
        products_commit();
        // The products of the stage before are done: it may be filled again.
        products_wait<1>();
        if (k > 0 && lane == 0) leave_stage<S>(previous);
        previous = full + 8;
    }
    products_wait<0>();
    if (count > 0 && lane == 0) leave_stage<S>(previous);
}

// Stages of a block's tile.
template <class S>
__device__ __forceinline__ u32 stages_of(const ConvWgmmaParams& p, u32 number) {
    const u32 i = blockIdx.x + number * gridDim.x;
    if (p.height == 0 || i >= p.tiles) return p.k_blocks;
    return live_blocks(p, tile_at<S>(p, i)).count();
}

// What a warpgroup does: every `WARPGROUPS`th tile of the block.
template <class S, Chains CHAINS>
__device__ __forceinline__ void work(const ConvPingPongParams& f, u32 base, u32 group, u32 warp_row, u32 lane) {
    const ConvWgmmaParams& p = f.product;
    const u32 own = base + S::ORDER_BARRIERS + group * 8, next = base + S::ORDER_BARRIERS + (group + 1) % S::WARPGROUPS * 8;
    u32 before = 0;  // stages of the block's tiles before a tile
    for (u32 i = 0; i < group; ++i) before += stages_of<S>(p, i);
#pragma unroll 1
    for (u32 turn = 0; blockIdx.x + (turn * S::WARPGROUPS + group) * gridDim.x < p.tiles; ++turn) {
        const u32 number = turn * S::WARPGROUPS + group;
        const Tile t = tile_at<S>(p, blockIdx.x + number * gridDim.x);
        const Blocks live = blocks_of(p, t);
        Ring<S::STAGES> ring = {before % S::STAGES, before / S::STAGES % 2};
#pragma unroll 1
        for (u32 i = 0; i < S::WARPGROUPS; ++i) before += stages_of<S>(p, number + i);
        // A barrier tells a phase only from the next one, so a warpgroup does not ask for its stages before it is its turn.
        barrier_wait(own, (group == 0 ? turn + 1 : turn) % 2);
        TileSums<S> sums;
        if constexpr (CHAINS == Chains::ONE) {
            multiply_tile<S>(sums, live.count(), next, base, lane, ring);
        } else {
            multiply_tile<S>(sums, chain_blocks(p, live, 0).count(), 0, base, lane, ring);
#pragma unroll 1
            for (u32 chain = 1; chain < p.splits; ++chain) {
                TileSums<S> more;
                multiply_tile<S>(more, chain_blocks(p, live, chain).count(), chain + 1 == p.splits ? next : 0, base, lane, ring);
#pragma unroll
                for (u32 half = 0; half < S::TILE_M / WARPGROUP_ROWS; ++half) {
#pragma unroll
                    for (u32 j = 0; j < S::TILE_N / 2; ++j) sums[half][j] = __fadd_rn(sums[half][j], more[half][j]);
                }
            }
        }
        finish_tile<S>(f, sums, base, group, turn, t.pixel, t.channel, warp_row, lane);
    }
    if (elected()) stores_have_ended();
}

template <class S>
__device__ __forceinline__ void load_all(const ConvPingPongParams& f, u32 base, u32 warp) {
    const ConvWgmmaParams& p = f.product;
    Ring<S::STAGES> ring;
    // Weights are constants: they come before the launches that make the image have ended.
    u32 ahead = 0;
    if (warp == 0) {
        const Tile t = tile_at<S>(p, blockIdx.x);
        const Blocks blocks = blocks_of(p, t);
        ahead = load_ahead<S>(weight_runs<S>(p, t, blocks.begin), blocks.count(), base);
    }
    meet_mate<S>();
    wait_for_predecessors();
    if (warp > 2 || (warp == 2 && !is_join(p.epilogue))) return;
    u32 number = 0;
    bool mine = S::PAIR && cluster_rank() == 0;
#pragma unroll 1
    for (u32 i = blockIdx.x; i < p.tiles; i += gridDim.x, ++number, ahead = 0) {
        const Tile t = tile_at<S>(p, i);
        const Blocks blocks = blocks_of(p, t);
        if (warp == 0) {
            load<S, Loads::WEIGHTS>(p, Walk{}, weight_runs<S>(p, t, blocks.begin), blocks.count(), ahead, base, ring);
        } else if (warp == 1) {
            const Walk walk = walk_from<S>(p, t, blocks.begin);
            if constexpr (S::PAIR) {
                load_for_both<S>(p, walk, blocks.count(), mine, base, ring);
                mine ^= blocks.count() % 2 != 0;
            } else {
                load<S, Loads::PIXELS>(p, walk, WeightRuns{}, blocks.count(), 0, base, ring);
            }
        } else {
            load_joined_tile<S>(f, t.pixel, t.channel, Buffer<S>(base, number % S::WARPGROUPS, number / S::WARPGROUPS));
        }
    }
    if (S::PAIR && warp == 0) {
        // Warps of the other block arrive here until they have left all stages, and this block does not end before.
#pragma unroll 1
        for (u32 i = 0; i < S::STAGES; ++i, ring.advance()) {
            if (!ring.fresh) barrier_wait(base + S::BARRIERS + ring.stage * 16 + 8, ring.parity ^ 1);
        }
    }
}

template <class S, Chains CHAINS>
__device__ __forceinline__ void convolve(const ConvPingPongParams& f) {
    const ConvWgmmaParams& p = f.product;
    // The swizzle's pattern begins at multiples of 1024 bytes, as dynamic shared memory does where nothing else is shared.
    extern __shared__ __align__(1024) u8 memory[];
    const u32 base = shared_address(memory);
    // Taken from one lane, so that the compiler knows it to be the same in all.
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    constexpr u32 WARPS = WARPGROUP / WARP;
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        prefetch_map(&f.output);
        if (is_join(p.epilogue)) prefetch_map(&f.joined);
        for (u32 i = 0; i < S::STAGES + S::WARPGROUPS * S::BUFFERS; ++i) {
            barrier_init(base + S::BARRIERS + i * 16, 1);          // full: the copies
            barrier_init(base + S::BARRIERS + i * 16 + 8, WARPS);  // empty: the warps of a warpgroup
        }
        // Stages of a pair are left by a warpgroup of each block.
        for (u32 i = 0; S::PAIR && i < S::STAGES; ++i) barrier_init(base + S::BARRIERS + i * 16 + 8, 2 * WARPS);
        for (u32 i = 0; i < S::WARPGROUPS; ++i) barrier_init(base + S::ORDER_BARRIERS + i * 8, WARPS);
        barrier_init_fence();
    }
    __syncthreads();
    // The fence showed the barriers to the cluster.
    if constexpr (S::PAIR) cluster_arrive_relaxed();
    if (warp >= S::WARPGROUPS * WARPS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::LOAD_REGISTERS));
        load_all<S>(f, base, warp - S::WARPGROUPS * WARPS);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::WORK_REGISTERS));
        meet_mate<S>();
        wait_for_predecessors();  // the output's place may still be read
        // Not before: launches further behind would take places on the SMs, and the next one's blocks lie unevenly.
        release_successors();
        work<S, CHAINS>(f, base, warp / WARPS, warp % WARPS * WARP_ROWS, lane);
    }
}

// Kernels of the menu (plan/tactic/conv_wgmma.rs): pixels, channels, warpgroups, stages, pairs, chains.
#define CONV_PINGPONG_KERNEL(M, N, GROUPS, STAGES, PAIRS, CHAINS, NAME)                                                   \
    extern "C" __global__ void __launch_bounds__(Shape<M, N, GROUPS, STAGES, PAIRS>::THREADS, 1)                          \
        conv_wgmma_pingpong_##M##x##N##_g##GROUPS##_s##STAGES##_##NAME(const __grid_constant__ ConvPingPongParams p) {    \
        convolve<Shape<M, N, GROUPS, STAGES, PAIRS>, Chains::CHAINS>(p);                                                  \
    }
#define CONV_PINGPONG_ONE(M, N, GROUPS, STAGES) CONV_PINGPONG_KERNEL(M, N, GROUPS, STAGES, false, ONE, one)
#define CONV_PINGPONG_TURNS(M, N, GROUPS, STAGES) CONV_PINGPONG_KERNEL(M, N, GROUPS, STAGES, false, IN_TURN, turns)
#define CONV_PINGPONG_PAIR_ONE(M, N, GROUPS, STAGES) CONV_PINGPONG_KERNEL(M, N, GROUPS, STAGES, true, ONE, one_pair)
#define CONV_PINGPONG_PAIR_TURNS(M, N, GROUPS, STAGES) CONV_PINGPONG_KERNEL(M, N, GROUPS, STAGES, true, IN_TURN, turns_pair)

CONV_PINGPONG_ONE(128, 128, 2, 5)
CONV_PINGPONG_ONE(128, 64, 3, 6)
CONV_PINGPONG_ONE(64, 128, 3, 7)
CONV_PINGPONG_TURNS(128, 64, 2, 7)
CONV_PINGPONG_TURNS(64, 128, 2, 7)
CONV_PINGPONG_PAIR_ONE(128, 128, 2, 5)
CONV_PINGPONG_PAIR_TURNS(128, 64, 2, 7)
CONV_PINGPONG_PAIR_TURNS(64, 128, 2, 7)
