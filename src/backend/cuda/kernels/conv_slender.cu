// Convolution of 3 by 3 neighbouring taps for Hopper, from 65 to 128 channels to at most 32: the sums and bits of conv_wgmma.cu, or of
// conv_warps.cu.
//
// A block keeps the weights of all taps. One warp loads patches: the pixels under a tile of 8 by 8 outputs, in two boxes of 64 channels,
// by tiled copies whose zeros outside the image are the padding. Warpgroups take the tiles in turn. Pixels are the rows of a product,
// output channels its columns. A tap is an offset into the patch: the swizzle acts on addresses, so a matrix of pixels may begin at any
// of them. Steps along K are 64 channels of a tap, taps in row-major order.
//
// Of the chains of products that conv_wgmma.cu has, one or two, the second begins in the middle of a tap. Of those that conv_warps.cu has,
// each is a tap, and each product has 4 channels of each 8 of a piece. Weights are packed in that order, and a warpgroup brings the pixels
// of its patch into it: once, for all taps.

#include "patch_pixels.cuh"
#include "pixel_product.cuh"

constexpr u32 PRODUCT_K = 16;  // channels of one warpgroup product
constexpr u32 ROWS = 8;                       // of a tile: COLUMNS by ROWS are the pixels of a product
constexpr u32 OUTPUTS = 32;                   // of a product
constexpr u32 SUMS = OUTPUTS / 2;             // of a thread
constexpr u32 TAPS = 9, SIDE = 3;             // of a window, along either axis
constexpr u32 BOXES = 2;                      // of 64 channels: K blocks of a tap
constexpr u32 BOX_CHANNELS = 64;
constexpr u32 PIXEL_BYTES = BOX_CHANNELS * 2;
constexpr u32 PIECE_BYTES = 64;               // of the 32 channels of a pixel that conv_warps.cu multiplies at a time
constexpr u32 SWIZZLE_BYTES = 1024;
constexpr u32 BARRIER_BYTES = 256;

constexpr u32 PATCH_PIXELS = (ROWS + SIDE - 1) * (COLUMNS + SIDE - 1);
constexpr u32 PATCH_ROW_BYTES = (COLUMNS + SIDE - 1) * PIXEL_BYTES;
constexpr u32 BOX_BYTES = PATCH_PIXELS * PIXEL_BYTES;
constexpr u32 BOX_STEP = (BOX_BYTES + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES;
constexpr u32 STAGE_BYTES = BOXES * BOX_STEP;
constexpr u32 WEIGHT_ROW_BYTES = PIXEL_BYTES;                 // 64 input channels of an output channel
constexpr u32 WEIGHT_BYTES = OUTPUTS * WEIGHT_ROW_BYTES;      // of a K block
constexpr u32 BLOCK_PRODUCTS = BOX_CHANNELS / PRODUCT_K;      // products of a K block
constexpr u32 PRODUCTS = TAPS * BOXES * BLOCK_PRODUCTS;       // of a tile

// Chains of products (1 or 2, or one for each tap), which are summed on their own and then in order; warpgroups that multiply, patches in shared memory, blocks that share a multiprocessor.
template <u32 COUNT, u32 GROUPS, u32 DEPTH, u32 TOGETHER>
struct Shape {
    static constexpr u32 CHAINS = COUNT;
    static constexpr u32 WARPGROUPS = GROUPS, STAGES = DEPTH, BLOCKS = TOGETHER;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP;
    static constexpr u32 THREADS = WORKERS + WARP;
    // Shared memory: weights, patches, strips of the warps, barriers.
    static constexpr u32 PATCHES = TAPS * BOXES * WEIGHT_BYTES;
    static constexpr u32 STRIPS = PATCHES + DEPTH * STAGE_BYTES;
    static constexpr u32 BARRIERS = STRIPS + WORKERS / WARP * STRIP_BYTES;
    static_assert(DEPTH * 16 + 8 <= BARRIER_BYTES, "barriers fit");
    // A barrier tells a phase only from the next one: so a stage is always the same warpgroup's.
    static_assert(DEPTH % GROUPS == 0, "warpgroups have stages of their own");
};

// Fills stages with the patches of a block's tiles. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load(const ConvPatchParams& p, u32 base, const Barriers<S>& barriers) {
    const u32 count = tile_count(p);
#pragma unroll 1
    for (u32 n = 0; n < count; ++n) {
        const Tile t = tile_at<ROWS>(p, n);
        const i32 column = static_cast<i32>(t.column) - static_cast<i32>(p.pad_columns);
        const i32 row = static_cast<i32>(t.row) - static_cast<i32>(p.pad_rows);
        const u32 stage = n % S::STAGES, full = barriers.full(stage), to = base + S::PATCHES + stage * STAGE_BYTES;
        barrier_wait(barriers.empty(stage), n / S::STAGES % 2 ^ 1);
        if (elected()) {
            barrier_arrive_expecting(full, BOXES * BOX_BYTES);
#pragma unroll
            for (u32 box = 0; box < BOXES; ++box) {
                copy_patch(to + box * BOX_STEP, &p.image, full, static_cast<i32>(box * BOX_CHANNELS), column, row, t.batch);
            }
        }
    }
}

