// Convolution for Hopper by tiles of 256 and more pixels and 128 channels: the sums and bits of conv_wgmma.cu, for products that have
// about as many such tiles as there are multiprocessors.
//
// What bounds large products is shared memory, which gives 128 bytes a cycle to what the copy engine writes and what the products read.
// A K block of M pixels and N channels is written once, (M + N) * 128 bytes, and read by the products of M / 64 warpgroups, each its own
// pixels and all channels: of tiles of 128 by 128 that is 160 bytes in each cycle of the tensor cores, of 320 by 128 it is 141.
//
// One block's warpgroups work on the same tile, 64 pixels each. Registers are given to four warps at a time, and five warpgroups need
// them all: so no warp loads alone, but a thread of the first one asks for what comes next while its products are computed. When all
// have multiplied, the stages' memory is where results are turned round, and the copy engine stores them (conv_wgmma_pingpong.cuh).

#include "conv_wgmma_pingpong.cuh"

// Bytes kept for barriers: of each stage two, of each warpgroup one for what is joined.
constexpr u32 BARRIER_BYTES = 256;

// A tile of so many warpgroups' pixels, and how many K blocks are in flight.
template <u32 GROUPS, u32 DEPTH>
struct Shape {
    static constexpr u32 TILE_M = GROUPS * WARPGROUP_ROWS, TILE_N = 128, STAGES = DEPTH, WARPGROUPS = GROUPS;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP;
    static constexpr u32 IMAGE_BYTES = TILE_M * K_BYTES, STAGE_BYTES = (TILE_M + TILE_N) * K_BYTES;
    static constexpr bool FUNCTIONS = true;
    // Shared memory: stages, barriers. Results lie where the stages were.
    static constexpr u32 OUTPUTS = 0;
    static constexpr u32 BARRIERS = DEPTH * STAGE_BYTES;
    static constexpr u32 JOINED = BARRIERS + DEPTH * 16;
    static_assert(DEPTH * 16 + GROUPS * 8 <= BARRIER_BYTES, "barriers fit");
    static_assert(TILE_M * TILE_N * 2 <= BARRIERS, "results fit the stages");
};

// The threads that multiply meet.
template <u32 WORKERS>
__device__ __forceinline__ void workers_meet() {
    asm volatile("barrier.sync 1, %0;" ::"n"(WORKERS) : "memory");
}

// The warp that loads: where the K blocks of a tile come from.
template <class S>
struct Source {
    const ConvWgmmaParams& p;
    Walk walk;
    WeightRuns weights;
    u32 begin, count;

    __device__ __forceinline__ Source(const ConvWgmmaParams& params, const Tile& t, const Blocks& blocks)
        : p(params), walk(walk_from<S>(params, t, 0)), weights(weight_runs<S>(params, t, blocks.begin)), begin(blocks.begin), count(blocks.count()) {}

    // Asks for the pixels of the `k`th block: one thread.
    __device__ __forceinline__ void load_pixels(u32 k, u32 base, u32 stage) const {
        const u32 tap = (begin + k) / p.channel_blocks, down = tap / p.kernel_columns;
        copy_im2col(base + stage * S::STAGE_BYTES, &p.image, base + S::BARRIERS + stage * 16, (begin + k - tap * p.channel_blocks) * BLOCK_K, walk.x,
                    walk.y, walk.batch, static_cast<u16>((tap - down * p.kernel_columns) * p.dilation_columns),
                    static_cast<u16>(down * p.dilation_rows));
    }

    // Asks for the `k`th block when its stage, whose last block was `before`, is left.
    __device__ __forceinline__ void load(u32 k, u32 base, const Ring<S::STAGES>& before) const {
        barrier_wait(base + S::BARRIERS + before.stage * 16 + 8, before.parity);
        if (elected()) {
            load_weights<S>(weights, k, base, before.stage);
            load_pixels(k, base, before.stage);
        }
    }
};

// Multiplies the stages of a tile into `sums`, which start anew; the warp that loads has asked for the first ones, and asks for the others.
template <class S>
__device__ __forceinline__ void multiply_and_load(float (&sums)[S::TILE_N / 2], const Source<S>& source, bool loads, u32 base, u32 group, u32 lane,
                                                  Ring<S::STAGES>& ring) {
    // Set here, not by the first product: some compilers would else set them between products and wait for each.
#pragma unroll
    for (u32 i = 0; i < S::TILE_N / 2; ++i) sums[i] = 0.0f;
    const u32 count = source.count;
    Ring<S::STAGES> behind = ring;  // the stage before the one that is multiplied
#pragma unroll 1
    for (u32 k = 0; k < count; ++k, ring.advance()) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        barrier_wait(full, ring.parity);
        const u32 image = base + ring.stage * S::STAGE_BYTES;
        const u32 a = swizzled_matrix(image + group * WARPGROUP_ROWS * K_BYTES);
        const u32 b = swizzled_matrix(image + S::IMAGE_BYTES);
        products_begin();
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            const u32 step = i * PRODUCT_K * 2 >> 4;  // descriptors count in 16 bytes
            Wgmma<S::TILE_N>::multiply(sums, a + step, b + step);
        }
        products_commit();
        // The products of the stage before are done: when all warps' are, it is filled again, while those of this one go on.
        products_wait<1>();
        if (k > 0) {
            if (lane == 0) barrier_arrive(base + S::BARRIERS + behind.stage * 16 + 8);
            if (loads && k - 1 + S::STAGES < count) source.load(k - 1 + S::STAGES, base, behind);
            __syncwarp();
            behind.advance();
        }
    }
    products_wait<0>();
    if (count > 0 && lane == 0) barrier_arrive(base + S::BARRIERS + behind.stage * 16 + 8);
}

