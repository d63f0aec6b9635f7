// Convolution of 3 by 3 neighbouring taps for Hopper, for few channels of large pictures: the sums and bits of conv_wgmma.cu, whose
// steps along K are 64 channels of a tap, most of them zeros here.
//
// A block keeps the weights of all taps. One warp loads patches: the pixels under a tile of 8 by ROWS
// outputs, by tiled copies whose zeros outside the image are the padding; where windows leave pixels out, one copy for each of the four
// parities of rows and columns, so that neighbouring outputs read neighbouring pixels. Warpgroups take the tiles in turn. Pixels are the
// rows of a product, output channels its columns: a product is as wide as the outputs are, and as deep as the inputs. A tap is an offset
// into the patch: the swizzle acts on addresses, so a matrix of pixels may begin at any of them. Products have the order of
// conv_wgmma.cu, taps in row-major order and inside a tap the channels; zeros that it multiplies besides change no bit.

#include "patch_pixels.cuh"
#include "pixel_product.cuh"

constexpr u32 PRODUCT_K = 16;  // channels of one warpgroup product
constexpr u32 BLOCK_ROWS = 8;                 // output rows of a product: 64 pixels
constexpr u32 TAPS = 3;                       // along either axis
constexpr u32 WEIGHT_ROW_BYTES = 128;         // 64 input channels of an output channel
constexpr u32 SWIZZLE_BYTES = 1024;
constexpr u32 BARRIER_BYTES = 256;

// Pixels of INPUTS channels (16, 32 or 64), products of N output channels, windows that step by STRIDE pixels, tiles of HEIGHT rows,
// GROUPS warpgroups that multiply, DEPTH patches in shared memory.
template <u32 INPUTS, u32 N, u32 STEP, u32 HEIGHT, u32 GROUPS, u32 DEPTH>
struct Shape {
    static constexpr u32 CHANNELS = INPUTS, OUTPUTS = N, STRIDE = STEP, ROWS = HEIGHT, WARPGROUPS = GROUPS, STAGES = DEPTH;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP;
    static constexpr u32 THREADS = WORKERS + WARP;
    static constexpr u32 BLOCKS = HEIGHT / BLOCK_ROWS;  // products side by side
    static constexpr u32 PIXEL_BYTES = INPUTS * 2;
    static constexpr u32 PLANES = STEP * STEP;
    // Of the pixels of one parity.
    static constexpr u32 PLANE_ROWS = HEIGHT + (TAPS - 1) / STEP, PLANE_COLUMNS = COLUMNS + (TAPS - 1) / STEP;
    static constexpr u32 PLANE_ROW_BYTES = PLANE_COLUMNS * PIXEL_BYTES;
    static constexpr u32 BOX_BYTES = PLANE_ROWS * PLANE_ROW_BYTES;
    static constexpr u32 PLANE_BYTES = (BOX_BYTES + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES;
    static constexpr u32 STAGE_BYTES = PLANES * PLANE_BYTES;
    static constexpr u32 WEIGHT_BYTES = N * WEIGHT_ROW_BYTES;  // of a tap
    // Shared memory: weights, patches, strips of the warps, barriers.
    static constexpr u32 PATCHES = TAPS * TAPS * WEIGHT_BYTES;
    static constexpr u32 STRIPS = PATCHES + DEPTH * STAGE_BYTES;
    static constexpr u32 BARRIERS = STRIPS + WORKERS / WARP * STRIP_BYTES;
    static_assert(DEPTH * 16 + 8 <= BARRIER_BYTES, "barriers fit");
    // A barrier tells a phase only from the next one: so a stage is always the same warpgroup's.
    static_assert(DEPTH % GROUPS == 0, "warpgroups have stages of their own");
    static_assert(HEIGHT % BLOCK_ROWS == 0 && (STEP == 1 || STEP == 2), "tiles are whole products");
};

// Fills stages with the patches of a block's tiles. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load(const ConvPatchParams& p, u32 base, const Barriers<S>& barriers) {
    const u32 count = tile_count(p);
#pragma unroll 1
    for (u32 n = 0; n < count; ++n) {
        const Tile t = tile_at<S::ROWS>(p, n);
        const i32 column = static_cast<i32>(t.column * S::STRIDE) - static_cast<i32>(p.pad_columns);
        const i32 row = static_cast<i32>(t.row * S::STRIDE) - static_cast<i32>(p.pad_rows);
        const u32 stage = n % S::STAGES, full = barriers.full(stage), to = base + S::PATCHES + stage * S::STAGE_BYTES;
        barrier_wait(barriers.empty(stage), n / S::STAGES % 2 ^ 1);
        if (elected()) {
            barrier_arrive_expecting(full, S::PLANES * S::BOX_BYTES);
#pragma unroll
            for (u32 plane = 0; plane < S::PLANES; ++plane) {
                copy_patch(to + plane * S::PLANE_BYTES, &p.image, full, 0, column + static_cast<i32>(plane % S::STRIDE),
                           row + static_cast<i32>(plane / S::STRIDE), t.batch);
            }
        }
    }
}

