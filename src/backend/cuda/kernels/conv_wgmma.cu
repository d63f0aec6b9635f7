// Convolution for Hopper: an implicit matrix product over channels-last pixels, fed by the tensor memory accelerator and
// multiplied by warpgroups.
//
//   rows     output pixels of the chunk; columns: output channels
//   K        taps in row-major order, inside a tap the input channels in blocks of 64 (zeros behind the last channel)
//
// One warp keeps a ring of stages full, or two where no other block shares the SM: pixels come through an im2col map, whose zeros
// outside the image are the padding; weights come packed in the order in which they are read, already swizzled
// (bind/conv_wgmma.rs). One to three warpgroups
// multiply, 64 rows each. Every output is one chain of products in ascending K, cut into `splits` chains that are added in
// order: so neither tile nor grid nor chunk changes a bit. (Rows of taps that lie outside for a whole tile are left out; they
// would add zeros, as long as weights are finite.) The splits of a tile are computed one after another by one
// block, or side by side by the blocks of a cluster, which then share out the rows and give each other the sums.

#include "conv_wgmma_store.cuh"
#include "conv_wgmma_tile.cuh"

constexpr u32 BARRIER_BYTES = 256;

// A tile of M pixels and N channels, how many K blocks are in flight, and how many blocks share an SM.
template <u32 M, u32 N, u32 DEPTH, u32 BLOCKS>
struct Shape {
    static constexpr u32 TILE_M = M, TILE_N = N, STAGES = DEPTH;
    static constexpr u32 WARPGROUPS = M / WARPGROUP_ROWS;
    static constexpr u32 WORKERS = WARPGROUPS * WARPGROUP;  // threads that multiply
    static constexpr u32 LOADERS = BLOCKS == 1 ? 2 : 1;     // warps that load: of two, the second loads the pixels
    static constexpr u32 THREADS = WORKERS + LOADERS * WARP;
    // Registers of a thread, given to four warps at a time, and whether there are some for what the next strip needs.
    static constexpr u32 REGISTERS = 65536 / ((THREADS + WARPGROUP - 1) / WARPGROUP * WARPGROUP * BLOCKS);
    static constexpr bool ROOMY = REGISTERS >= N / 2 + 64;
    static constexpr u32 IMAGE_BYTES = M * K_BYTES, WEIGHT_BYTES = N * K_BYTES;
    static constexpr u32 STAGE_BYTES = IMAGE_BYTES + WEIGHT_BYTES;
    // Shared memory: stages, barriers, and then a strip for each warp, or in a cluster the chains' sums of a part of the tile.
    static constexpr u32 BARRIERS = DEPTH * STAGE_BYTES;    // of a stage two, 16 bytes apart
    static constexpr u32 SUMS = BARRIERS + DEPTH * 16;      // of a piece, the barrier that counts the bytes of other blocks' sums
    static constexpr u32 STRIPS = BARRIERS + BARRIER_BYTES;
    static constexpr u32 PIECE = N < STRIP ? N : STRIP, PIECES = N / PIECE;  // channels whose sums are given at a time
    static constexpr u32 SHARE = STRIPS, PIECE_BYTES = M * PIECE * 4, SHARE_BYTES = PIECES * PIECE_BYTES;
    static_assert(SUMS + PIECES * 8 <= STRIPS, "barriers fit");
};

// The threads that multiply meet.
template <u32 WORKERS>
__device__ __forceinline__ void workers_meet() {
    asm volatile("barrier.sync 1, %0;" ::"n"(WORKERS) : "memory");
}

__device__ __forceinline__ Place place_of(const ConvWgmmaParams& p, u32 pixel, u32 channel) {
    const u32 line = pixel / p.columns;
    const u32 batch = line / p.rows;
    return {batch, line - batch * p.rows, pixel - line * p.columns, channel};
}

