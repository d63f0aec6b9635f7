// Convolution of 3 by 3 neighbouring taps for Hopper, for few input and many pixels: every pixel is copied to shared memory
// once and read from there by all taps that meet it, and the weights stay there.
//
// A block keeps the weights of 64 output channels. One warp loads patches: the pixels under a tile of 8 by ROWS outputs, by
// a tiled copy whose zeros outside the image are the padding. Warpgroups take the tiles in turn: one multiplies all taps of
// its tile, weights by pixels, while others store theirs. A tap is an offset into the patch: the swizzle acts on addresses,
// so a matrix of pixels may begin at any of them. Products have the order of conv_wgmma.cu, taps in row-major order and
// inside a tap the channels, in one chain or in two that are added in the end: bits are the same, whatever tile and grid.
//
// The maximum of every 2 by 2 outputs may follow: a thread holds all four, so only maxima are stored.

#include "conv_patch.cuh"
#include "conv_wgmma_store.cuh"
#include "patch_product.cuh"

constexpr u32 BLOCK_K = 64;                   // channels of a patch
constexpr u32 K_BYTES = BLOCK_K * 2;          // one swizzled row
constexpr u32 PRODUCT_K = 16;                 // channels of one warpgroup product
constexpr u32 WARP = 32, WARPGROUP = 128;
constexpr u32 CHANNELS = 64;                  // output channels of a tile
constexpr u32 COLUMNS = 8;                    // output columns of a tile
constexpr u32 TAPS = 3;                       // along either axis
constexpr u32 PATCH_COLUMNS = COLUMNS + TAPS - 1;
constexpr u32 PATCH_ROW_BYTES = PATCH_COLUMNS * K_BYTES;
constexpr u32 WEIGHT_BYTES = CHANNELS * K_BYTES;  // of a tap and 64 input channels
constexpr u32 SWIZZLE_BYTES = 1024;

constexpr u32 BARRIER_BYTES = 256;

// Tiles of HEIGHT rows; inputs of BLOCKS times 64 channels; DEPTH patches in shared memory; GROUPS warpgroups; CHAINS of
// products.
template <u32 HEIGHT, u32 BLOCKS, u32 DEPTH, u32 GROUPS, u32 CHAINS>
struct Shape {
    static constexpr u32 ROWS = HEIGHT, K_BLOCKS = BLOCKS, STAGES = DEPTH, WARPGROUPS = GROUPS, SPLITS = CHAINS;
    static constexpr u32 PIXELS = HEIGHT * COLUMNS;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP;
    static constexpr u32 THREADS = WORKERS + WARP;
    static constexpr u32 PATCH_BYTES = (HEIGHT + TAPS - 1) * PATCH_ROW_BYTES;
    static constexpr u32 STAGE_BYTES = (PATCH_BYTES + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES;
    static constexpr u32 TILES = DEPTH / BLOCKS;  // whose patches are in shared memory at once
    // Shared memory: weights, patches, barriers.
    static constexpr u32 PATCHES = TAPS * TAPS * BLOCKS * WEIGHT_BYTES;
    static constexpr u32 BARRIERS = PATCHES + DEPTH * STAGE_BYTES;
    static_assert(DEPTH % BLOCKS == 0, "the patches of a tile follow each other");
    static_assert(HEIGHT % 2 == 0, "rows are turned round in pairs");
    static_assert(PIXELS * CHANNELS * 2 <= STAGE_BYTES, "a tile is turned round in a patch's place");
    static_assert((DEPTH + 1) * 16 + GROUPS * 8 <= BARRIER_BYTES, "barriers fit");
};

// The barriers of a block: of each stage, that its patch is there, and that it may be filled; the same of the weights; of
// each warpgroup, that it may multiply.
template <class S>
struct Barriers {
    u32 base;
    __device__ __forceinline__ u32 full(u32 stage) const { return base + stage * 16; }
    __device__ __forceinline__ u32 empty(u32 stage) const { return base + stage * 16 + 8; }
    __device__ __forceinline__ u32 weights() const { return full(S::STAGES); }
    __device__ __forceinline__ u32 weights_read() const { return empty(S::STAGES); }
    __device__ __forceinline__ u32 turn(u32 group) const { return full(S::STAGES + 1) + group * 8; }

