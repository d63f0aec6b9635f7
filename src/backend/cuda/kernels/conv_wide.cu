// Convolution of 3 by 3 neighbouring taps for Hopper where every SM has many products to do: the sums and bits of conv_deep.cu,
// with tiles so wide that shared memory has time left beside the products.
//
// A tile is 64 channels of up to PIXELS pixels. Two warpgroups take the tiles in turn: while one rounds and stores, the other
// multiplies. The patches of all input channels are in shared memory while the tiles of
// their pixels last, where there is room together with those that come next; the weights stream past them. Three
// threads keep the copy engine busy, with weights, with patches, and with what is joined, which comes to the place that a tile is
// stored from: so no warp that multiplies waits for memory.
//
// Pixels are counted through a patch, whose rows follow each other, 8 to a group: a tap is an offset. Either a tile is 8 columns
// of as many rows, a row a group; or whole rows, and groups follow each other. Then rows have one column more
// than the image, which is the padding at its end and at the next row's begin; sums of such pixels are cut off when the tile is
// stored. For one chain of products, and tails of bounds and a joined tensor (bind/conv_wide.rs); others take the kernels of
// conv_patch.cu and conv_deep.cu.

#include "conv_patch_tile.cuh"
#include "conv_wide.cuh"

constexpr u32 GROUPS_OF_WARPS = 2;  // that multiply
constexpr u32 WORKERS = GROUPS_OF_WARPS * WARPGROUP;
constexpr u32 THREADS = WORKERS + WARPGROUP;
constexpr u32 MAX_PATCHES = 16;  // in shared memory at once
constexpr u32 MAX_STAGES = 16;   // of weights
constexpr u32 MAX_PLACES = 2;

// Shared memory: patches, tiles that are stored, weights, barriers. Of every patch, stage and place two barriers: that it is there,
// and that it may be filled; of each warpgroup, that it may multiply.
struct Room {
    u32 patches, places, weights, barriers;

    __device__ __forceinline__ Room(const ConvWideParams& p, u32 base) {
        patches = base;
        places = patches + p.sets * p.k_blocks * p.patch_stage;
        weights = places + p.places * p.place_bytes;
        barriers = weights + p.weight_stages * WEIGHT_BYTES;
    }
    __device__ __forceinline__ u32 patch_full(u32 index) const { return barriers + index * 16; }
    __device__ __forceinline__ u32 weight_full(u32 stage) const { return barriers + (MAX_PATCHES + stage) * 16; }
    __device__ __forceinline__ u32 place_full(u32 place) const { return barriers + (MAX_PATCHES + MAX_STAGES + place) * 16; }
    __device__ __forceinline__ u32 turn(u32 group) const { return barriers + (MAX_PATCHES + MAX_STAGES + MAX_PLACES) * 16 + group * 8; }

    __device__ __forceinline__ void init(const ConvWideParams& p) const {
        for (u32 i = 0; i < p.sets * p.k_blocks; ++i) {
            barrier_init(patch_full(i), 1);
            barrier_init(patch_full(i) + 8, p.items * (WARPGROUP / WARP));
        }
        for (u32 i = 0; i < p.weight_stages; ++i) {
            barrier_init(weight_full(i), 1);
            barrier_init(weight_full(i) + 8, WARPGROUP / WARP);
        }
        for (u32 i = 0; i < p.places; ++i) {
            barrier_init(place_full(i), 1);
            barrier_init(place_full(i) + 8, 1);
        }
        for (u32 i = 0; i < GROUPS_OF_WARPS; ++i) barrier_init(turn(i), WARPGROUP / WARP);
        barrier_init_fence();
    }
};

// Tiles of a block: of units `blockIdx.x + i * gridDim.x`, in each `items`. They are numbered through; tile n is of warpgroup n % 2.
__device__ __forceinline__ u32 tiles_of_block(const ConvWideParams& p) {
    return blockIdx.x < p.units ? (p.units - blockIdx.x + gridDim.x - 1) / gridDim.x * p.items : 0;
}

