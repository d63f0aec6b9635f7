// Convolution of 3 by 3 neighbours and the greatest of every 2 by 2 results for Hopper, where every SM has several tiles: the sums of
// conv_wgmma.cu, of which only the maxima are stored.
//
// A tile is 64 places that follow each other, counted through the columns that are pooled, pairs of rows, and samples: 64 pixels of the
// pairs' upper rows and 64 of their lower ones. An im2col map each of every second row of the input, of the even ones and of the odd
// ones, brings them: which of them a row of taps meets changes from tap to tap. So both rows of a maximum are sums of one thread, and
// both columns those of neighbouring lanes. Warpgroups take the tiles in turn, as those of conv_wgmma_pingpong.cu: while one rounds
// and stores, another multiplies.

#include "conv_wgmma_pingpong.cuh"

constexpr u32 BARRIER_BYTES = 256;
constexpr u32 PARTS = 2;  // rows of a pair

struct ConvPooledParams {
    ConvWgmmaParams product;  // its image is the even rows; pixels are places, tiles count 64 of them
    TensorMap odd;            // the same of the odd rows
    TensorMap output;         // maxima by channels: a box is a warp's of a strip
    u32 shift;                // 1 where the upper row's first tap meets the odd rows, else 0
    u32 padding[15];
};

static_assert(sizeof(ConvPooledParams) == sizeof(ConvWgmmaParams) + 256 + 64, "mirrored in bind/conv_pooled.rs");

// 64 places and 128 channels of a tile; two warpgroups multiply.
struct Shape {
    static constexpr u32 TILE_M = WARPGROUP_ROWS, TILE_N = 128, STAGES = 6, WARPGROUPS = 2;
    static constexpr u32 THREADS = (WARPGROUPS + 1) * WARPGROUP;
    static constexpr u32 PART_BYTES = TILE_M * K_BYTES, IMAGE_BYTES = PARTS * PART_BYTES, STAGE_BYTES = IMAGE_BYTES + TILE_N * K_BYTES;
    // Registers of a thread that multiplies, and of one that loads.
    static constexpr u32 WORK_REGISTERS = 232, LOAD_REGISTERS = 40;
    static_assert((WARPGROUPS * WORK_REGISTERS + LOAD_REGISTERS) * WARPGROUP <= 65536, "there are registers for all");
    // Shared memory: stages, what is stored, barriers.
    static constexpr u32 OUTPUTS = STAGES * STAGE_BYTES, OUTPUT_BYTES = TILE_M / 2 * TILE_N * 2;
    static constexpr u32 BARRIERS = OUTPUTS + WARPGROUPS * OUTPUT_BYTES, ORDER_BARRIERS = BARRIERS + STAGES * 16;
    static_assert(STAGES * 16 + WARPGROUPS * 8 <= BARRIER_BYTES, "barriers fit");
};

using Sums = float[PARTS][Shape::TILE_N / 2];