    __device__ __forceinline__ void init() const {
        for (u32 i = 0; i < S::STAGES; ++i) {
            barrier_init(full(i), 1);
            barrier_init(empty(i), WARPGROUP / WARP);
        }
        barrier_init(weights(), 1);
        barrier_init(weights_read(), S::WORKERS / WARP);
        for (u32 i = 0; i < S::WARPGROUPS; ++i) barrier_init(turn(i), WARPGROUP / WARP);
        barrier_init_fence();
    }
};

// What a block computes: the tiles `first + i * step` of every `lanes`-th 64 channels. The tiles of all its channels are
// numbered through; tile n is of warpgroup n % WARPGROUPS.
struct Share {
    u32 lane, lanes, first, step, count;

    __device__ __forceinline__ explicit Share(const ConvPatchParams& p) {
        lanes = min(p.channel_tiles, gridDim.x);
        lane = blockIdx.x % lanes;
        first = blockIdx.x / lanes;
        step = gridDim.x / lanes;
        count = first < step && first < p.tiles ? (p.tiles - first + step - 1) / step : 0;
    }
    // Turns in which it keeps the weights of 64 channels.
    __device__ __forceinline__ u32 turns(const ConvPatchParams& p) const { return count ? (p.channel_tiles - lane + lanes - 1) / lanes : 0; }
    __device__ __forceinline__ u32 channel(u32 turn) const { return (lane + turn * lanes) * CHANNELS; }
};

// How a tile is stored: a tail that has a path of its own, any other, or bounds and then maxima.
enum class Store { PLAIN, ANY, POOLED };

// A tile: its sample, and the first row and column that it stores.
struct Tile {
    u32 batch, row, column;
};

// A pooled tile stores half as many rows and columns.
template <class S, Store STORE>
__device__ __forceinline__ Tile tile_at(const ConvPatchParams& p, u32 index) {
    const u32 line = index / p.across;
    const u32 batch = line / p.down;
    constexpr u32 POOL = STORE == Store::POOLED ? 2 : 1;
    return {p.first_batch + batch, p.first_row + (line - batch * p.down) * (S::ROWS / POOL), (index - line * p.across) * (COLUMNS / POOL)};
}

// The barrier of the warps of one warpgroup.
__device__ __forceinline__ void warpgroup_meet(u32 group) {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(WARPGROUP) : "memory");
}

// Asks for the weights of 64 channels.
template <class S>
__device__ __forceinline__ void load_weights(const ConvPatchParams& p, u32 channel, u32 base, u32 full) {
    barrier_arrive_expecting(full, S::PATCHES);
    const u64 step = static_cast<u64>(p.channels) * K_BYTES;
#pragma unroll 1
    for (u32 k = 0; k < TAPS * TAPS * S::K_BLOCKS; ++k) {
        copy_run(base + k * WEIGHT_BYTES, reinterpret_cast<const void*>(p.weights + k * step + channel * K_BYTES), WEIGHT_BYTES, full);
    }
}

// Fills patches with the tiles of a block.
template <class S, Store STORE>
__device__ __forceinline__ void load(const ConvPatchParams& p, const Share& share, u32 base, const Barriers<S>& barriers) {
    const u32 turns = share.turns(p);
    u32 n = 0;
#pragma unroll 1
    for (u32 turn = 0; turn < turns; ++turn) {
        if (turn > 0) {
            barrier_wait(barriers.weights_read(), (turn - 1) & 1);
            load_weights<S>(p, share.channel(turn), base, barriers.weights());
        }
#pragma unroll 1
        for (u32 i = 0; i < share.count; ++i, ++n) {
            const Tile t = tile_at<S, STORE>(p, share.first + i * share.step);
            constexpr i32 POOL = STORE == Store::POOLED ? 2 : 1;
            const i32 column = static_cast<i32>(t.column) * POOL - static_cast<i32>(p.pad_columns);
            const i32 row = static_cast<i32>(t.row) * POOL - static_cast<i32>(p.pad_rows);
#pragma unroll
            for (u32 block = 0; block < S::K_BLOCKS; ++block) {
                const u32 stage = n % S::TILES * S::K_BLOCKS + block;
                barrier_wait(barriers.empty(stage), ((n / S::TILES) & 1) ^ 1);
                barrier_arrive_expecting(barriers.full(stage), S::PATCH_BYTES);
                copy_patch(base + S::PATCHES + stage * S::STAGE_BYTES, &p.image, barriers.full(stage), block * BLOCK_K, column, row, t.batch);
            }
        }
    }
}