// Of tile `n` of a block, the unit, its channels, and where it lies.
struct Spot {
    u32 unit, channel;
    i32 column, row, batch;

    __device__ __forceinline__ Spot(const ConvWideParams& p, u32 n) {
        unit = n / p.items;
        const u32 index = blockIdx.x + unit * gridDim.x, tile = index / p.ranges, line = tile / p.across, sample = line / p.down;
        channel = (index % p.ranges * p.items + n % p.items) * CHANNELS;
        column = static_cast<i32>((tile - line * p.across) * p.step_columns);
        row = static_cast<i32>(p.first_row + (line - sample * p.down) * p.step_rows);
        batch = static_cast<i32>(p.first_batch + sample * p.step_samples);
    }
};

// A place in the ring of weights, and how often the ring went round.
struct Ring {
    u32 stage, parity;

    __device__ __forceinline__ Ring(u32 position, u32 stages) : stage(position % stages), parity(position / stages % 2) {}
    __device__ __forceinline__ void advance(u32 stages) {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// Keeps the ring full with the weights of a block's tiles. The loop is as short as it can be: a warp alone waits for each of its
// instructions, and a stage is multiplied in 450 cycles. All lanes come here, and to the other loads.
__device__ __forceinline__ void load_weights(const ConvWideParams& p, const Room& room, u32 tiles) {
    const u64 step = static_cast<u64>(p.channels) * K_BYTES;
    const u32 first = room.weight_full(0), last = room.weight_full(p.weight_stages);
    u32 full = first, to = room.weights, parity = 1;
#pragma unroll 1
    for (u32 n = 0; n < tiles; ++n) {
        u64 from = p.weights + Spot(p, n).channel * K_BYTES;
#pragma unroll 1
        for (u32 left = TAPS * TAPS * p.k_blocks; left > 0; --left) {
            barrier_wait(full + 8, parity);
            if (elected()) {
                barrier_arrive_expecting(full, WEIGHT_BYTES);
                copy_run(to, reinterpret_cast<const void*>(from), WEIGHT_BYTES, full);
            }
            from += step;
            full += 16;
            to += WEIGHT_BYTES;
            if (full == last) {
                full = first;
                to = room.weights;
                parity ^= 1;
            }
        }
    }
}

// Loads the patches of a block's units.
__device__ __forceinline__ void load_patches(const ConvWideParams& p, const Room& room, u32 tiles) {
    u32 set = 0, parity = 1;
#pragma unroll 1
    for (u32 n = 0; n < tiles; n += p.items) {
        const Spot spot(p, n);
#pragma unroll 1
        for (u32 block = 0; block < p.k_blocks; ++block) {
            const u32 index = set * p.k_blocks + block, full = room.patch_full(index);
            barrier_wait(full + 8, parity);
            if (elected()) {
                barrier_arrive_expecting(full, p.patch_bytes);
                copy_patch(room.patches + index * p.patch_stage, &p.image, full, static_cast<i32>(block * BLOCK_K),
                           spot.column - static_cast<i32>(p.pad_columns), spot.row - static_cast<i32>(p.pad_rows), spot.batch);
            }
        }
        if (++set == p.sets) {
            set = 0;
            parity ^= 1;
        }
    }
}

// Brings what is joined to the tiles of a block to the places that they are stored from.
__device__ __forceinline__ void load_joined_tiles(const ConvWideParams& p, const Room& room, u32 tiles) {
#pragma unroll 1
    for (u32 n = 0; n < tiles; ++n) {
        const u32 place = n % p.places, full = room.place_full(place);
        const Spot spot(p, n);
        barrier_wait(full + 8, n / p.places % 2 ^ 1);
        if (elected()) {
            barrier_arrive_expecting(full, p.tile_bytes);
            copy_patch(room.places + place * p.place_bytes, &p.joined, full, static_cast<i32>(spot.channel), spot.column, spot.row, spot.batch);
        }
    }
}

// Multiplies all blocks of K into `sums`, which start anew. Calls `turn` when all is ready to multiply. When the weights of the last
// block are there, it is the turn of the warpgroup whose barrier is `next`. The unit's patches are those from `first` on.
template <u32 PIXELS, class F>
__device__ __forceinline__ void multiply(float (&sums)[PIXELS / 2], const ConvWideParams& p, const Room& room, Ring ring, u32 first, u32 parity,
                                         u32 next, u32 lane, const F& turn) {
    const u32 groups = pixel_groups(p.group_bytes), end = TAPS * TAPS * p.k_blocks;
    u32 tap = 0, block = 0, offset = 0;
#pragma unroll
    for (u32 i = 0; i < PIXELS / 2; ++i) sums[i] = 0.0f;
    turn();
    u32 weight_done = 0, patch_done = 0;
    const auto release = [&] {
        if (lane == 0 && weight_done != 0) barrier_arrive(weight_done);
        if (lane == 0 && patch_done != 0) barrier_arrive(patch_done);
    };
#pragma unroll 1
    for (u32 k = 0; k < end; ++k) {
        const u32 patch = first + block, full = room.weight_full(ring.stage);
        if (tap == 0) barrier_wait(room.patch_full(patch), parity);
        barrier_wait(full, ring.parity);
        if (k + 1 == end && lane == 0) barrier_arrive(next);
        const u32 a = swizzled_matrix(room.weights + ring.stage * WEIGHT_BYTES);
        const u32 b = swizzled_matrix(room.patches + patch * p.patch_stage + offset);
        products_begin();
#pragma unroll
        for (u32 i = 0; i < BLOCK_K / PRODUCT_K; ++i) {
            const u32 step = i * PRODUCT_K * 2 >> 4;  // descriptors count in 16 bytes
            PatchProduct<PIXELS>::multiply(sums, a + step, b + step, groups);
        }
        products_commit();
        // The products of the block before are done.
        products_wait<1>();
        release();
        weight_done = full + 8;
        patch_done = tap + 1 == TAPS * TAPS ? room.patch_full(patch) + 8 : 0;
        ring.advance(p.weight_stages);
        if (++block == p.k_blocks) {
            block = 0;
            ++tap;
            offset += tap % TAPS == 0 ? p.row_bytes - (TAPS - 1) * K_BYTES : K_BYTES;
        }
    }
    products_wait<0>();
    release();
}

// Rounds the sums and turns them round at `at`, as pixels of 64 channels; what is joined to them lies there.
template <u32 PIXELS>
__device__ __forceinline__ void turn_wide(const float (&sums)[PIXELS / 2], const Epilogue& e, const float (&bias)[2], u32 at, u32 warp, u32 lane) {
    static_assert(PIXELS % 16 == 0, "groups are turned round in pairs");
    const Bounds bounds(e);
    const bool joins = is_join(e), relu = e.flags & EPILOGUE_JOINS_RELU;
    // Lanes 8 i .. 8 i + 7 name the pixels of the i-th 8 by 8 matrix: lower and upper channels of two groups.
    const u32 pixel = lane % 8, piece = warp * 2 + lane / 8 % 2;
    const u32 to = at + (lane / 16 * 8 + pixel) * K_BYTES + (piece ^ pixel) * 16;
#pragma unroll
    for (u32 j = 0; j < PIXELS / 8; j += 2) {
        const u32 address = to + j * 8 * K_BYTES;
        u32 halves[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const float* pair = sums + 4 * j + 2 * i;
            halves[i] = bounds.halves(__fadd_rn(pair[0], bias[i % 2]), __fadd_rn(pair[1], bias[i % 2]));
        }
        if (joins) {
            u32 other[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(other[0]), "=r"(other[1]), "=r"(other[2]), "=r"(other[3])
                         : "r"(address)
                         : "memory");
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                const u32 sum = add_halves(halves[i], other[i]);
                halves[i] = relu ? relu_halves(sum) : sum;
            }
        }
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(halves[0]), "r"(halves[1]),
                     "r"(halves[2]), "r"(halves[3])
                     : "memory");
    }
}

