// Convolutions of one tap behind a prologue by `wgmma` (prologue_wgmma.cuh) whose weights come with the pixels: those of more input channels
// than a block can keep the weights of (prologue_wgmma.cu), and with wider tiles.
//
// A block's warpgroups have tiles of their own, and go through K together: one warp fills stages with a K block of all their pixels and of
// the weights.
#include "prologue_wgmma.cuh"

constexpr u32 TABLE_BLOCKS = 32;  // most K blocks whose scales and shifts there is room for

// N channels, warpgroups, stages.
template <u32 N, u32 GROUPS, u32 DEPTH, Kind KIND_>
struct Shape {
    static constexpr u32 TILE_M = WARPGROUP_ROWS, TILE_N = N, STAGES = DEPTH, WARPGROUPS = GROUPS, BUFFERS = 1;
    static constexpr Kind KIND = KIND_;
    static constexpr bool AFFINE = KIND_ != Kind::GATE_PIECES;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP, THREADS = WORKERS + WARP;
    static constexpr u32 WEIGHT_BYTES = N * K_BYTES, IMAGE_BYTES = PIECES * BOX_BYTES, OUTPUT_BYTES = N * WARPGROUP_ROWS * 2;
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + GROUPS * IMAGE_BYTES;
    // Shared memory: stages, tiles that are stored, scales and shifts, and barriers: two of a stage or of a tile that is stored, 16 bytes.
    static constexpr u32 OUTPUTS = DEPTH * STAGE_BYTES;
    static constexpr u32 TABLE = OUTPUTS + GROUPS * OUTPUT_BYTES;
    static constexpr u32 BARRIERS = TABLE + (AFFINE ? TABLE_BLOCKS * TABLE_BYTES : 0);
    static constexpr u32 BUFFER_BARRIERS = BARRIERS + DEPTH * 16;
    static constexpr u32 TABLE_BARRIER = BUFFER_BARRIERS + GROUPS * 16;
};

// What a warpgroup multiplies.
template <class S>
struct Operands {
    static constexpr bool IN_STAGES = true;
    u32 base, group;

    __device__ __forceinline__ u32 full(u32 stage) const { return base + S::BARRIERS + stage * 16; }
    __device__ __forceinline__ u32 weights(u32 stage, u32) const { return base + stage * S::STAGE_BYTES; }
    __device__ __forceinline__ u32 image(u32 stage) const { return weights(stage, 0) + S::WEIGHT_BYTES + group * S::IMAGE_BYTES; }
    __device__ __forceinline__ void wait(u32 stage, u32 parity, u32) const { barrier_wait(full(stage), parity); }
};

// How many of a block's warpgroups have a tile in the round that begins with tile `row`.
template <class S>
__device__ __forceinline__ u32 tiles_of(const ConvWgmmaParams& p, const Walkway& way, u32 row) {
    return min((p.run_tiles - row + way.step - 1) / way.step, S::WARPGROUPS);
}

// What is asked for K block by K block: the weights of a block's channels, and the pixels of a round's tiles.
template <class S>
struct Supply {
    const PrologueWgmma& f;
    WeightRuns runs;
    u32 base;

    __device__ __forceinline__ Supply(const PrologueWgmma& f, u32 channel, u32 base)
        : f(f), runs(weight_runs<S>(f.product.product, Tile{0, 0, channel}, 0)), base(base) {}

    // One thread says what a stage will hold, and asks for its weights.
    __device__ __forceinline__ void weights(u32 stage, u32 k, u32 tiles) const {
        const Operands<S> o = {base, 0};
        barrier_arrive_expecting(o.full(stage), runs.bytes + tiles * image_bytes(f, k * BLOCK_K));
        copy_run(o.weights(stage, k), reinterpret_cast<const void*>(runs.address + k * runs.step), runs.bytes, o.full(stage));
    }

    // Fills stages for a round of tiles, `step` pixels apart; the first `ahead` have their weights already. A whole warp comes here.
    __device__ __forceinline__ void round(u32 pixel, u32 step, u32 tiles, u32 ahead, Ring<S::STAGES>& ring) const {
#pragma unroll 1
        for (u32 k = 0; k * BLOCK_K < f.inputs; ++k, ring.advance()) {
            const u32 full = Operands<S>{base, 0}.full(ring.stage);
            if (!ring.fresh) barrier_wait(full + 8, ring.parity ^ 1);
            if (!elected()) continue;
            if (k >= ahead) weights(ring.stage, k, tiles);
#pragma unroll 1
            for (u32 i = 0; i < tiles; ++i) load_image(f, Operands<S>{base, i}.image(ring.stage), full, k * BLOCK_K, pixel + i * step);
        }
    }
};