// Offsets of a pixel in the output and the joined tensor, in pairs of channels.
struct Offsets {
    u32 output, joined;
};

__device__ __forceinline__ Offsets offsets_of(const ConvWgmmaParams& p, u32 pixel) {
    const Epilogue& e = p.epilogue;
    if (e.flags & EPILOGUE_FLAT) {
        return {pixel * static_cast<u32>(e.output.pixel / PAIR), pixel * static_cast<u32>(e.joined.pixel / PAIR)};
    }
    const Place place = place_of(p, pixel, 0);
    return {row_pairs(e.output, place), row_pairs(e.joined, place)};
}

// In a cluster every block finishes a part of the tile's rows, `part` of them, a multiple of a warp's. Its `share` holds what
// the blocks' chains sum to there: [piece of channels][chain][row of the part][channel], so that a piece is added and stored while
// the next one comes. Inside a row, groups of 8 channels are permuted, so that the same group of neighbouring rows meets different
// banks.
__device__ __forceinline__ u32 group_offset(u32 row, u32 group) { return (group ^ row % 4) * (GROUP * 4); }

// Gives the sums of a warp's rows, of one chain, to the block that finishes them. To another block they pass through the memory
// of the stages, which nobody may read or fill meanwhile; what this block finishes itself is written where it belongs.
template <class S>
__device__ __forceinline__ void give(const float (&sums)[S::TILE_N / 2], u32 first_row, u32 chain, u32 part, u32 base, u32 lane) {
    constexpr u32 ROW_BYTES = S::PIECE * 4, GROUPS = S::PIECE / GROUP;
    const u32 owner = first_row / part;
    const bool mine = owner == chain;
#pragma unroll
    for (u32 piece = 0; piece < S::PIECES; ++piece) {
        const u32 share = base + S::SHARE + piece * S::PIECE_BYTES + (chain * part + first_row % part) * ROW_BYTES;
        const u32 own = mine ? share : base + piece * S::PIECE_BYTES + first_row * ROW_BYTES;
        const u32 fragment = own + lane / 4 * ROW_BYTES + lane % 4 * 8;
#pragma unroll
        for (u32 j = 0; j < GROUPS; ++j) {
            const u32 at = fragment + group_offset(lane / 4, j);
            const float* four = sums + (piece * GROUPS + j) * 4;
            store_pair(at, four[0], four[1]);
            store_pair(at + 8 * ROW_BYTES, four[2], four[3]);
        }
        if (!mine) copy_fence();
        __syncwarp();
        if (!mine && elected()) {
            send_run(remote_address(share, owner), own, WARP_ROWS * ROW_BYTES, remote_address(base + S::SUMS + piece * 8, owner));
        }
    }
}

// Adds the chains of a group of channels, in order; they lie `step` bytes apart. Threads with `turned` read the second half
// first: so 8 threads meet all banks.
template <u32 SPLITS>
__device__ __forceinline__ void add_chains(float (&values)[GROUP], u32 address, u32 step, bool turned) {
    const u32 first = address + (turned ? 16 : 0), second = address + (turned ? 0 : 16);
    float4 parts[SPLITS][2];
#pragma unroll
    for (u32 chain = 0; chain < SPLITS; ++chain) {
        parts[chain][0] = load_four(first + chain * step);
        parts[chain][1] = load_four(second + chain * step);
    }
    float sums[GROUP];
#pragma unroll
    for (u32 chain = 0; chain < SPLITS; ++chain) {
        const float4 low = parts[chain][0], high = parts[chain][1];
        const float part[GROUP] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (u32 j = 0; j < GROUP; ++j) sums[j] = chain == 0 ? part[j] : __fadd_rn(sums[j], part[j]);
    }
#pragma unroll
    for (u32 j = 0; j < GROUP; ++j) values[j] = turned ? sums[j ^ GROUP / 2] : sums[j];
}

