// Convolution for Hopper where every SM has many tiles: the sums and bits of conv_wgmma.cu, with weights that stay.
//
// A block has the weights of its channels in shared memory from its first tile to its last, so that only pixels and what is joined
// come from the second cache, whose reads are what a few SMs lack. Each warpgroup multiplies tiles of its own, 64 pixels each, in
// turns with the others: while one rounds and stores, others multiply. Between a tile's ends and memory stands the copy engine
// alone: one warp keeps a ring of stages full, another brings what is joined to a tile into the place it is stored from, where
// the warps add to it. So no warp waits for memory. For tails of bounds and a joined tensor, and pixels that follow each other at
// one distance, whose chain of products is one (bind/conv_wgmma.rs); others take the kernels of conv_wgmma.cu.

#include "conv_wgmma_store.cuh"
#include "conv_wgmma_tile.cuh"

struct ConvKeptParams {
    ConvWgmmaParams product;
    // Maps of two axes, channels and pixels, that end with the chunk.
    TensorMap output;  // a box is a warp's rows of a strip
    TensorMap joined;  // a box is a tile's rows of a strip
};

static_assert(sizeof(ConvKeptParams) == sizeof(ConvWgmmaParams) + 256, "mirrored in bind/conv_wgmma.rs");

constexpr u32 BARRIER_BYTES = 512;

// N channels of at most `BLOCKS` K blocks, warpgroups, the stages that they share, and tiles of each that are stored or joined at once.
template <u32 N, u32 BLOCKS, u32 GROUPS, u32 DEPTH, u32 PLACES>
struct Shape {
    static constexpr u32 TILE_M = WARPGROUP_ROWS, TILE_N = N, STAGES = DEPTH, WARPGROUPS = GROUPS, BUFFERS = PLACES;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP;  // threads that multiply
    static constexpr u32 THREADS = WORKERS + 2 * WARP;
    static constexpr u32 STRIPS = N / STRIP, STRIP_OF_TILE = WARPGROUP_ROWS * STRIP_ROW_BYTES;
    static constexpr u32 WEIGHT_BYTES = N * K_BYTES, IMAGE_BYTES = WARPGROUP_ROWS * K_BYTES, BUFFER_BYTES = STRIPS * STRIP_OF_TILE;
    // Shared memory: weights, stages, buffers of the warpgroups, and barriers, 16 bytes for a stage or a buffer, which have two.
    static constexpr u32 IMAGES = BLOCKS * WEIGHT_BYTES;
    static constexpr u32 OUTPUTS = IMAGES + DEPTH * IMAGE_BYTES;
    static constexpr u32 BARRIERS = OUTPUTS + GROUPS * PLACES * BUFFER_BYTES;
    static constexpr u32 BUFFER_BARRIERS = BARRIERS + DEPTH * 16;
    static constexpr u32 WEIGHT_BARRIERS = BUFFER_BARRIERS + GROUPS * PLACES * 16;
    static constexpr u32 ORDER_BARRIERS = WEIGHT_BARRIERS + BLOCKS * 8;
    static_assert(N % STRIP == 0, "tiles are whole strips");
    static_assert((DEPTH + GROUPS * PLACES) * 16 + (BLOCKS + GROUPS) * 8 <= BARRIER_BYTES, "barriers fit");
};

// Stores a box of shared memory where a two-axis map says.
__device__ __forceinline__ void store_box(const TensorMap* map, u32 from, i32 inner, i32 outer) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from), "r"(inner), "r"(outer)
                 : "memory");
}

// Stores since the last one are a group.
__device__ __forceinline__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but this thread's last `PENDING` groups of stores have read shared memory.
template <int PENDING>
__device__ __forceinline__ void stores_have_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Waits until this thread's stores have ended.
__device__ __forceinline__ void stores_have_ended() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Adds what the strip holds to the halves of a fragment, as `join` does.
template <u32 COUNT>
__device__ __forceinline__ void join_strip(u32 (&halves)[COUNT], u32 strip, bool relu, u32 lane) {
    const u32 row = lane % 16, piece = lane / 16;
#pragma unroll
    for (u32 j = 0; j < COUNT; j += 4) {
        u32 other[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(other[0]), "=r"(other[1]), "=r"(other[2]), "=r"(other[3])
                     : "r"(strip + strip_piece(row, piece + j / 2))
                     : "memory");
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const u32 sum = add_halves(halves[j + i], other[i]);
            halves[j + i] = relu ? relu_halves(sum) : sum;
        }
    }
}

