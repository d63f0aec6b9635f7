// Convolution for Hopper where every SM has many tiles: the sums and bits of conv_wgmma.cu, with weights that stay.
//
// A block has the weights of its channels in shared memory from its first tile to its last, so that only pixels and what is joined
// come from the second cache, whose reads are what a few SMs lack. Each warpgroup multiplies tiles of its own, 64 pixels each, in
// turns with the others: while one rounds and stores, others multiply. Between a tile's ends and memory stands the copy engine
// alone: one warp keeps a ring of stages full, another brings what is joined to a tile into the place it is stored from, where
// the warps add to it. So no warp waits for memory. For tails of bounds and a joined tensor, and pixels that follow each other at
// one distance, whose chain of products is one (bind/conv_wgmma.rs); others take the kernels of conv_wgmma.cu.

#include "conv_wgmma_pingpong.cuh"

constexpr u32 BARRIER_BYTES = 512;

// N channels of at most `BLOCKS` K blocks, warpgroups, the stages that they share, and tiles of each that are stored or joined at once.
template <u32 N, u32 BLOCKS, u32 GROUPS, u32 DEPTH, u32 PLACES>
struct Shape {
    static constexpr u32 TILE_M = WARPGROUP_ROWS, TILE_N = N, STAGES = DEPTH, WARPGROUPS = GROUPS, BUFFERS = PLACES;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP;  // threads that multiply
    static constexpr u32 THREADS = WORKERS + 2 * WARP;
    static constexpr u32 WEIGHT_BYTES = N * K_BYTES, IMAGE_BYTES = WARPGROUP_ROWS * K_BYTES;
    static constexpr bool FUNCTIONS = false;
    // Shared memory: weights, stages, buffers of the warpgroups, and barriers, 16 bytes for a stage or a buffer, which have two.
    static constexpr u32 IMAGES = BLOCKS * WEIGHT_BYTES;
    static constexpr u32 OUTPUTS = IMAGES + DEPTH * IMAGE_BYTES;
    static constexpr u32 BARRIERS = OUTPUTS + GROUPS * PLACES * N * WARPGROUP_ROWS * 2;
    static constexpr u32 BUFFER_BARRIERS = BARRIERS + DEPTH * 16;
    static constexpr u32 WEIGHT_BARRIERS = BUFFER_BARRIERS + GROUPS * PLACES * 16;
    static constexpr u32 ORDER_BARRIERS = WEIGHT_BARRIERS + BLOCKS * 8;
    static_assert((DEPTH + GROUPS * PLACES) * 16 + (BLOCKS + GROUPS) * 8 <= BARRIER_BYTES, "barriers fit");
};

// The tiles of a block: all of some channels, every `step`th one. Its warpgroups take them in turns.
struct Walkway {
    u32 channel, first, step;
};

template <class S>
__device__ __forceinline__ Walkway walkway(const ConvWgmmaParams& p) {
    const u32 row = blockIdx.x / p.channel_tiles;
    return {(blockIdx.x - row * p.channel_tiles) * S::TILE_N, row, gridDim.x / p.channel_tiles};
}

// Loads the weights of a block's channels. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load_weights(const ConvWgmmaParams& p, u32 channel, u32 base) {
    const WeightRuns runs = weight_runs<S>(p, Tile{0, 0, channel}, 0);
#pragma unroll 1
    for (u32 k = 0; k < p.k_blocks; ++k) {
        const u32 full = base + S::WEIGHT_BARRIERS + k * 8;
        if (elected()) {
            barrier_arrive_expecting(full, runs.bytes);
            copy_run(base + k * S::WEIGHT_BYTES, reinterpret_cast<const void*>(runs.address + k * runs.step), runs.bytes, full);
        }
    }
}

// Fills stages with the K blocks of a tile. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load_pixels(const ConvWgmmaParams& p, u32 pixel, u32 base, Ring<S::STAGES>& ring) {
    const Walk w = walk_from<S>(p, Tile{pixel, 0, 0}, 0);
    u32 block = 0, down = 0, across = 0;