// The same of so many chains: 2 or 4.
__device__ __forceinline__ void add_chains(float (&values)[GROUP], u32 splits, u32 address, u32 step, bool turned) {
    if (splits == 2) {
        add_chains<2>(values, address, step, turned);
    } else {
        add_chains<4>(values, address, step, turned);
    }
}

// The K blocks that a block loads for a tile.
template <Chains CHAINS>
__device__ __forceinline__ Blocks own_blocks(const ConvWgmmaParams& p, const Tile& t, u32 rank) {
    const Blocks live = blocks_of(p, t);
    return CHAINS == Chains::CLUSTER ? chain_blocks(p, live, rank) : live;
}

// A group of 8 channels of a tile that a thread finishes.
struct TileGroup {
    u32 row, column;
};

__device__ __forceinline__ bool is_live(const ConvWgmmaParams& p, const Tile& t, const TileGroup& g) {
    return g.row < t.pixels && t.channel + g.column < p.channels;
}

// A group that a thread finishes of its block's part of the rows, and where its first chain's sums lie.
template <class S>
struct OwnGroup {
    TileGroup group;
    u32 sums;
    bool turned;

    // The `i`th group of a piece of the channels.
    __device__ __forceinline__ OwnGroup(u32 rank, u32 part, u32 piece, u32 i, u32 base) {
        constexpr u32 GROUPS = S::PIECE / GROUP;
        const u32 row = i / GROUPS;
        group = {rank * part + row, piece * S::PIECE + i % GROUPS * GROUP};
        sums = base + S::SHARE + piece * S::PIECE_BYTES + row * (S::PIECE * 4) + group_offset(row, i % GROUPS);
        turned = i / 4 % 2;
    }
};

// Loads what a thread's group `i` of a piece needs besides its sums, if there is such a group.
template <class S>
__device__ __forceinline__ void load_ahead_of(GroupAhead& ahead, const ConvWgmmaParams& p, const Tile& t, u32 rank, u32 part, u32 piece, u32 i,
                                              u32 base) {
    const TileGroup g = OwnGroup<S>(rank, part, piece, i, base).group;
    if (i >= part * (S::PIECE / GROUP) || !is_live(p, t, g)) return;
    const Offsets offsets = offsets_of(p, t.pixel + g.row);
    load_group_ahead(ahead, p.epilogue, offsets.output, offsets.joined, t.channel + g.column);
}

// Adds the chains of this block's part of the rows and stores them the plain way, one piece of the channels after another as they
// come. What the first group needs besides its sums is there; what the next one needs is on its way while one is added. A loop, so
// that only the first group waits for its instructions.
template <class S>
__device__ __forceinline__ void gather(const ConvWgmmaParams& p, const Tile& t, u32 rank, u32 part, u32 base, u32 parity, bool last,
                                       GroupAhead& ahead) {
    const u32 all = part * (S::PIECE / GROUP), step = part * (S::PIECE * 4);
    u32 piece = 0, before = 0;  // groups of the piece in the turns before
#pragma unroll 1
    while (piece < S::PIECES) {
        const bool ends = before + S::WORKERS >= all;
        const u32 next_piece = ends ? piece + 1 : piece, next_before = ends ? 0 : before + S::WORKERS, i = before + threadIdx.x;
        GroupAhead next;
        if (next_piece < S::PIECES) load_ahead_of<S>(next, p, t, rank, part, next_piece, next_before + threadIdx.x, base);
        if (before == 0) {
            barrier_wait(base + S::SUMS + piece * 8, parity);
            __syncwarp();
            if (piece + 1 == S::PIECES && last) cluster_arrive_relaxed();  // whose sums have come may end
        }
        const OwnGroup<S> own(rank, part, piece, i, base);
        if (i < all && is_live(p, t, own.group)) {
            float values[GROUP];
            add_chains(values, p.splits, own.sums, step, own.turned);
            store_plain_group(p.epilogue, values, ahead, p.channels - t.channel - own.group.column);
        }
        __syncwarp();
        ahead = next;
        piece = next_piece;
        before = next_before;
    }
}