// The tiles of a block: all of some channels, every `step`th one. Its warpgroups take them in turns.
struct Walkway {
    u32 channel, first, step;
};

template <class S>
__device__ __forceinline__ Walkway walkway(const ConvWgmmaParams& p) {
    const u32 row = blockIdx.x / p.channel_tiles;
    return {(blockIdx.x - row * p.channel_tiles) * S::TILE_N, row, gridDim.x / p.channel_tiles};
}

// Of a warpgroup, the buffer of its tile `turn`, and how often that was used before.
template <class S>
struct Buffer {
    u32 place, barrier, parity;

    __device__ __forceinline__ Buffer(u32 base, u32 group, u32 turn) {
        const u32 index = group * S::BUFFERS + turn % S::BUFFERS;
        place = base + S::OUTPUTS + index * S::BUFFER_BYTES;
        barrier = base + S::BUFFER_BARRIERS + index * 16;
        parity = turn / S::BUFFERS % 2;
    }
};

// Loads the weights of a block's channels.
template <class S>
__device__ __forceinline__ void load_weights(const ConvWgmmaParams& p, u32 channel, u32 base) {
    const WeightRuns runs = weight_runs<S>(p, Tile{0, 0, channel}, 0);
#pragma unroll 1
    for (u32 k = 0; k < p.k_blocks; ++k) {
        const u32 full = base + S::WEIGHT_BARRIERS + k * 8;
        barrier_arrive_expecting(full, runs.bytes);
        copy_run(base + k * S::WEIGHT_BYTES, reinterpret_cast<const void*>(runs.address + k * runs.step), runs.bytes, full);
    }
}

// Fills stages with the K blocks of a tile.
template <class S>
__device__ __forceinline__ void load_pixels(const ConvWgmmaParams& p, u32 pixel, u32 base, Ring<S::STAGES>& ring) {
    const Walk w = walk_from<S>(p, Tile{pixel, 0, 0}, 0);
    u32 block = 0, down = 0, across = 0;
#pragma unroll 1
    for (u32 k = 0; k < p.k_blocks; ++k, ring.advance()) {
        const u32 full = base + S::BARRIERS + ring.stage * 16;
        barrier_wait(full + 8, ring.parity ^ 1);
        barrier_arrive_expecting(full, S::IMAGE_BYTES);
        copy_im2col(base + S::IMAGES + ring.stage * S::IMAGE_BYTES, &p.image, full, block * BLOCK_K, w.x, w.y, w.batch,
                    static_cast<u16>(across * p.dilation_columns), static_cast<u16>(down * p.dilation_rows));
        if (++block == p.channel_blocks) {
            block = 0;
            if (++across == p.kernel_columns) {
                across = 0;
                ++down;
            }
        }
    }
}