// Asks for the products of one chain of a tile whose patches begin at `patch`; they are in flight together. Before the last
// few it calls `ends`.
template <class S, u32 CHAIN, class F>
__device__ __forceinline__ void multiply(float (&sums)[S::PIXELS / 2], u32 weights, u32 patch, const F& ends) {
    constexpr u32 BLOCKS = TAPS * TAPS * S::K_BLOCKS, BEGIN = CHAIN * BLOCKS / S::SPLITS, END = (CHAIN + 1) * BLOCKS / S::SPLITS;
    const u32 rows = pixel_groups(PATCH_ROW_BYTES);
    u32 a = swizzled_matrix(weights), b = swizzled_matrix(patch);
    // Not known to the compiler, which would else keep the sum of each product's offset in a register across all tiles.
    asm volatile("" : "+r"(a), "+r"(b));
#pragma unroll
    for (u32 i = 0; i < S::PIXELS / 2; ++i) sums[i] = 0.0f;
    products_begin();
#pragma unroll
    for (u32 k = BEGIN; k < END; ++k) {
        const u32 tap = k / S::K_BLOCKS, block = k % S::K_BLOCKS;
        if (k == END - 1) ends();
        const u32 first = block * S::STAGE_BYTES + tap / TAPS * PATCH_ROW_BYTES + tap % TAPS * K_BYTES;
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            // Descriptors count in 16 bytes.
            PatchProduct<S::PIXELS>::multiply(sums, a + (k * WEIGHT_BYTES + i * PRODUCT_K * 2 >> 4), b + (first + i * PRODUCT_K * 2 >> 4), rows);
        }
    }
    products_commit();
}

// Rounds the sums and turns them round at `at`, as pixels of 64 channels. `Bounds` and biases are applied on the way.
template <class S>
__device__ __forceinline__ void turn_round(const float (&sums)[S::PIXELS / 2], const Epilogue& e, const float (&bias)[2], u32 at, u32 warp, u32 lane) {
    const Bounds bounds(e);
    // Lanes 8 i .. 8 i + 7 name the pixels of the i-th 8 by 8 matrix: lower and upper channels of two rows.
    const u32 column = lane % 8, piece = warp * 2 + lane / 8 % 2;
    const u32 to = at + (lane / 16 * COLUMNS + column) * K_BYTES + (piece ^ column) * 16;
#pragma unroll
    for (u32 j = 0; j < S::ROWS; j += 2) {
        u32 halves[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const float* pair = sums + 4 * j + 2 * i;
            halves[i] = bounds.halves(__fadd_rn(pair[0], bias[i % 2]), __fadd_rn(pair[1], bias[i % 2]));
        }
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + j * COLUMNS * K_BYTES),
                     "r"(halves[0]), "r"(halves[1]), "r"(halves[2]), "r"(halves[3])
                     : "memory");
    }
}

// The greater of both halves of two words; NaN passes.
__device__ __forceinline__ u32 greater_halves(u32 a, u32 b) {
    u32 bits;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(bits) : "r"(a), "r"(b));
    return bits;
}

