// Grouped convolution of 3 by 3 neighbouring taps for Hopper, in steps of 1 or 2 pixels: every pixel is copied to shared memory
// once and read from there by all taps that meet it, and the weights stay there.
//
// A block has up to 64 channels, whole groups of them, and keeps their weights. Channels are multiplied in slabs: as many groups
// as fill a product, with zeros between different groups; wider groups are a slab each. One warp loads patches: the pixels under
// a tile of 8 by 8 outputs, by tiled copies whose zeros outside the image are the padding. In steps of 2, even and odd columns of
// a patch lie in a plane each, so that what a tap meets lies side by side. Warpgroups take the tiles in turn: a tile's 64 pixels
// are the rows of its products. A tap is an offset into the patch: the swizzle acts on addresses, so a matrix of pixels may begin
// at any of them. Products are summed tap by tap in row-major order, inside a tap in the order of the channels.

#include "conv_grouped_store.cuh"
#include "conv_patch.cuh"
#include "grouped_product.cuh"

struct ConvGroupedParams {
    TensorMap image;    // tiled map [sample, row, column, channel] of the input: planes of patches of 64 channels
    u64 weights;        // of each block of channels [tap][slab][16 of K], a matrix of `slab_weights` each
    u32 channels;       // a multiple of 8
    u32 channel_tiles;  // blocks of channels; divides the blocks of the launch, or is a multiple of them
    u32 pad_rows, pad_columns;
    u32 columns;        // of the output
    u32 first_batch;    // of the chunk
    u32 first_row, end_row;
    u32 across, down;   // tiles of a row, and of a sample's rows
    u32 tiles;          // across * down * samples
    u32 stages;         // patches in shared memory at once
    Epilogue epilogue;
};

static_assert(sizeof(ConvGroupedParams) == 184 + sizeof(Epilogue) + 56, "mirrored in bind/conv_grouped.rs");

constexpr u32 WARP = 32, WARPGROUP = 128;
constexpr u32 TAPS = 3;                     // along either axis
constexpr u32 BOX = 64, PIXEL_BYTES = 128;  // channels of a patch, one swizzled row
constexpr u32 PRODUCT_K = 16;               // channels of one product
constexpr u32 SWIZZLE_BYTES = 1024;
constexpr u32 GROUP_STRIPS = WARPGROUP / WARP * STRIP_BYTES;
// Two blocks of two warpgroups fit an SM by their registers, or one of four.
constexpr u32 MOST_THREADS = 576;