#pragma unroll 1
    for (u32 k = 0; k < p.k_blocks; ++k, ring.advance()) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        barrier_wait(full + 8, ring.parity ^ 1);
        if (elected()) {
            barrier_arrive_expecting(full, S::IMAGE_BYTES);
            copy_im2col(base + S::IMAGES + ring.stage * S::IMAGE_BYTES, &p.image, full, block * BLOCK_K, w.x, w.y, w.batch,
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

// Multiplies the next stages with the weights into `sums`, which start anew. When the last stage is there, it is the next
// warpgroup's turn, whose barrier is `next`; 0 if nobody waits for that. Weights are waited for until they are `loaded`.
template <class S>
__device__ __forceinline__ void multiply_kept(float (&sums)[S::TILE_N / 2], u32 blocks, bool loaded, u32 next, u32 base, u32 lane,
                                              Ring<S::STAGES>& ring) {
    // Set here, not by the first product: some compilers would else set them between products and wait for each.
#pragma unroll
    for (u32 i = 0; i < S::TILE_N / 2; ++i) sums[i] = 0.0f;
    u32 previous = 0;
#pragma unroll 1
    for (u32 k = 0; k < blocks; ++k, ring.advance()) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        if (!loaded) barrier_wait(base + S::WEIGHT_BARRIERS + k * 8, 0);
        barrier_wait(full, ring.parity);
        if (next != 0 && k + 1 == blocks && lane == 0) barrier_arrive(next);
        const u32 a = swizzled_matrix(base + S::IMAGES + ring.stage * S::IMAGE_BYTES);
        const u32 b = swizzled_matrix(base + k * S::WEIGHT_BYTES);
        products_begin();
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            const u32 step = i * PRODUCT_K * 2 >> 4;  // descriptors count in 16 bytes
            Wgmma<S::TILE_N>::multiply(sums, a + step, b + step);
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

// What a warpgroup does: every `WARPGROUPS`th tile of the block.
template <class S>
__device__ __forceinline__ void work(const ConvPingPongParams& f, const Walkway& way, u32 base, u32 group, u32 first_row, u32 lane) {
    const ConvWgmmaParams& p = f.product;
    // A barrier tells a phase only from the next one. So unless a stage is always the same warpgroup's, they begin in order.
    const bool ordered = S::STAGES % (S::WARPGROUPS * p.k_blocks) != 0;
    const u32 next = ordered ? base + S::ORDER_BARRIERS + (group + 1) % S::WARPGROUPS * 8 : 0;
    u32 tile = group, row = way.first + group * way.step;
#pragma unroll 1
    for (u32 turn = 0; row < p.run_tiles; ++turn, tile += S::WARPGROUPS, row += S::WARPGROUPS * way.step) {
        const u32 stage = tile * p.k_blocks;
        Ring<S::STAGES> ring = {stage % S::STAGES, stage / S::STAGES % 2};
        if (ordered) barrier_wait(base + S::ORDER_BARRIERS + group * 8, (group == 0 ? turn + 1 : turn) % 2);
        TileSums<S> sums;
        multiply_kept<S>(sums[0], p.k_blocks, turn > 0, next, base, lane, ring);
        finish_tile<S>(f, sums, base, group, turn, p.first_pixel + row * S::TILE_M, way.channel, first_row % WARPGROUP_ROWS, lane);
    }
    if (elected()) stores_have_ended();
}

template <class S>
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
        for (u32 i = 0; i < p.k_blocks; ++i) barrier_init(base + S::WEIGHT_BARRIERS + i * 8, 1);
        for (u32 i = 0; i < S::WARPGROUPS; ++i) barrier_init(base + S::ORDER_BARRIERS + i * 8, WARPS);
        barrier_init_fence();
    }
    __syncthreads();
    const Walkway way = walkway<S>(p);
    if (warp == S::WORKERS / WARP) {
        // Weights are constants: they come before the launches that make the image have ended.
        load_weights<S>(p, way.channel, base);
        wait_for_predecessors();
        Ring<S::STAGES> ring;
        for (u32 row = way.first; row < p.run_tiles; row += way.step) load_pixels<S>(p, p.first_pixel + row * S::TILE_M, base, ring);
    } else if (warp > S::WORKERS / WARP) {
        wait_for_predecessors();
        if (!is_join(p.epilogue)) return;
        u32 group = 0, turn = 0;
        for (u32 row = way.first; row < p.run_tiles; row += way.step) {
            load_joined_tile<S>(f, p.first_pixel + row * S::TILE_M, way.channel, Buffer<S>(base, group, turn));
            if (++group == S::WARPGROUPS) {
                group = 0;
                ++turn;
            }
        }
    } else {
        wait_for_predecessors();  // the output's place may still be read
        // Not before: launches further behind would take places on the SMs, and the next one's blocks lie unevenly.
        release_successors();
        work<S>(f, way, base, warp / WARPS, warp * WARP_ROWS, lane);
    }
}

// Kernels of the menu (plan/tactic/conv_wgmma.rs): channels, most K blocks, warpgroups, stages, buffers.
#define CONV_KEPT_ONE(N, BLOCKS, GROUPS, STAGES, BUFFERS)                                                                  \
    extern "C" __global__ void __launch_bounds__(Shape<N, BLOCKS, GROUPS, STAGES, BUFFERS>::THREADS, 1)                    \
        conv_wgmma_kept_##N##_k##BLOCKS##_g##GROUPS##_s##STAGES##_one(const __grid_constant__ ConvPingPongParams p) {          \
        convolve<Shape<N, BLOCKS, GROUPS, STAGES, BUFFERS>>(p);                                                            \
    }

CONV_KEPT_ONE(128, 2, 4, 8, 2)
CONV_KEPT_ONE(128, 2, 3, 12, 2)
CONV_KEPT_ONE(128, 4, 4, 12, 1)
CONV_KEPT_ONE(128, 8, 3, 6, 1)