// Rounds the sums, keeps the greatest of every 2 by 2, and turns them round at `at`, as above with half the rows and columns.
template <class S>
__device__ __forceinline__ void turn_pooled(const float (&sums)[S::PIXELS / 2], const Epilogue& e, const float (&bias)[2], u32 at, u32 warp,
                                            u32 lane) {
    const Bounds bounds(e);
    // Of lower (0) or upper (1) channels, the maximum of a thread's two columns in rows `row` and `row + 1`, in both halves.
    const auto pooled = [&](u32 row, u32 upper) {
        const auto pair = [&](u32 j) {
            const float* value = sums + 4 * j + 2 * upper;
            return bounds.halves(__fadd_rn(value[0], bias[upper]), __fadd_rn(value[1], bias[upper]));
        };
        const u32 rows = row + 1 < S::ROWS ? greater_halves(pair(row), pair(row + 1)) : 0;
        return greater_halves(rows, __funnelshift_r(rows, rows, 16));
    };
    // A matrix holds two pooled rows: its column 2 q + s is column q of row s.
    const u32 pixel = lane / 16 * COLUMNS + lane % 2 * (COLUMNS / 2) + lane % 8 / 2, piece = warp * 2 + lane / 8 % 2;
    const u32 to = at + pixel * K_BYTES + (piece ^ pixel % 8) * 16;
#pragma unroll
    for (u32 j = 0; j < S::ROWS; j += 8) {
        u32 halves[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const u32 row = j + i / 2 * 4;
            halves[i] = __byte_perm(pooled(row, i % 2), pooled(row + 2, i % 2), 0x5410);
        }
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + j / 2 * (COLUMNS / 2) * K_BYTES),
                     "r"(halves[0]), "r"(halves[1]), "r"(halves[2]), "r"(halves[3])
                     : "memory");
    }
}

// Stores 8 channels; where not all groups of an output begin at multiples of 16 bytes, one by one.
template <bool WIDE>
__device__ __forceinline__ void store_bits(const Epilogue& e, u64 address, const uint4& bits) {
    if (WIDE || (e.flags & EPILOGUE_WIDE_STORE)) {
        *reinterpret_cast<uint4*>(address) = bits;
        return;
    }
    const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (u32 i = 0; i < GROUP; ++i) reinterpret_cast<u16*>(address)[i] = static_cast<u16>(words[i / 2] >> i % 2 * 16);
}

// Stores a tile of ROWS by ACROSS pixels that lies at `from`, 8 channels of a pixel a thread.
template <u32 ROWS, u32 ACROSS, bool WIDE>
__device__ __forceinline__ void store(const ConvPatchParams& p, const Tile& t, u32 channel, u32 from, u32 thread) {
    constexpr u32 PIECES = CHANNELS / GROUP, AT_ONCE = WARPGROUP / PIECES;  // AT_ONCE pixels, some rows
    constexpr u32 ROWS_AT_ONCE = AT_ONCE / ACROSS, TURNS = (ROWS + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
    const Epilogue& e = p.epilogue;
    const u32 pixel = thread / PIECES, piece = thread % PIECES, column = t.column + pixel % ACROSS;
    const u32 first = t.row + pixel / ACROSS;
    const u32 strip = from + pixel * K_BYTES + (piece ^ pixel % 8) * 16;
    const auto place = [&](const ChannelsLast& tensor) {
        return tensor.address + 2 * (t.batch * tensor.batch + first * tensor.row + column * tensor.pixel + channel + piece * GROUP);
    };
    const u64 to = place(e.output), step = e.output.row * ROWS_AT_ONCE * 2;
    const auto live = [&](u32 i) {
        return column < p.columns && first + i * ROWS_AT_ONCE < p.end_row && pixel / ACROSS + i * ROWS_AT_ONCE < ROWS;
    };
    const auto load = [&](u32 i) { return load_strip(strip + i * AT_ONCE * K_BYTES); };
    if (is_clip(e)) {
#pragma unroll
        for (u32 i = 0; i < TURNS; ++i) {
            if (live(i)) store_bits<WIDE>(e, to + i * step, load(i));
        }
    } else if (is_join(e)) {
        const u64 other = place(e.joined), other_step = e.joined.row * ROWS_AT_ONCE * 2;
        uint4 joined[TURNS];
#pragma unroll
        for (u32 i = 0; i < TURNS; ++i) {
            if (live(i)) joined[i] = *reinterpret_cast<const uint4*>(other + i * other_step);
        }
#pragma unroll
        for (u32 i = 0; i < TURNS; ++i) {
            const uint4 sum = join(load(i), joined[i], e);
            if (live(i)) *reinterpret_cast<uint4*>(to + i * step) = sum;
        }
    } else {
#pragma unroll 1
        for (u32 i = 0; i < TURNS; ++i) {
            const uint4 bits = apply_to_group(load(i), e);
            if (live(i)) *reinterpret_cast<uint4*>(to + i * step) = bits;
        }
    }
}

// Stores a tile whose tail has no path of its own, half of its rows at a time; `patch` holds them in f32.
template <class S>
__device__ __forceinline__ void store_any(const ConvPatchParams& p, const Tile& t, const float (&sums)[S::PIXELS / 2], u32 channel, u8* patch,
                                          u32 group, u32 thread) {
    constexpr u32 HALF = S::ROWS / 2, GROUPS = CHANNELS / GROUP;
    const u32 lane = thread % WARP;
    float* tile = reinterpret_cast<float*>(patch);
#pragma unroll
    for (u32 first = 0; first < S::ROWS; first += HALF) {
        warpgroup_meet(group);
        float* fragment = tile + lane % 4 * 2 * CHANNELS + thread / WARP * 16 + lane / 4;
#pragma unroll
        for (u32 j = 0; j < HALF; ++j) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) fragment[(j * COLUMNS + i % 2) * CHANNELS + i / 2 * 8] = sums[4 * (first + j) + i];
        }
        warpgroup_meet(group);
#pragma unroll 1
        for (u32 i = thread; i < HALF * COLUMNS * GROUPS; i += WARPGROUP) {
            const u32 pixel = i / GROUPS;
            const Place place = {t.batch, t.row + first + pixel / COLUMNS, t.column + pixel % COLUMNS, channel + i % GROUPS * GROUP};
            if (place.row >= p.end_row || place.pixel >= p.columns) continue;
            float values[GROUP];
#pragma unroll
            for (u32 j = 0; j < GROUP; ++j) values[j] = tile[i * GROUP + j];
            finish(values, p.epilogue, place, GROUP);
        }
    }
}