constexpr u32 whole(u32 bytes) { return (bytes + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES; }

// Windows in steps of STEP pixels; slabs of SLAB channels.
template <u32 STEP, u32 SLAB>
struct Shape {
    static constexpr u32 STRIDE = STEP, WIDTH = SLAB;
    static constexpr u32 CHANNELS = SLAB > BOX / 2 ? SLAB : BOX;  // of a block
    static constexpr u32 SLABS = CHANNELS / SLAB, STEPS = (SLAB + PRODUCT_K - 1) / PRODUCT_K;
    // A patch: its planes hold every STEP-th column.
    static constexpr u32 ROWS = (SIDE - 1) * STEP + TAPS, COLUMNS = SIDE + (TAPS - 1) / STEP;
    static constexpr u32 ROW_BYTES = COLUMNS * PIXEL_BYTES, BOX_BYTES = ROWS * ROW_BYTES, PLANE_BYTES = whole(BOX_BYTES);
    static constexpr u32 STAGE_BYTES = STEP * PLANE_BYTES;
    static constexpr u32 TILE_ROWS = pixel_rows(STEP * ROW_BYTES);  // of the tile's pixels under a tap
    static constexpr u32 MATRIX_BYTES = SLAB * PRODUCT_K * 2, TAP_BYTES = SLABS * STEPS * MATRIX_BYTES, WEIGHT_BYTES = TAPS * TAPS * TAP_BYTES;
    // Shared memory: weights, strips of all warps, patches, barriers.
    static constexpr u32 STRIPS = whole(WEIGHT_BYTES);
    static_assert(SLAB * SLABS == CHANNELS && SLABS * STEPS * PRODUCT_K <= BOX, "slabs lie inside of a patch's channels");
    static_assert(STEP == 1 || STEP == 2, "a tap of an axis lies in the patch, past a tile at most two steps");
};

// The barriers of a block: of each stage, that its patch is there, and that it may be filled; the same of the weights.
struct Barriers {
    u32 base, stages;
    __device__ __forceinline__ u32 full(u32 stage) const { return base + stage * 16; }
    __device__ __forceinline__ u32 empty(u32 stage) const { return base + stage * 16 + 8; }
    __device__ __forceinline__ u32 weights() const { return full(stages); }
    __device__ __forceinline__ u32 weights_read() const { return empty(stages); }

    __device__ __forceinline__ void init(u32 warpgroups) const {
#pragma unroll 1
        for (u32 i = 0; i < stages; ++i) {
            barrier_init(full(i), 1);
            barrier_init(empty(i), WARPGROUP / WARP);
        }
        barrier_init(weights(), 1);
        barrier_init(weights_read(), warpgroups * (WARPGROUP / WARP));
        barrier_init_fence();
    }
};

// A stage of the ring, and the parity of the phase in which its patch comes.
struct Stage {
    u32 index, parity;
    __device__ __forceinline__ void advance(u32 by, u32 stages) {
        for (index += by; index >= stages; index -= stages) parity ^= 1;
    }
};

// What a block computes: the tiles `first + i * step` of every `lanes`-th block of channels. The tiles of all its channels are
// numbered through; warpgroups take them in turn.
struct Share {
    u32 lane, lanes, first, step, count, turns;

    __device__ __forceinline__ explicit Share(const ConvGroupedParams& p) {
        lanes = min(p.channel_tiles, gridDim.x);
        lane = blockIdx.x % lanes;
        first = blockIdx.x / lanes;
        step = gridDim.x / lanes;
        count = first < step && first < p.tiles ? (p.tiles - first + step - 1) / step : 0;
        turns = count ? (p.channel_tiles - lane + lanes - 1) / lanes : 0;
    }
    __device__ __forceinline__ u32 channel_tile(u32 turn) const { return lane + turn * lanes; }
};

// A tile: its sample, and its first row and column.
struct Tile {
    u32 batch, row, column;
};

__device__ __forceinline__ Tile tile_at(const ConvGroupedParams& p, u32 index) {
    const u32 line = index / p.across;
    const u32 batch = line / p.down;
    return {p.first_batch + batch, p.first_row + (line - batch * p.down) * SIDE, (index - line * p.across) * SIDE};
}

// Asks for the weights of a block of channels. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load_weights(const ConvGroupedParams& p, u32 channel_tile, u32 base, u32 full) {
    if (!elected()) return;
    barrier_arrive_expecting(full, S::WEIGHT_BYTES);
    const u64 from = p.weights + static_cast<u64>(channel_tile) * S::WEIGHT_BYTES;
#pragma unroll 1
    for (u32 tap = 0; tap < TAPS * TAPS; ++tap) {
        copy_run(base + tap * S::TAP_BYTES, reinterpret_cast<const void*>(from + tap * S::TAP_BYTES), S::TAP_BYTES, full);
    }
}

// Fills stages with the patches of a block. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load(const ConvGroupedParams& p, const Share& share, u32 base, u32 patches, const Barriers& barriers) {
    Stage stage = {0, 0};