// Stores a tile that lies at `from`, and waits until that may be written again.
__device__ __forceinline__ void store_tile_box(const TensorMap* map, u32 from, const Spot& spot) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map), "r"(from),
                 "r"(static_cast<i32>(spot.channel)), "r"(spot.column), "r"(spot.row), "r"(spot.batch)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// What a warpgroup does.
template <u32 PIXELS>
__device__ __forceinline__ void work(const ConvWideParams& p, const Room& room, u32 tiles, u32 group, u32 thread) {
    const u32 lane = thread % WARP, warp = __shfl_sync(0xffffffff, thread / WARP, 0);
    const float* biases = reinterpret_cast<const float*>(p.epilogue.bias);
#pragma unroll 1
    for (u32 n = group; n < tiles; n += GROUPS_OF_WARPS) {
        const Spot spot(p, n);
        const u32 first = spot.unit % p.sets * p.k_blocks, parity = spot.unit / p.sets % 2;
        const Ring ring(n * TAPS * TAPS * p.k_blocks, p.weight_stages);
        float sums[PIXELS / 2];
        multiply<PIXELS>(sums, p, room, ring, first, parity, room.turn(group ^ 1), lane, [&] {
            if (n > 0) barrier_wait(room.turn(group), (n - 1) / GROUPS_OF_WARPS % 2);
        });
        float bias[2] = {};
        const u32 own = spot.channel + warp * 16 + lane / 4;
        if (biases != nullptr) bias[0] = biases[own], bias[1] = biases[own + 8];
        const u32 place = n % p.places, at = room.places + place * p.place_bytes, full = room.place_full(place), times = n / p.places;
        // The tile before has left it. Only then does its barrier's phase tell what is joined to this tile from what was to the last.
        barrier_wait(full + 8, times % 2 ^ 1);
        if (is_join(p.epilogue)) barrier_wait(full, times % 2);
        turn_wide<PIXELS>(sums, p.epilogue, bias, at, warp, lane);
        copy_fence();
        warpgroup_meet(group);
        if (warp == 0 && elected()) {
            store_tile_box(&p.output, at, spot);
            barrier_arrive(full + 8);
        }
    }
    if (warp == 0 && elected()) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Writes the zeros behind each patch.
__device__ __forceinline__ void clear(const ConvWideParams& p, u8* memory) {
    const u32 patches = p.sets * p.k_blocks;
#pragma unroll 1
    for (u32 i = 0; i < patches; ++i) {
        for (u32 at = p.patch_bytes + threadIdx.x * 16; at < p.patch_stage; at += THREADS * 16) {
            *reinterpret_cast<uint4*>(memory + i * p.patch_stage + at) = make_uint4(0, 0, 0, 0);
        }
    }
    copy_fence();
}

template <u32 PIXELS>
__device__ __forceinline__ void convolve(const ConvWideParams& p) {
    extern __shared__ __align__(1024) u8 memory[];
    const Room room(p, shared_address(memory));
    const u32 tiles = tiles_of_block(p);
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0);
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        prefetch_map(&p.output);
        if (is_join(p.epilogue)) prefetch_map(&p.joined);
        room.init(p);
    }
    clear(p, memory);
    __syncthreads();
    if (warp >= WORKERS / WARP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        // Weights are constants.
        if (warp == WORKERS / WARP) load_weights(p, room, tiles);
        wait_for_predecessors();
        release_successors();
        if (warp == WORKERS / WARP + 1) load_patches(p, room, tiles);
        if (warp == WORKERS / WARP + 2 && is_join(p.epilogue)) load_joined_tiles(p, room, tiles);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        wait_for_predecessors();
        work<PIXELS>(p, room, tiles, warp / (WARPGROUP / WARP), threadIdx.x % WARPGROUP);
    }
}

// Kernels of the menu (plan/tactic/conv_patch.rs): pixels of a tile.
#define CONV_WIDE(PIXELS)                                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) conv_wide_##PIXELS(const __grid_constant__ ConvWideParams p) { \
        convolve<PIXELS>(p);                                                                                                    \
    }

CONV_WIDE(224)