// What a warpgroup does.
template <class S, Store STORE>
__device__ __forceinline__ void work(const ConvPatchParams& p, const Share& share, u8* memory, const Barriers<S>& barriers, u32 group, u32 thread) {
    const u32 base = shared_address(memory), lane = thread % WARP, warp = __shfl_sync(0xffffffff, thread / WARP, 0);
    const u32 turns = share.turns(p), total = turns * share.count;
    float bias[2] = {};
    u32 turn = 0;
    // The weights of another 64 channels.
    const auto begin_turn = [&] {
        const float* biases = reinterpret_cast<const float*>(p.epilogue.bias);
        const u32 own = share.channel(turn) + warp * 16 + lane / 4;
        if (STORE != Store::ANY && biases != nullptr) bias[0] = biases[own], bias[1] = biases[own + 8];
        barrier_wait(barriers.weights(), turn & 1);
    };
    if (total > 0) begin_turn();
    wait_for_predecessors();
    if (total == 0) return;
#pragma unroll 1
    for (u32 n = group; n < total + S::WARPGROUPS; n += S::WARPGROUPS) {
        // Past the last tile, the block's other turns are passed.
        while (turn < min(n / share.count, turns - 1)) {
            if (lane == 0) barrier_arrive(barriers.weights_read());
            ++turn;
            begin_turn();
        }
        if (n >= total) break;
        const Tile t = tile_at<S, STORE>(p, share.first + n % share.count * share.step);
        const u32 stage = n % S::TILES * S::K_BLOCKS, patch = S::PATCHES + stage * S::STAGE_BYTES, channel = share.channel(turn);
#pragma unroll
        for (u32 block = 0; block < S::K_BLOCKS; ++block) barrier_wait(barriers.full(stage + block), (n / S::TILES) & 1);
        // Warpgroups multiply one after another, so that one stores while the next multiplies.
        if (n > 0) barrier_wait(barriers.turn(group), ((n - 1) / S::WARPGROUPS) & 1);
        float sums[S::PIXELS / 2];
        const auto pass_turn = [&] {
            if (lane == 0) barrier_arrive(barriers.turn((n + 1) % S::WARPGROUPS));
        };
        if constexpr (S::SPLITS == 2) {
            float more[S::PIXELS / 2];
            multiply<S, 0>(sums, base, base + patch, [] {});
            multiply<S, 1>(more, base, base + patch, pass_turn);
            products_wait<0>();
#pragma unroll
            for (u32 i = 0; i < S::PIXELS / 2; ++i) sums[i] = __fadd_rn(sums[i], more[i]);
        } else {
            multiply<S, 0>(sums, base, base + patch, pass_turn);
            products_wait<0>();
        }
        if constexpr (STORE != Store::ANY) {
            // The other warps have read the patch, too: the tile is turned round in its place.
            warpgroup_meet(group);
            if constexpr (STORE == Store::POOLED) {
                turn_pooled<S>(sums, p.epilogue, bias, base + patch, warp, lane);
                warpgroup_meet(group);
                store<S::ROWS / 2, COLUMNS / 2, false>(p, t, channel, base + patch, thread);
            } else {
                turn_round<S>(sums, p.epilogue, bias, base + patch, warp, lane);
                warpgroup_meet(group);
                store<S::ROWS, COLUMNS, true>(p, t, channel, base + patch, thread);
            }
        } else {
            store_any<S>(p, t, sums, channel, memory + patch, group, thread);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (lane == 0) {
#pragma unroll
            for (u32 block = 0; block < S::K_BLOCKS; ++block) barrier_arrive(barriers.empty(stage + block));
        }
    }
}

template <class S, Store STORE>
__device__ __forceinline__ void convolve(const ConvPatchParams& p) {
    extern __shared__ __align__(1024) u8 memory[];
    const u32 base = shared_address(memory);
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const Barriers<S> barriers = {base + S::BARRIERS};
    const Share share(p);
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        barriers.init();
    }
    __syncthreads();
    if (warp == S::WORKERS / WARP) {
        // Weights are constants.
        if (lane == 0 && share.count > 0) load_weights<S>(p, share.channel(0), base, barriers.weights());
        wait_for_predecessors();
        release_successors();
        if (lane == 0) load<S, STORE>(p, share, base, barriers);
    } else {
        work<S, STORE>(p, share, memory, barriers, warp / (WARPGROUP / WARP), threadIdx.x % WARPGROUP);
    }
}