#pragma unroll 1
    for (u32 turn = 0; turn < share.turns; ++turn) {
        if (turn > 0) {
            barrier_wait(barriers.weights_read(), (turn - 1) & 1);
            load_weights<S>(p, share.channel_tile(turn), base, barriers.weights());
        }
        const i32 channel = static_cast<i32>(share.channel_tile(turn) * S::CHANNELS);
#pragma unroll 1
        for (u32 i = 0; i < share.count; ++i) {
            const Tile t = tile_at(p, share.first + i * share.step);
            const i32 column = static_cast<i32>(t.column * S::STRIDE) - static_cast<i32>(p.pad_columns);
            const i32 row = static_cast<i32>(t.row * S::STRIDE) - static_cast<i32>(p.pad_rows);
            const u32 full = barriers.full(stage.index);
            barrier_wait(barriers.empty(stage.index), stage.parity ^ 1);
            if (elected()) {
                barrier_arrive_expecting(full, S::STRIDE * S::BOX_BYTES);
#pragma unroll
                for (u32 plane = 0; plane < S::STRIDE; ++plane) {
                    copy_patch(patches + stage.index * S::STAGE_BYTES + plane * S::PLANE_BYTES, &p.image, full, channel,
                               column + static_cast<i32>(plane), row, t.batch);
                }
            }
            stage.advance(1, p.stages);
        }
    }
}

// A truth value as a type.
template <bool IS>
struct Flag {
    static constexpr bool VALUE = IS;
};

// Asks for the products of a tap, given by the lower halves of the descriptors of a patch and of its weights.
template <class S, bool FIRST>
__device__ __forceinline__ void tap_products(float (&sums)[S::SLABS][S::WIDTH / 2], u32 patch, u32 weights, u32 tap) {
    const u32 row = tap / TAPS, column = tap % TAPS;
    const u32 pixels = column % S::STRIDE * S::PLANE_BYTES + row * S::ROW_BYTES + column / S::STRIDE * PIXEL_BYTES;
    const auto product = [&](u32 slab, u32 k, auto first) {
        // Descriptors count in 16 bytes.
        GroupedProduct<S::WIDTH>::template multiply<S::TILE_ROWS, decltype(first)::VALUE>(
            sums[slab], patch + (pixels + k * PRODUCT_K * 2 >> 4), weights + (tap * S::TAP_BYTES + k * S::MATRIX_BYTES >> 4));
    };
#pragma unroll
    for (u32 slab = 0; slab < S::SLABS; ++slab) {
        product(slab, slab * S::STEPS, Flag<FIRST>());
#pragma unroll
        for (u32 k = 1; k < S::STEPS; ++k) product(slab, slab * S::STEPS + k, Flag<false>());
    }
}

// Asks for the products of a tile; they are in flight together.
template <class S>
__device__ __forceinline__ void multiply(float (&sums)[S::SLABS][S::WIDTH / 2], u32 patch, u32 weights) {
    u32 a = swizzled_matrix(patch), b = slab_weights(weights, S::WIDTH * 16);
    // Not known to the compiler, which would else keep the sum of each product's offset in a register across all tiles.
    asm volatile("" : "+r"(a), "+r"(b));
    products_begin();
    tap_products<S, true>(sums, a, b, 0);
#pragma unroll
    for (u32 tap = 1; tap < TAPS * TAPS; ++tap) tap_products<S, false>(sums, a, b, tap);
    products_commit();
}