// The same the general way, when all pieces have come. What finishes a group is long and stands here once.
template <class S>
__device__ __forceinline__ void gather_any(const ConvWgmmaParams& p, const Tile& t, u32 rank, u32 part, u32 base, u32 parity, bool last) {
    const u32 all = part * (S::PIECE / GROUP), step = part * (S::PIECE * 4);
#pragma unroll
    for (u32 piece = 0; piece < S::PIECES; ++piece) barrier_wait(base + S::SUMS + piece * 8, parity);
    __syncwarp();
    if (last) cluster_arrive_relaxed();  // whose sums have come may end
#pragma unroll 1
    for (u32 i = threadIdx.x; i < S::PIECES * all; i += S::WORKERS) {
        const u32 piece = i / all;
        const OwnGroup<S> own(rank, part, piece, i - piece * all, base);
        const TileGroup& g = own.group;
        if (!is_live(p, t, g)) continue;
        float values[GROUP];
        add_chains(values, p.splits, own.sums, step, own.turned);
        finish(values, p.epilogue, place_of(p, t.pixel + g.row, t.channel + g.column), min(GROUP, p.channels - t.channel - g.column));
    }
    __syncwarp();
}

// Where the rows of a warp lie.
__device__ __forceinline__ WarpRows warp_rows(const ConvWgmmaParams& p, const Tile& t, u32 first_row, u32 lane) {
    const Offsets offsets = offsets_of(p, t.pixel + first_row + lane % WARP_ROWS);
    const u32 live = t.pixels > first_row ? t.pixels - first_row : 0;
    return {offsets.output, offsets.joined, live};
}

// Stores the sums of a warp, the general way.
template <class S>
__device__ __forceinline__ void store_any(const ConvWgmmaParams& p, const Tile& t, const float (&sums)[S::TILE_N / 2], u32 first_row, u32 strip,
                                          u32 lane) {
    const u32 live = t.pixels > first_row ? t.pixels - first_row : 0;
    const auto place_at = [&](u32 row) { return place_of(p, t.pixel + first_row + row, 0); };
    store_general(p.epilogue, sums, live, place_at, strip, t.channel, p.channels, lane);
}

// Asks for the biases of a tile, so that they lie in the first cache when its sums are there.
template <class S>
__device__ __forceinline__ void touch_biases(const ConvWgmmaParams& p, const Tile& t, u32 lane) {
    constexpr u32 LINE = 32;  // floats
    if (p.epilogue.bias == 0 || lane * LINE >= S::TILE_N || t.channel + lane * LINE >= p.channels) return;
    u32 unused;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(unused) : "l"(p.epilogue.bias + 4ull * (t.channel + lane * LINE)));
}

// Stores the sums of a warp from `FIRST` on the plain way, a strip at a time. What the first strip needs is there if `EARLY`; what
// the next one needs is on its way while a strip is stored, if there are registers for it.
template <class S, bool EARLY, u32 FIRST = 0, class Ahead>
__device__ __forceinline__ void store_strips(const ConvWgmmaParams& p, const Tile& t, const float (&sums)[S::TILE_N / 2], Ahead& ahead,
                                             const WarpRows& rows, u32 strip, u32 lane) {
    constexpr u32 LEFT = S::TILE_N - 2 * FIRST, WIDTH = LEFT < STRIP ? LEFT : STRIP;
    const Epilogue& e = p.epilogue;
    const u32 channel = t.channel + 2 * FIRST;
    if (channel >= p.channels) return;
    const auto fetch = [&](auto& to, u32 from) {
        load_biases(to.bias, e, from, p.channels, lane);
        if (S::ROOMY && is_join(e)) load_joined(to, e, rows, from, p.channels, lane);
    };
    if constexpr (!EARLY) fetch(ahead, channel);
    fragment_to_strip<FIRST, WIDTH / 2>(sums, ahead.bias, e, strip, lane);
    if constexpr (LEFT > WIDTH) {
        StripAhead<(LEFT - WIDTH < STRIP ? LEFT - WIDTH : STRIP)> next;
        if constexpr (S::ROOMY) fetch(next, channel + WIDTH);
        strip_to_output<EARLY || S::ROOMY>(e, ahead, rows, strip, channel, p.channels, lane);
        store_strips<S, S::ROOMY, FIRST + WIDTH / 2>(p, t, sums, next, rows, strip, lane);
    } else {
        strip_to_output<EARLY || S::ROOMY>(e, ahead, rows, strip, channel, p.channels, lane);
    }
}