// Kernels of the menu (plan/tactic/conv_patch.rs): rows of a tile, input channels in blocks of 64, patches in shared memory,
// warpgroups, chains. Each stands for every way to store.
#define CONV_PATCH_KERNEL(ROWS, BLOCKS, STAGES, GROUPS, CHAINS, NAME, STORE)                                           \
    extern "C" __global__ void __launch_bounds__(Shape<ROWS, BLOCKS, STAGES, GROUPS, CHAINS>::THREADS, 1)              \
        conv_patch_r##ROWS##_k##BLOCKS##_s##STAGES##_g##GROUPS##_c##CHAINS##_##NAME(const __grid_constant__ ConvPatchParams p) { \
        convolve<Shape<ROWS, BLOCKS, STAGES, GROUPS, CHAINS>, Store::STORE>(p);                                        \
    }
#define CONV_PATCH(ROWS, BLOCKS, STAGES, GROUPS, CHAINS)                                                               \
    CONV_PATCH_KERNEL(ROWS, BLOCKS, STAGES, GROUPS, CHAINS, plain, PLAIN)                                              \
    CONV_PATCH_KERNEL(ROWS, BLOCKS, STAGES, GROUPS, CHAINS, any, ANY)                                                  \
    CONV_PATCH_KERNEL(ROWS, BLOCKS, STAGES, GROUPS, CHAINS, pooled, POOLED)

CONV_PATCH(14, 1, 7, 3, 1)
CONV_PATCH(8, 1, 10, 3, 1)
CONV_PATCH(14, 2, 4, 2, 1)
CONV_PATCH(8, 2, 6, 3, 1)
CONV_PATCH(14, 2, 4, 2, 2)
CONV_PATCH(8, 2, 6, 3, 2)