// Brings the channels of a patch into the order in which conv_warps.cu multiplies them: of each piece of 32, first the lower halves of its
// groups of 8, then the upper ones. A warpgroup comes here; a thread has whole pieces, so that none waits for another before the end.
__device__ __forceinline__ void reorder(u32 patch, u32 group) {
    constexpr u32 PIECES = BOXES * PIXEL_BYTES / PIECE_BYTES, CHUNK = 16;
#pragma unroll 1
    for (u32 i = threadIdx.x % WARPGROUP; i < PATCH_PIXELS * PIECES; i += WARPGROUP) {
        // Neighbouring threads have neighbouring pixels, which lie in different banks.
        const u32 piece = i / PATCH_PIXELS, pixel = i - piece * PATCH_PIXELS;
        const u32 at = patch + piece / 2 * BOX_STEP + pixel * PIXEL_BYTES, first = piece % 2 * (PIECE_BYTES / CHUNK);
        const auto chunk = [&](u32 j) { return at + ((first + j) ^ (at / PIXEL_BYTES) % 8) * CHUNK; };
        const uint4 a = load_strip(chunk(0)), b = load_strip(chunk(1)), c = load_strip(chunk(2)), d = load_strip(chunk(3));
        store_strip_piece(chunk(0), make_uint4(a.x, a.y, b.x, b.y));
        store_strip_piece(chunk(1), make_uint4(c.x, c.y, d.x, d.y));
        store_strip_piece(chunk(2), make_uint4(a.z, a.w, b.z, b.w));
        store_strip_piece(chunk(3), make_uint4(c.z, c.w, d.z, d.w));
    }
    // Products read what threads have written.
    copy_fence();
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(WARPGROUP) : "memory");
}

// Products of the first chains of a tile, COUNT of EACH, which are in flight together. Pixels and weights are given by `swizzled_matrix`.
template <u32 EACH, u32 COUNT>
__device__ __forceinline__ void multiply(float (&chains)[COUNT][SUMS], u32 patch, u32 weights) {
    const u32 rows = pixel_rows<PIXEL_BYTES>(PATCH_ROW_BYTES);
#pragma unroll
    for (u32 i = 0; i < COUNT * SUMS; ++i) {
        // Not known to the compiler, which would else set the sums of one chain behind products of another, and wait for these.
        asm volatile("mov.b32 %0, 0f00000000;" : "=f"(chains[i / SUMS][i % SUMS]));
    }
    products_begin();
#pragma unroll
    for (u32 i = 0; i < COUNT * EACH; ++i) {
        const u32 block = i / BLOCK_PRODUCTS, k = i % BLOCK_PRODUCTS, tap = block / BOXES, box = block % BOXES;
        const u32 pixel = tap / SIDE * PATCH_ROW_BYTES + tap % SIDE * PIXEL_BYTES + box * BOX_STEP;
        // Descriptors count in 16 bytes.
        PixelProduct<OUTPUTS>::multiply(chains[i / EACH], patch + (pixel + k * PRODUCT_K * 2 >> 4), rows,
                                        weights + (block * WEIGHT_BYTES + k * PRODUCT_K * 2 >> 4));
    }
    products_commit();
    products_wait<0>();
}

// The sums of a tile whose patch begins at `patch`: of its chains, those for which there are registers at once.
template <u32 CHAINS>
__device__ __forceinline__ void sum(float (&sums)[SUMS], u32 weights, u32 patch, u32 group) {
    constexpr bool OF_TAPS = CHAINS == TAPS;
    constexpr u32 AT_ONCE = OF_TAPS ? SIDE : CHAINS, TURNS = CHAINS / AT_ONCE;
    if (OF_TAPS) reorder(patch, group);
    u32 a = swizzled_matrix(patch), b = swizzled_matrix(weights);
    // Whatever is added to -0 stays what it is.
#pragma unroll
    for (u32 i = 0; i < SUMS; ++i) sums[i] = -0.0f;
#pragma unroll 1
    for (u32 turn = 0; turn < TURNS; ++turn) {
        // Not known to the compiler, which would else keep the sum of each product's offset in a register across all tiles.
        asm volatile("" : "+r"(a), "+r"(b));
        float chains[AT_ONCE][SUMS];
        multiply<PRODUCTS / CHAINS>(chains, a, b);
#pragma unroll
        for (u32 i = 0; i < AT_ONCE * SUMS; ++i) sums[i % SUMS] = __fadd_rn(sums[i % SUMS], chains[i / SUMS][i % SUMS]);
        // A row of taps.
        a += PATCH_ROW_BYTES >> 4;
        b += SIDE * BOXES * WEIGHT_BYTES >> 4;
    }
}