template <class S, Chains CHAINS, bool PLAIN>
__device__ __forceinline__ void convolve(const ConvWgmmaParams& p) {
    static_assert(CHAINS != Chains::CLUSTER || S::SHARE_BYTES <= S::BARRIERS, "a chain's sums fit the stages");
    // The swizzle's pattern begins at multiples of 1024 bytes, as dynamic shared memory does where nothing else is shared.
    extern __shared__ __align__(1024) u8 stages[];
    const u32 base = shared_address(stages);
    // Taken from one lane, so that the compiler knows it to be the same in all.
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const u32 peers = CHAINS == Chains::CLUSTER ? p.splits : 1, rank = CHAINS == Chains::CLUSTER ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        prefetch_map(&p.image);
        for (u32 i = 0; i < S::STAGES; ++i) {
            barrier_init(base + S::BARRIERS + i * 16, 1);                       // full: the copies
            barrier_init(base + S::BARRIERS + i * 16 + 8, S::WORKERS / WARP);   // empty: the warps that multiply
        }
        for (u32 i = 0; i < S::PIECES; ++i) barrier_init(base + S::SUMS + i * 8, 1);
        barrier_init_fence();
    }
    __syncthreads();
    // In a cluster this says that the block runs; later, that its `share` may be written again.
    if constexpr (CHAINS == Chains::CLUSTER) cluster_arrive();
    const u32 first = blockIdx.x / peers, step = gridDim.x / peers;
    Ring<S::STAGES> ring;
    if (warp >= S::WORKERS / WARP) {
        const bool pixels = warp != S::WORKERS / WARP;
        Tile t = tile_at<S>(p, first);
        Blocks blocks = own_blocks<CHAINS>(p, t, rank);
        Walk walk = walk_from<S>(p, t, blocks.begin);
        WeightRuns weights = weight_runs<S>(p, t, blocks.begin);
        u32 ahead = 0;
        if (!pixels && first < p.tiles) ahead = load_ahead<S>(weights, blocks.count(), base);
        wait_for_predecessors();
        for (u32 i = first; i < p.tiles;) {
            constexpr bool ALONE = S::LOADERS == 1;
            if (!pixels) {
                load<S, ALONE ? Loads::BOTH : Loads::WEIGHTS>(p, walk, weights, blocks.count(), ahead, base, ring);
            } else if (!ALONE) {
                load<S, Loads::PIXELS>(p, walk, weights, blocks.count(), 0, base, ring);
            }
            if constexpr (CHAINS == Chains::CLUSTER) {
                __syncwarp();
                if (i == first) cluster_wait();
                cluster_arrive_relaxed();
            }
            i += step;
            if (i >= p.tiles) break;
            // Behind what a block's first tile needs, whose instructions then lie together.
            ahead = 0;
            t = tile_at<S>(p, i);
            blocks = own_blocks<CHAINS>(p, t, rank);
            walk = walk_from<S>(p, t, blocks.begin);
            weights = weight_runs<S>(p, t, blocks.begin);
            if constexpr (CHAINS == Chains::CLUSTER) cluster_wait();  // the sums before have left the stages
        }
    } else {
        const u32 first_row = warp * WARP_ROWS, group = warp / (WARPGROUP / WARP);
        const u32 strip = base + S::STRIPS + warp * STRIP_BYTES, part = S::TILE_M / peers;
        u32 turn = 0;
        for (u32 i = first; i < p.tiles; i += step) {
            const Tile t = tile_at<S>(p, i);
            float sums[S::TILE_N / 2];
            // What the tail needs besides the sums is on its way while they are made; of large tiles it would take registers.
            constexpr bool EARLY = S::TILE_M == WARPGROUP_ROWS && S::TILE_N <= STRIP;
            GroupAhead group_ahead;
            StripAhead<(S::TILE_N < STRIP ? S::TILE_N : STRIP)> strip_ahead;
            WarpRows rows = {};
            if constexpr (PLAIN && EARLY && CHAINS != Chains::CLUSTER) {
                rows = warp_rows(p, t, first_row, lane);
                load_biases(strip_ahead.bias, p.epilogue, t.channel, p.channels, lane);
            }
            if constexpr (PLAIN && !EARLY && CHAINS != Chains::CLUSTER) touch_biases<S>(p, t, lane);
            const Blocks live = blocks_of(p, t);
            const u32 own = CHAINS == Chains::ONE ? live.count() : chain_blocks(p, live, rank).count();
            if (i == first) {
                wait_for_predecessors();  // what is joined may be theirs, and the output's place may still be read
                // Not before: launches further behind would take places on the SMs, and the next one's blocks lie unevenly.
                release_successors();
            }
            if constexpr (PLAIN && CHAINS == Chains::CLUSTER) {
                load_ahead_of<S>(group_ahead, p, t, rank, part, 0, threadIdx.x, base);
            } else if constexpr (PLAIN && EARLY) {
                if (is_join(p.epilogue)) load_joined(strip_ahead, p.epilogue, rows, t.channel, p.channels, lane);
            }
            multiply<S>(sums, own, base, group, lane, ring);
            if constexpr (CHAINS == Chains::IN_TURN) {
#pragma unroll 1
                for (u32 chain = 1; chain < p.splits; ++chain) {
                    float more[S::TILE_N / 2];
                    multiply<S>(more, chain_blocks(p, live, chain).count(), base, group, lane, ring);
#pragma unroll
                    for (u32 j = 0; j < S::TILE_N / 2; ++j) sums[j] = __fadd_rn(sums[j], more[j]);
                }
            }
            if constexpr (CHAINS == Chains::CLUSTER) {
                cluster_wait();
                if (threadIdx.x < S::PIECES) {
                    barrier_arrive_expecting(base + S::SUMS + threadIdx.x * 8, S::PIECE_BYTES - part * (S::PIECE * 4));
                }
                workers_meet<S::WORKERS>();
                give<S>(sums, first_row, rank, part, base, lane);
                workers_meet<S::WORKERS>();  // the own sums are there
                const bool last = i + step >= p.tiles;
                if constexpr (PLAIN) {
                    gather<S>(p, t, rank, part, base, turn, last, group_ahead);
                } else {
                    gather_any<S>(p, t, rank, part, base, turn, last);
                }
                turn ^= 1;
                if (!last) {
                    copy_fence();
                    cluster_arrive();
                }
            } else if constexpr (PLAIN) {
                if constexpr (!EARLY) rows = warp_rows(p, t, first_row, lane);
                if constexpr (S::ROOMY || S::TILE_N % STRIP != 0) {
                    store_strips<S, EARLY>(p, t, sums, strip_ahead, rows, strip, lane);
                } else {
                    store_plain<EARLY>(p.epilogue, sums, strip_ahead, rows, strip, t.channel, p.channels, lane);
                }
            } else {
                store_any<S>(p, t, sums, first_row, strip, lane);
            }
        }
    }
    if constexpr (CHAINS == Chains::CLUSTER) cluster_wait();
}