// What a warp does that loads.
template <class S>
__device__ __forceinline__ void load(const PrologueWgmma& f, const Walkway& way, u32 base) {
    const ConvWgmmaParams& p = f.product.product;
    const Supply<S> supply(f, way.channel, base);
    // Constants: they come before the launches that make the image have ended.
    u32 ahead = min(p.k_blocks, S::STAGES);
    if (way.first < p.run_tiles && elected()) {
        if (S::AFFINE) load_table<S>(f, base);
        for (u32 k = 0; k < ahead; ++k) supply.weights(k, k, tiles_of<S>(p, way, way.first));
    }
    __syncwarp();
    wait_for_predecessors();
    Ring<S::STAGES> ring;
    u32 turn = 0;
#pragma unroll 1
    for (u32 row = way.first; row < p.run_tiles; row += S::WARPGROUPS * way.step, ++turn, ahead = 0) {
        const u32 tiles = tiles_of<S>(p, way, row), pixel = p.first_pixel + row * S::TILE_M, step = way.step * S::TILE_M;
        supply.round(pixel, step, tiles, ahead, ring);
        if (!is_join(p.epilogue)) continue;
        for (u32 i = 0; i < tiles; ++i) load_joined_tile<S>(f.product, pixel + i * step, way.channel, Buffer<S>(base, i, turn));
    }
}

// Goes through a round's stages in which a warpgroup has no tile.
template <class S>
__device__ __forceinline__ void skip(const PrologueWgmma& f, const Operands<S>& o, u32 lane, Ring<S::STAGES>& ring) {
#pragma unroll 1
    for (u32 channel = 0; channel < f.inputs; channel += BLOCK_K, ring.advance()) {
        barrier_wait(o.full(ring.stage), ring.parity);
        if (lane == 0) barrier_arrive(o.full(ring.stage) + 8);
    }
}

// What a warpgroup does: a tile of each of the block's rounds.
template <class S>
__device__ __forceinline__ void work(const PrologueWgmma& f, const Walkway& way, u32 base, u32 group, const Worker& w) {
    const ConvWgmmaParams& p = f.product.product;
    Ring<S::STAGES> ring;
    const Operands<S> o = {base, group};
    u32 a[PRODUCTS][4] = {}, turn = 0;
    if (S::AFFINE && way.first < p.run_tiles) barrier_wait(base + S::TABLE_BARRIER, 0);
#pragma unroll 1
    for (u32 first = way.first; first < p.run_tiles; first += S::WARPGROUPS * way.step, ++turn) {
        const u32 row = first + group * way.step;
        if (row >= p.run_tiles) {
            skip<S>(f, o, w.lane, ring);
            break;
        }
        const Buffer<S> buffer(base, group, turn);
        const OwnRows rows = {buffer.place + w.row * STRIP_ROW_BYTES, p.first_pixel + row * S::TILE_M + w.row, way.channel};
        convolve_tile<S>(f, a, o, w, rows, buffer, base, ring);
    }
    if (elected()) stores_have_ended();
}

template <class S>
__device__ __forceinline__ void convolve(const PrologueWgmma& f) {
    const ConvWgmmaParams& p = f.product.product;
    // The swizzle's pattern begins at multiples of 1024 bytes, as dynamic shared memory does where nothing else is shared.
    extern __shared__ __align__(1024) u8 memory[];
    const u32 base = shared_address(memory);
    // Taken from one lane, so that the compiler knows it to be the same in all.
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    constexpr u32 WARPS = WARPGROUP / WARP;
    if (threadIdx.x == 0) {
        prefetch_maps(f.product);
        for (u32 i = 0; i < S::STAGES + S::WARPGROUPS; ++i) {
            barrier_init(base + S::BARRIERS + i * 16, 1);  // full: the copies
            // empty: the warps of all warpgroups, or of that whose tile is stored
            barrier_init(base + S::BARRIERS + i * 16 + 8, i < S::STAGES ? S::WORKERS / WARP : WARPS);
        }
        if (S::AFFINE) barrier_init(base + S::TABLE_BARRIER, 1);
        barrier_init_fence();
    }
    __syncthreads();
    const Walkway way = walkway<S>(p);
    if (warp == S::WORKERS / WARP) {
        load<S>(f, way, base);
    } else {
        wait_for_predecessors();  // the output's place may still be read
        // Not before: launches further behind would take places on the SMs, and the next one's blocks lie unevenly.
        release_successors();
        work<S>(f, way, base, warp / WARPS, Worker(warp % WARPS * WARP_ROWS, lane));
    }
}

// Kernels of the menu (plan/tactic/prologue_wgmma.rs): channels, warpgroups, stages, what comes before.
#define PROLOGUE_STREAMED(name, N, GROUPS, STAGES, KIND)                                                           \
    extern "C" __global__ void __launch_bounds__(Shape<N, GROUPS, STAGES, Kind::KIND>::THREADS, 1)                 \
        name(const __grid_constant__ PrologueWgmma p) {                                                            \
        convolve<Shape<N, GROUPS, STAGES, Kind::KIND>>(p);                                                         \
    }

PROLOGUE_STREAMED(prologue_streamed_128_g2_s5_affine_ascending, 128, 2, 5, AFFINE_ASCENDING)
PROLOGUE_STREAMED(prologue_streamed_128_g3_s4_affine_ascending, 128, 3, 4, AFFINE_ASCENDING)
PROLOGUE_STREAMED(prologue_streamed_128_g2_s5_affine_pieces, 128, 2, 5, AFFINE_PIECES)
PROLOGUE_STREAMED(prologue_streamed_64_g3_s5_affine_pieces, 64, 3, 5, AFFINE_PIECES)
PROLOGUE_STREAMED(prologue_streamed_128_g2_s5_gate_pieces, 128, 2, 5, GATE_PIECES)
PROLOGUE_STREAMED(prologue_streamed_64_g3_s5_gate_pieces, 64, 3, 5, GATE_PIECES)