// Brings what is joined to a warpgroup's rows where they will be stored from.
template <class S>
__device__ __forceinline__ void load_joined_rows(const ConvPingPongParams& f, const Tile& t, u32 base, u32 group) {
    const u32 barrier = base + S::JOINED + group * 8, place = base + S::OUTPUTS + group * WARPGROUP_ROWS * STRIP_ROW_BYTES;
    const u32 strips = min((f.product.channels - t.channel + STRIP - 1) / STRIP, S::TILE_N / STRIP);
    barrier_arrive_expecting(barrier, strips * WARPGROUP_ROWS * STRIP_ROW_BYTES);
#pragma unroll 1
    for (u32 i = 0; i < strips; ++i) {
        copy_box(place + i * STRIP_OF_TILE<S>, &f.joined, barrier, static_cast<i32>(t.channel + i * STRIP),
                 static_cast<i32>(t.pixel + group * WARPGROUP_ROWS));
    }
}

// Finishes a warp's rows of a tile.
template <class S>
__device__ __forceinline__ void finish_rows(const ConvPingPongParams& f, const float (&sums)[S::TILE_N / 2], const Tile& t, u32 base, u32 first_row,
                                            u32 lane) {
    const Epilogue& e = f.product.epilogue;
    const OwnRows rows = {base + S::OUTPUTS + first_row * STRIP_ROW_BYTES, t.pixel + first_row, t.channel};
    round_strips<S>(f, sums, rows, 0, lane);
    if (!is_clip(e)) {
        // What functions there are is long and stands here once.
        const u32 strips = min(S::TILE_N / STRIP, (f.product.channels - t.channel + STRIP - 1) / STRIP);
        __syncwarp();
#pragma unroll 1
        for (u32 i = 0; i < strips; ++i) {
            apply_to_strip(e, strip_at<S>(rows, 0, i), lane);
            store_strip<S>(f, rows, 0, i);
        }
    }
    if (elected()) stores_commit();
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
    const u32 group = warp / WARPS;
    const bool loads = warp == 0;
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        prefetch_map(&f.output);
        if (is_join(p.epilogue)) prefetch_map(&f.joined);
        for (u32 i = 0; i < S::STAGES; ++i) {
            barrier_init(base + S::BARRIERS + i * 16, 1);                      // full: the copies
            barrier_init(base + S::BARRIERS + i * 16 + 8, S::WORKERS / WARP);  // empty: the warps
        }
        for (u32 i = 0; i < S::WARPGROUPS; ++i) barrier_init(base + S::JOINED + i * 8, 1);
        barrier_init_fence();
    }
    __syncthreads();
    Ring<S::STAGES> ring;
    u32 turn = 0;
#pragma unroll 1
    for (u32 i = blockIdx.x; i < p.tiles; i += gridDim.x, turn ^= 1) {
        const Tile t = tile_at<S>(p, i);
        const Source<S> source(p, t, blocks_of(p, t));
        const u32 first = min(source.count, S::STAGES);
        if (loads) {
            Ring<S::STAGES> stage = ring;
#pragma unroll 1
            for (u32 k = 0; k < first; ++k, stage.advance()) {
                if (elected()) load_weights<S>(source.weights, k, base, stage.stage);
            }
        }
        if (i == blockIdx.x) {
            // Weights are constants: they come before the launches that make the image have ended.
            wait_for_predecessors();
            // Not before: launches further behind would take places on the SMs, and the next one's blocks lie unevenly.
            release_successors();
        }
        if (loads) {
            Ring<S::STAGES> stage = ring;
#pragma unroll 1
            for (u32 k = 0; k < first; ++k, stage.advance()) {
                if (elected()) source.load_pixels(k, base, stage.stage);
            }
        }
        __syncwarp();
        float sums[S::TILE_N / 2];
        multiply_and_load<S>(sums, source, loads, base, group, lane, ring);
        workers_meet<S::WORKERS>();  // nobody reads the stages any more
        if (is_join(p.epilogue)) {
            if (warp % WARPS == 0 && elected()) load_joined_rows<S>(f, t, base, group);
            barrier_wait(base + S::JOINED + group * 8, turn);
        }
        finish_rows<S>(f, sums, t, base, warp * WARP_ROWS, lane);
        if (i + gridDim.x < p.tiles) {
            if (elected()) stores_have_read<0>();
            __syncwarp();
            workers_meet<S::WORKERS>();  // the results have left the stages
        }
    }
    if (elected()) stores_have_ended();
}

// Kernels of the menu (plan/tactic/conv_large.rs): warpgroups, stages.
#define CONV_LARGE(GROUPS, STAGES)                                                                  \
    extern "C" __global__ void __launch_bounds__(Shape<GROUPS, STAGES>::WORKERS, 1)                 \
        conv_large_g##GROUPS##_s##STAGES(const __grid_constant__ ConvPingPongParams p) {            \
        convolve<Shape<GROUPS, STAGES>>(p);                                                         \
    }

CONV_LARGE(4, 4)
CONV_LARGE(5, 4)