// Asks for all products of a tile whose patch begins at `patch`; they are in flight together.
template <class S>
__device__ __forceinline__ void multiply(float (&sums)[S::BLOCKS][S::OUTPUTS / 2], u32 weights, u32 patch) {
    const u32 rows = pixel_rows<S::PIXEL_BYTES>(S::PLANE_ROW_BYTES);
    u32 a = swizzled_matrix(patch), b = swizzled_matrix(weights);
    // Not known to the compiler, which would else keep the sum of each product's offset in a register across all tiles.
    asm volatile("" : "+r"(a), "+r"(b));
#pragma unroll
    for (u32 m = 0; m < S::BLOCKS; ++m) {
#pragma unroll
        for (u32 i = 0; i < S::OUTPUTS / 2; ++i) sums[m][i] = 0.0f;
    }
    products_begin();
#pragma unroll
    for (u32 tap = 0; tap < TAPS * TAPS; ++tap) {
        const u32 down = tap / TAPS, across = tap % TAPS;
        const u32 plane = down % S::STRIDE * S::STRIDE + across % S::STRIDE;
        const u32 first = plane * S::PLANE_BYTES + down / S::STRIDE * S::PLANE_ROW_BYTES + across / S::STRIDE * S::PIXEL_BYTES;
#pragma unroll
        for (u32 k = 0; k < S::CHANNELS / PRODUCT_K; ++k) {
#pragma unroll
            for (u32 m = 0; m < S::BLOCKS; ++m) {
                // Descriptors count in 16 bytes.
                PixelProduct<S::OUTPUTS>::multiply(sums[m], a + (first + m * BLOCK_ROWS * S::PLANE_ROW_BYTES + k * PRODUCT_K * 2 >> 4), rows,
                                                   b + (tap * S::WEIGHT_BYTES + k * PRODUCT_K * 2 >> 4));
            }
        }
    }
    products_commit();
}