// Kernels of the menu (plan/tactic/conv_wgmma.rs): pixels, channels, stages, blocks that share an SM, chains. Each stands
// twice: for tails that are stored the plain way, and for any.
#define CONV_WGMMA_KERNEL(M, N, STAGES, BLOCKS, CHAINS, NAME, PLAIN)                                                   \
    extern "C" __global__ void __launch_bounds__(Shape<M, N, STAGES, BLOCKS>::THREADS, BLOCKS)                                 \
        conv_wgmma_##M##x##N##_s##STAGES##_b##BLOCKS##_##NAME(const __grid_constant__ ConvWgmmaParams p) {             \
        convolve<Shape<M, N, STAGES, BLOCKS>, Chains::CHAINS, PLAIN>(p);                                                       \
    }
#define CONV_WGMMA_ONE(M, N, STAGES, BLOCKS)                                                                           \
    CONV_WGMMA_KERNEL(M, N, STAGES, BLOCKS, ONE, one, true)                                                            \
    CONV_WGMMA_KERNEL(M, N, STAGES, BLOCKS, ONE, one_any, false)
#define CONV_WGMMA_TURNS(M, N, STAGES, BLOCKS)                                                                         \
    CONV_WGMMA_KERNEL(M, N, STAGES, BLOCKS, IN_TURN, turns, true)                                                      \
    CONV_WGMMA_KERNEL(M, N, STAGES, BLOCKS, IN_TURN, turns_any, false)