// What a warpgroup does.
template <class S, bool ANY>
__device__ __forceinline__ void work(const ConvGroupedParams& p, const Share& share, u32 base, u32 patches, const Barriers& barriers, u32 group,
                                     u32 groups, u32 thread) {
    const u32 lane = thread % WARP, warp = __shfl_sync(0xffffffff, thread / WARP, 0);
    const u32 strip = base + S::STRIPS + group * GROUP_STRIPS + warp * STRIP_BYTES;
    const u32 total = share.turns * share.count;
    float2 bias[STRIP / GROUP];
    u32 turn = 0, channel = 0, end = 0;
    // The weights of another block of channels.
    const auto begin_turn = [&] {
        channel = share.channel_tile(turn) * S::CHANNELS;
        end = min(channel + S::CHANNELS, p.channels);
        if (!ANY) load_biases(bias, p.epilogue, channel, end, lane);
        barrier_wait(barriers.weights(), turn & 1);
    };
    if (total > 0) begin_turn();
    wait_for_predecessors();
    if (total == 0) return;
    Stage stage = {0, 0};
    stage.advance(group, p.stages);
#pragma unroll 1
    for (u32 n = group; n < total + groups; n += groups, stage.advance(groups, p.stages)) {
        // Past the last tile, the block's other turns are passed.
        while (turn < min(n / share.count, share.turns - 1)) {
            if (lane == 0) barrier_arrive(barriers.weights_read());
            ++turn;
            begin_turn();
        }
        if (n >= total) break;
        const Tile t = tile_at(p, share.first + n % share.count * share.step);
        barrier_wait(barriers.full(stage.index), stage.parity);
        float slabs[S::SLABS][S::WIDTH / 2];
        multiply<S>(slabs, patches + stage.index * S::STAGE_BYTES, base);
        products_wait<0>();
        if (lane == 0) barrier_arrive(barriers.empty(stage.index));
        float sums[TILE_SUMS];
#pragma unroll
        for (u32 i = 0; i < TILE_SUMS; ++i) sums[i] = i < S::CHANNELS / 2 ? slabs[i / (S::WIDTH / 2) % S::SLABS][i % (S::WIDTH / 2)] : 0.0f;
        const TwoRows rows = {t.batch, t.row + warp * 2, t.column, p.end_row, p.columns};
        if constexpr (ANY) {
            store_rows_general(p.epilogue, sums, rows, strip, channel, end, lane);
        } else {
            store_rows(p.epilogue, sums, bias, rows, strip, channel, end, lane);
        }
        __syncwarp();
    }
}

template <class S, bool ANY>
__device__ __forceinline__ void convolve(const ConvGroupedParams& p) {
    extern __shared__ __align__(1024) u8 memory[];
    const u32 base = shared_address(memory);
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0);
    const u32 groups = blockDim.x / WARPGROUP;  // and one warp that loads
    const u32 patches = base + S::STRIPS + groups * GROUP_STRIPS;
    const Barriers barriers = {patches + p.stages * S::STAGE_BYTES, p.stages};
    const Share share(p);
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        barriers.init(groups);
    }
    __syncthreads();
    if (warp == groups * (WARPGROUP / WARP)) {
        // Weights are constants.
        if (share.count > 0) load_weights<S>(p, share.channel_tile(0), base, barriers.weights());
        wait_for_predecessors();
        release_successors();
        load<S>(p, share, base, patches, barriers);
    } else {
        work<S, ANY>(p, share, base, patches, barriers, warp / (WARPGROUP / WARP), groups, threadIdx.x % WARPGROUP);
    }
}

// Kernels of the forms (plan/tactic/conv_grouped.rs): pixels of a step, channels of a slab. Each stands for the tails that have a
// path of their own and for any other.
#define CONV_GROUPED_KERNEL(STRIDE, WIDTH, NAME, ANY)                                               \
    extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)                                   \
        conv_grouped_s##STRIDE##_w##WIDTH##_##NAME(const __grid_constant__ ConvGroupedParams p) {   \
        convolve<Shape<STRIDE, WIDTH>, ANY>(p);                                                     \
    }
#define CONV_GROUPED(STRIDE, WIDTH)                    \
    CONV_GROUPED_KERNEL(STRIDE, WIDTH, plain, false)   \
    CONV_GROUPED_KERNEL(STRIDE, WIDTH, any, true)

CONV_GROUPED(1, 16)
CONV_GROUPED(1, 32)
CONV_GROUPED(1, 40)
CONV_GROUPED(1, 48)
CONV_GROUPED(1, 56)
CONV_GROUPED(1, 64)
CONV_GROUPED(2, 16)
CONV_GROUPED(2, 32)
CONV_GROUPED(2, 40)
CONV_GROUPED(2, 48)
CONV_GROUPED(2, 56)
CONV_GROUPED(2, 64)