// Fills stages with the pixels of a tile. A whole warp comes here.
__device__ __forceinline__ void load_rows(const ConvPooledParams& f, const Walk& w, u32 base, Ring<Shape::STAGES>& ring) {
    const ConvWgmmaParams& p = f.product;
    u32 block = 0, down = 0, across = 0;
#pragma unroll 1
    for (u32 k = 0; k < p.k_blocks; ++k, ring.advance()) {
        const u32 full = base + Shape::BARRIERS + ring.stage * 16;
        if (!ring.fresh) barrier_wait(full + 8, ring.parity ^ 1);
        if (elected()) {
#pragma unroll
            for (u32 part = 0; part < PARTS; ++part) {
                const u32 row = part + down + f.shift;
                copy_im2col(base + ring.stage * Shape::STAGE_BYTES + part * Shape::PART_BYTES, row % 2 == 0 ? &p.image : &f.odd, full, block * BLOCK_K, w.x, w.y,
                            w.batch, static_cast<u16>(across), static_cast<u16>(row / 2));
            }
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

// Multiplies the stages of a tile into `sums`, which start anew. When the last of them is there, it is the next warpgroup's turn, whose
// barrier is `next`.
__device__ __forceinline__ void multiply_rows(Sums& sums, u32 count, u32 next, u32 base, u32 lane, Ring<Shape::STAGES>& ring) {
    // Set here, not by the first product: some compilers would else set them between products and wait for each.
#pragma unroll
    for (u32 i = 0; i < PARTS; ++i) {
#pragma unroll
        for (u32 j = 0; j < Shape::TILE_N / 2; ++j) sums[i][j] = 0.0f;
    }
    u32 previous = 0;
#pragma unroll 1
    for (u32 k = 0; k < count; ++k, ring.advance()) {
        const u32 full = base + Shape::BARRIERS + ring.stage * 16;
        barrier_wait(full, ring.parity);
        if (k + 1 == count && lane == 0) barrier_arrive(next);
        const u32 image = base + ring.stage * Shape::STAGE_BYTES;
        const u32 a = swizzled_matrix(image), b = swizzled_matrix(image + Shape::IMAGE_BYTES);
        products_begin();
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            const u32 step = i * PRODUCT_K * 2 >> 4;  // descriptors count in 16 bytes
#pragma unroll
            for (u32 part = 0; part < PARTS; ++part) Wgmma<Shape::TILE_N>::multiply(sums[part], a + part * (Shape::PART_BYTES >> 4) + step, b + step);
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

// Of a strip of channels, the maxima of the warp's 16 places of both rows: eight rows of shared memory, of which lanes 4 i .. 4 i + 3
// of each 8 by 8 matrix hold one.
template <u32 C = 0>
__device__ __forceinline__ void store_maxima(const ConvPooledParams& f, const Sums& sums, u32 to, u32 place, u32 channel, u32 lane) {
    constexpr u32 STEP = Shape::TILE_M / 2 * STRIP_ROW_BYTES;  // from strip to strip
    const Epilogue& e = f.product.epilogue;
    const u32 first = channel + C * STRIP;
    float2 bias[STRIP / GROUP];
    load_biases(bias, e, first, f.product.channels, lane);
    u32 upper[STRIP / 4], lower[STRIP / 4];
    fragment_to_halves<C * STRIP / 2, STRIP / 2>(upper, sums[0], bias, e);
    fragment_to_halves<C * STRIP / 2, STRIP / 2>(lower, sums[1], bias, e);
    // Even rows of lanes keep the maxima of places 0 to 7, odd ones those of 8 to 15.
    const bool odd = lane / 4 % 2 != 0;
    u32 maxima[STRIP / GROUP];
#pragma unroll
    for (u32 j = 0; j < STRIP / GROUP; ++j) {
        const u32 low = greater_halves(upper[2 * j], lower[2 * j]), high = greater_halves(upper[2 * j + 1], lower[2 * j + 1]);
        const u32 other = __shfl_xor_sync(0xffffffff, odd ? low : high, 4);
        maxima[j] = greater_halves(odd ? high : low, other);
    }
    // Lanes 8 i .. 8 i + 7 name the rows of the i-th matrix.
    const u32 row = lane % 2 * 4 + lane % 8 / 2;
#pragma unroll
    for (u32 j = 0; j < STRIP / GROUP; j += 4) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + C * STEP + strip_piece(row, j + lane / 8)),
                     "r"(maxima[j]), "r"(maxima[j + 1]), "r"(maxima[j + 2]), "r"(maxima[j + 3])
                     : "memory");
    }
    copy_fence();
    __syncwarp();
    if (elected()) store_box(&f.output, to + C * STEP, static_cast<i32>(first), static_cast<i32>(place / 2));
    if constexpr (C + 1 < Shape::TILE_N / STRIP) store_maxima<C + 1>(f, sums, to, place, channel, lane);
}

// What a warpgroup does: every `WARPGROUPS`th tile of the block.
__device__ __forceinline__ void work(const ConvPooledParams& f, u32 base, u32 group, u32 warp, u32 lane) {
    const ConvWgmmaParams& p = f.product;
    const u32 own = base + Shape::ORDER_BARRIERS + group * 8, next = base + Shape::ORDER_BARRIERS + (group + 1) % Shape::WARPGROUPS * 8;
    const u32 to = base + Shape::OUTPUTS + group * Shape::OUTPUT_BYTES + warp * (WARP_ROWS / 2) * STRIP_ROW_BYTES;
#pragma unroll 1
    for (u32 turn = 0; blockIdx.x + (turn * Shape::WARPGROUPS + group) * gridDim.x < p.tiles; ++turn) {
        const u32 number = turn * Shape::WARPGROUPS + group, before = number * p.k_blocks;
        const Tile t = tile_at<Shape>(p, blockIdx.x + number * gridDim.x);
        Ring<Shape::STAGES> ring = {before % Shape::STAGES, before / Shape::STAGES % 2};
        // A barrier tells a phase only from the next one, so a warpgroup does not ask for its stages before it is its turn.
        barrier_wait(own, (group == 0 ? turn + 1 : turn) % 2);
        Sums sums;
        multiply_rows(sums, p.k_blocks, next, base, lane, ring);
        if (elected()) stores_have_read<0>();
        __syncwarp();
        store_maxima(f, sums, to, t.pixel + warp * WARP_ROWS, t.channel, lane);
        if (elected()) stores_commit();
        __syncwarp();
    }
    if (elected()) stores_have_ended();
}

__device__ __forceinline__ void load_all(const ConvPooledParams& f, u32 base, u32 warp) {
    const ConvWgmmaParams& p = f.product;
    Ring<Shape::STAGES> ring;
    // Weights are constants: they come before the launches that make the image have ended.
    u32 ahead = 0;
    if (warp == 0) ahead = load_ahead<Shape>(weight_runs<Shape>(p, tile_at<Shape>(p, blockIdx.x), 0), p.k_blocks, base);
    wait_for_predecessors();
    if (warp > 1) return;
#pragma unroll 1
    for (u32 i = blockIdx.x; i < p.tiles; i += gridDim.x, ahead = 0) {
        const Tile t = tile_at<Shape>(p, i);
        if (warp == 0) {
            load<Shape, Loads::WEIGHTS>(p, Walk{}, weight_runs<Shape>(p, t, 0), p.k_blocks, ahead, base, ring);
        } else {
            load_rows(f, walk_from<Shape>(p, t, 0), base, ring);
        }
    }
}

extern "C" __global__ void __launch_bounds__(Shape::THREADS, 1) conv_pooled(const __grid_constant__ ConvPooledParams f) {
    // The swizzle's pattern begins at multiples of 1024 bytes, as dynamic shared memory does where nothing else is shared.
    extern __shared__ __align__(1024) u8 memory[];
    const u32 base = shared_address(memory);
    // Taken from one lane, so that the compiler knows it to be the same in all.
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    constexpr u32 WARPS = WARPGROUP / WARP;
    if (threadIdx.x == 0) {
        prefetch_map(&f.product.image);
        prefetch_map(&f.odd);
        prefetch_map(&f.output);
        for (u32 i = 0; i < Shape::STAGES; ++i) {
            barrier_init(base + Shape::BARRIERS + i * 16, 1);          // full: the copies
            barrier_init(base + Shape::BARRIERS + i * 16 + 8, WARPS);  // empty: the warps of a warpgroup
        }
        for (u32 i = 0; i < Shape::WARPGROUPS; ++i) barrier_init(base + Shape::ORDER_BARRIERS + i * 8, WARPS);
        barrier_init_fence();
    }
    __syncthreads();
    if (warp >= Shape::WARPGROUPS * WARPS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Shape::LOAD_REGISTERS));
        load_all(f, base, warp - Shape::WARPGROUPS * WARPS);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Shape::WORK_REGISTERS));
        wait_for_predecessors();  // the output's place may still be read
        release_successors();
        work(f, base, warp / WARPS, warp % WARPS, lane);
    }
}