// Brings what is joined to a tile into its buffer.
template <class S>
__device__ __forceinline__ void load_joined_tile(const ConvKeptParams& f, u32 pixel, u32 channel, const Buffer<S>& b) {
    const u32 strips = min((f.product.channels - channel + STRIP - 1) / STRIP, S::STRIPS);
    barrier_wait(b.barrier + 8, b.parity ^ 1);
    barrier_arrive_expecting(b.barrier, strips * S::STRIP_OF_TILE);
#pragma unroll 1
    for (u32 i = 0; i < strips; ++i) {
        copy_box(b.place + i * S::STRIP_OF_TILE, &f.joined, b.barrier, static_cast<i32>(channel + i * STRIP), static_cast<i32>(pixel));
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

// Rounds the sums of a warp's 16 rows, from strip `C` on, joins what is joined, and has them stored. `place` is the warp's part of
// the tile's first strip.
template <class S, u32 C = 0>
__device__ __forceinline__ void store_strips(const ConvKeptParams& f, const float (&sums)[S::TILE_N / 2], u32 place, u32 pixel, u32 channel, u32 lane) {
    const Epilogue& e = f.product.epilogue;
    const u32 strip = place + C * S::STRIP_OF_TILE, first = channel + C * STRIP;
    if (first >= f.product.channels) return;
    float2 bias[STRIP / GROUP];
    load_biases(bias, e, first, f.product.channels, lane);
    u32 halves[STRIP / 4];
    fragment_to_halves<C * STRIP / 2, STRIP / 2>(halves, sums, bias, e);
    if (is_join(e)) join_strip(halves, strip, e.flags & EPILOGUE_JOINS_RELU, lane);
    halves_to_strip(halves, strip, lane);
    copy_fence();
    __syncwarp();
    if (lane == 0) store_box(&f.output, strip, static_cast<i32>(first), static_cast<i32>(pixel));
    if constexpr (C + 1 < S::STRIPS) store_strips<S, C + 1>(f, sums, place, pixel, channel, lane);
}

// What a warpgroup does: every `WARPGROUPS`th tile of the block.
template <class S>
__device__ __forceinline__ void work(const ConvKeptParams& f, const Walkway& way, u32 base, u32 group, u32 first_row, u32 lane) {
    const ConvWgmmaParams& p = f.product;
    const bool joins = is_join(p.epilogue);
    // A barrier tells a phase only from the next one. So unless a stage is always the same warpgroup's, they begin in order.
    const bool ordered = S::STAGES % (S::WARPGROUPS * p.k_blocks) != 0;
    const u32 next = ordered ? base + S::ORDER_BARRIERS + (group + 1) % S::WARPGROUPS * 8 : 0;
    u32 tile = group, row = way.first + group * way.step;
#pragma unroll 1
    for (u32 turn = 0; row < p.run_tiles; ++turn, tile += S::WARPGROUPS, row += S::WARPGROUPS * way.step) {
        const u32 stage = tile * p.k_blocks;
        Ring<S::STAGES> ring = {stage % S::STAGES, stage / S::STAGES % 2};
        if (ordered) barrier_wait(base + S::ORDER_BARRIERS + group * 8, (group == 0 ? turn + 1 : turn) % 2);
        float sums[S::TILE_N / 2];
        multiply_kept<S>(sums, p.k_blocks, turn > 0, next, base, lane, ring);
        const Buffer<S> buffer(base, group, turn);
        if (joins) {
            barrier_wait(buffer.barrier, buffer.parity);
        } else {
            if (lane == 0) stores_have_read<S::BUFFERS - 1>();
            __syncwarp();
        }
        const u32 inside = first_row % WARPGROUP_ROWS;
        store_strips<S>(f, sums, buffer.place + inside * STRIP_ROW_BYTES, p.first_pixel + row * S::TILE_M + inside, way.channel, lane);
        if (lane == 0) {
            stores_commit();
            if (joins && turn + 1 >= S::BUFFERS) {
                stores_have_read<S::BUFFERS - 1>();
                barrier_arrive(Buffer<S>(base, group, turn + 1 - S::BUFFERS).barrier + 8);
            }
        }
        __syncwarp();
    }
    if (lane == 0) stores_have_ended();
}

template <class S>
__device__ __forceinline__ void convolve(const ConvKeptParams& f) {
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
        if (lane == 0) load_weights<S>(p, way.channel, base);
        wait_for_predecessors();
        if (lane != 0) return;
        Ring<S::STAGES> ring;
        for (u32 row = way.first; row < p.run_tiles; row += way.step) load_pixels<S>(p, p.first_pixel + row * S::TILE_M, base, ring);
    } else if (warp > S::WORKERS / WARP) {
        wait_for_predecessors();
        if (lane != 0 || !is_join(p.epilogue)) return;
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
        conv_wgmma_kept_##N##_k##BLOCKS##_g##GROUPS##_s##STAGES##_one(const __grid_constant__ ConvKeptParams p) {          \
        convolve<Shape<N, BLOCKS, GROUPS, STAGES, BUFFERS>>(p);                                                            \
    }

CONV_KEPT_ONE(128, 2, 4, 8, 2)
CONV_KEPT_ONE(128, 2, 3, 12, 2)
CONV_KEPT_ONE(128, 4, 4, 12, 1)
CONV_KEPT_ONE(128, 8, 3, 6, 1)