// What a warpgroup does: every `WARPGROUPS`-th tile of the block.
template <class S, bool PLAIN>
__device__ __forceinline__ void work(const ConvPatchParams& p, u32 base, const Barriers<S>& barriers, u32 warp, u32 lane) {
    const u32 group = warp / (WARPGROUP / WARP), strip = base + S::STRIPS + warp * STRIP_BYTES, count = tile_count(p);
    float2 bias[OUTPUTS / GROUP];
    if (PLAIN) load_biases(bias, p.epilogue, 0, p.channels, lane);
    barrier_wait(barriers.weights(), 0);
#pragma unroll 1
    for (u32 n = group; n < count; n += S::WARPGROUPS) {
        const u32 stage = n % S::STAGES;
        barrier_wait(barriers.full(stage), n / S::STAGES % 2);
        float sums[SUMS];
        sum<S::CHAINS>(sums, base, base + S::PATCHES + stage * STAGE_BYTES, group);
        if (lane == 0) barrier_arrive(barriers.empty(stage));
        const Tile t = tile_at<ROWS>(p, n);
        const WarpPixels pixels = {t.batch, t.row + warp % (WARPGROUP / WARP) * (WARP_ROWS / COLUMNS), t.column};
        if constexpr (PLAIN) {
            store_plain_pixels<OUTPUTS>(p, pixels, sums, bias, strip, lane);
        } else {
            store_any_pixels<OUTPUTS>(p, pixels, sums, strip, lane);
        }
    }
}

template <class S, bool PLAIN>
__device__ __forceinline__ void convolve(const ConvPatchParams& p) {
    // The swizzle's pattern begins at multiples of 1024 bytes.
    extern __shared__ __align__(1024) u8 memory[];
    const u32 base = shared_address(memory);
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const Barriers<S> barriers = {base + S::BARRIERS};
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        barriers.init();
    }
    __syncthreads();
    if (warp == S::WORKERS / WARP) {
        // Weights are constants.
        load_weights<TAPS * BOXES, WEIGHT_BYTES, WEIGHT_ROW_BYTES>(p, base, barriers.weights());
        wait_for_predecessors();
        release_successors();
        load<S>(p, base, barriers);
    } else {
        wait_for_predecessors();  // what is joined, and the output's place
        work<S, PLAIN>(p, base, barriers, warp, lane);
    }
}

// Kernels of the menu (plan/tactic/conv_slender.rs): warpgroups, patches in shared memory, blocks that share a multiprocessor. Each
// stands for every number of chains and every way to store.
#define CONV_SLENDER_KERNEL(GROUPS, STAGES, BLOCKS, CHAINS, NAME, PLAIN)                                                  \
    extern "C" __global__ void __launch_bounds__(Shape<CHAINS, GROUPS, STAGES, BLOCKS>::THREADS, BLOCKS)                \
        conv_slender_g##GROUPS##_s##STAGES##_b##BLOCKS##_c##CHAINS##_##NAME(const __grid_constant__ ConvPatchParams p) { \
        convolve<Shape<CHAINS, GROUPS, STAGES, BLOCKS>, PLAIN>(p);                                                      \
    }
#define CONV_SLENDER_CHAINS(GROUPS, STAGES, BLOCKS, CHAINS)                                                             \
    CONV_SLENDER_KERNEL(GROUPS, STAGES, BLOCKS, CHAINS, plain, true)                                                    \
    CONV_SLENDER_KERNEL(GROUPS, STAGES, BLOCKS, CHAINS, any, false)
#define CONV_SLENDER(GROUPS, STAGES, BLOCKS)                                                                            \
    CONV_SLENDER_CHAINS(GROUPS, STAGES, BLOCKS, 1)                                                                      \
    CONV_SLENDER_CHAINS(GROUPS, STAGES, BLOCKS, 2)                                                                      \
    CONV_SLENDER_CHAINS(GROUPS, STAGES, BLOCKS, 9)

CONV_SLENDER(1, 1, 2)
CONV_SLENDER(2, 2, 1)
CONV_SLENDER(4, 4, 1)