// What a warpgroup does: every `WARPGROUPS`-th tile of the block.
template <class S, bool PLAIN>
__device__ __forceinline__ void work(const ConvPatchParams& p, u32 base, const Barriers<S>& barriers, u32 warp, u32 lane) {
    const u32 group = warp / (WARPGROUP / WARP), strip = base + S::STRIPS + warp * STRIP_BYTES, count = tile_count(p);
    float2 bias[S::OUTPUTS / GROUP];
    if (PLAIN) load_biases(bias, p.epilogue, 0, p.channels, lane);
    barrier_wait(barriers.weights(), 0);
#pragma unroll 1
    for (u32 n = group; n < count; n += S::WARPGROUPS) {
        const u32 stage = n % S::STAGES;
        barrier_wait(barriers.full(stage), n / S::STAGES % 2);
        float sums[S::BLOCKS][S::OUTPUTS / 2];
        multiply<S>(sums, base, base + S::PATCHES + stage * S::STAGE_BYTES);
        products_wait<0>();
        if (lane == 0) barrier_arrive(barriers.empty(stage));
        const Tile t = tile_at<S::ROWS>(p, n);
#pragma unroll
        for (u32 m = 0; m < S::BLOCKS; ++m) {
            const u32 row = t.row + m * BLOCK_ROWS + warp % (WARPGROUP / WARP) * (WARP_ROWS / COLUMNS);
            const WarpPixels pixels = {t.batch, row, t.column};
            if constexpr (PLAIN) {
                store_plain_pixels<S::OUTPUTS>(p, pixels, sums[m], bias, strip, lane);
            } else {
                store_any_pixels<S::OUTPUTS>(p, pixels, sums[m], strip, lane);
            }
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
        load_weights<TAPS * TAPS, S::WEIGHT_BYTES, WEIGHT_ROW_BYTES>(p, base, barriers.weights());
        wait_for_predecessors();
        release_successors();
        load<S>(p, base, barriers);
    } else {
        wait_for_predecessors();  // what is joined, and the output's place
        work<S, PLAIN>(p, base, barriers, warp, lane);
    }
}

// Kernels of the menu (plan/tactic/conv_shallow.rs): input channels, output channels of a product, stride, rows of a tile, warpgroups,
// patches in shared memory. Each stands for every way to store.
#define CONV_SHALLOW_KERNEL(INPUTS, N, STRIDE, ROWS, GROUPS, STAGES, NAME, PLAIN)                                       \
    extern "C" __global__ void __launch_bounds__(Shape<INPUTS, N, STRIDE, ROWS, GROUPS, STAGES>::THREADS, 1)           \
        conv_shallow_c##INPUTS##_n##N##_s##STRIDE##_r##ROWS##_##NAME(const __grid_constant__ ConvPatchParams p) {      \
        convolve<Shape<INPUTS, N, STRIDE, ROWS, GROUPS, STAGES>, PLAIN>(p);                                            \
    }
#define CONV_SHALLOW(INPUTS, N, STRIDE, ROWS, GROUPS, STAGES)                                                          \
    CONV_SHALLOW_KERNEL(INPUTS, N, STRIDE, ROWS, GROUPS, STAGES, plain, true)                                          \
    CONV_SHALLOW_KERNEL(INPUTS, N, STRIDE, ROWS, GROUPS, STAGES, any, false)

CONV_SHALLOW(16, 16, 1, 16, 4, 8)
CONV_SHALLOW(16, 32, 1, 16, 4, 8)
CONV_SHALLOW(16, 64, 1, 16, 4, 8)
CONV_SHALLOW(32, 16, 1, 16, 4, 8)
CONV_SHALLOW(32, 32, 1, 16, 4, 8)
CONV_SHALLOW(32, 64, 1, 16, 4, 8)
CONV_SHALLOW(64, 16, 1, 16, 3, 6)
CONV_SHALLOW(64, 32, 1, 16, 3, 6)
CONV_SHALLOW(16, 16, 1, 8, 4, 12)
CONV_SHALLOW(16, 32, 1, 8, 4, 12)
CONV_SHALLOW(16, 64, 1, 8, 4, 12)
CONV_SHALLOW(32, 16, 1, 8, 4, 12)
CONV_SHALLOW(32, 32, 1, 8, 4, 12)
CONV_SHALLOW(32, 64, 1, 8, 4, 12)
CONV_SHALLOW(64, 16, 1, 8, 4, 12)
CONV_SHALLOW(64, 32, 1, 8, 4, 12)
CONV_SHALLOW(16, 16, 2, 8, 4, 8)
CONV_SHALLOW(16, 32, 2, 8, 4, 8)
CONV_SHALLOW(16, 64, 2, 8, 4, 8)
CONV_SHALLOW(32, 16, 2, 8, 3, 6)
CONV_SHALLOW(32, 32, 2, 8, 3, 6)
CONV_SHALLOW(32, 64, 2, 8, 4, 4)
CONV_SHALLOW(64, 16, 2, 8, 4, 4)
CONV_SHALLOW(64, 32, 2, 8, 3, 3)