#define CONV_WGMMA_CLUSTER(M, N, STAGES, BLOCKS)                                                                       \
    CONV_WGMMA_KERNEL(M, N, STAGES, BLOCKS, CLUSTER, cluster, true)                                                    \
    CONV_WGMMA_KERNEL(M, N, STAGES, BLOCKS, CLUSTER, cluster_any, false)

CONV_WGMMA_ONE(128, 128, 3, 2)
CONV_WGMMA_ONE(128, 64, 6, 1)
CONV_WGMMA_ONE(128, 64, 4, 2)
CONV_WGMMA_ONE(128, 64, 2, 3)
CONV_WGMMA_ONE(64, 128, 4, 2)
CONV_WGMMA_ONE(64, 64, 4, 3)
CONV_WGMMA_ONE(64, 64, 2, 4)
CONV_WGMMA_ONE(64, 32, 8, 1)
CONV_WGMMA_TURNS(128, 128, 5, 1)
CONV_WGMMA_TURNS(128, 64, 6, 1)
CONV_WGMMA_TURNS(64, 128, 6, 1)
CONV_WGMMA_TURNS(64, 128, 4, 2)
CONV_WGMMA_TURNS(64, 64, 4, 3)
CONV_WGMMA_CLUSTER(128, 128, 4, 1)
CONV_WGMMA_CLUSTER(128, 64, 6, 1)
CONV_WGMMA_CLUSTER(64, 128, 6, 1)
CONV_WGMMA_CLUSTER(64, 64, 8, 1)
CONV_WGMMA_ONE(192, 128, 4, 1)
CONV_WGMMA_CLUSTER(64, 64, 6, 2)
CONV_WGMMA_CLUSTER(64, 32, 8, 2)
CONV_WGMMA_CLUSTER(64, 128, 3, 2)
CONV_WGMMA_ONE(128, 32, 2, 3)
CONV_WGMMA_ONE(64, 32, 2, 6)
CONV_WGMMA_ONE(64, 32, 4, 3)
CONV_WGMMA_TURNS(128, 32, 4, 2)
CONV_WGMMA_TURNS(64, 32, 4, 3)
CONV_WGMMA_ONE(128, 96, 6, 1)
CONV_WGMMA_ONE(128, 160, 5, 1)
CONV_WGMMA_TURNS(128, 96, 6, 1)
