// Convolutions of one tap behind a prologue by `wgmma` (prologue_wgmma.cuh) whose blocks keep the weights of their output channels.
//
// Each of a block's warpgroups has tiles of its own, and a warp that keeps a ring of stages full for it.
#include "prologue_wgmma.cuh"

// N channels of at most `BLOCKS` K blocks, warpgroups, and the stages of each.
template <u32 N, u32 BLOCKS, u32 GROUPS, u32 DEPTH, Kind KIND_>
struct Shape {
    static constexpr u32 TILE_M = WARPGROUP_ROWS, TILE_N = N, STAGES = DEPTH, WARPGROUPS = GROUPS, BUFFERS = 1;
    static constexpr Kind KIND = KIND_;
    static constexpr bool AFFINE = KIND_ != Kind::GATE_PIECES;
    static constexpr u32 WORKERS = GROUPS * WARPGROUP, THREADS = WORKERS + GROUPS * WARP;
    static constexpr u32 WEIGHT_BYTES = N * K_BYTES, IMAGE_BYTES = PIECES * BOX_BYTES, OUTPUT_BYTES = N * WARPGROUP_ROWS * 2;
    // Shared memory: weights, the warpgroups' stages, tiles that are stored, scales and shifts, and barriers: two of a stage or of
    // a tile that is stored, 16 bytes.
    static constexpr u32 IMAGES = BLOCKS * WEIGHT_BYTES;
    static constexpr u32 OUTPUTS = IMAGES + GROUPS * DEPTH * IMAGE_BYTES;
    static constexpr u32 TABLE = OUTPUTS + GROUPS * OUTPUT_BYTES;
    static constexpr u32 BARRIERS = TABLE + (AFFINE ? BLOCKS * TABLE_BYTES : 0);
    static constexpr u32 BUFFER_BARRIERS = BARRIERS + GROUPS * DEPTH * 16;
    static constexpr u32 WEIGHT_BARRIERS = BUFFER_BARRIERS + GROUPS * 16;
    static constexpr u32 TABLE_BARRIER = WEIGHT_BARRIERS + BLOCKS * 8;
};

// What a warpgroup multiplies, and whether the weights were waited for before.
template <class S>
struct Operands {
    static constexpr bool IN_STAGES = false;
    u32 base, group;
    bool loaded;

    __device__ __forceinline__ u32 full(u32 stage) const { return base + S::BARRIERS + (group * S::STAGES + stage) * 16; }
    __device__ __forceinline__ u32 image(u32 stage) const { return base + S::IMAGES + (group * S::STAGES + stage) * S::IMAGE_BYTES; }
    __device__ __forceinline__ u32 weights(u32, u32 k) const { return base + k * S::WEIGHT_BYTES; }
    __device__ __forceinline__ void wait(u32 stage, u32 parity, u32 k) const {
        if (!loaded) barrier_wait(base + S::WEIGHT_BARRIERS + k * 8, 0);
        barrier_wait(full(stage), parity);
    }
};

// Asks for the weights of a block's channels, and for the table of scales and shifts. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load_constants(const PrologueWgmma& f, u32 channel, u32 base) {
    const ConvWgmmaParams& p = f.product.product;
    const WeightRuns runs = weight_runs<S>(p, Tile{0, 0, channel}, 0);
    if (S::AFFINE && elected()) load_table<S>(f, base);
#pragma unroll 1
    for (u32 k = 0; k < p.k_blocks; ++k) {
        const u32 full = base + S::WEIGHT_BARRIERS + k * 8;
        if (elected()) {
            barrier_arrive_expecting(full, runs.bytes);
            copy_run(base + k * S::WEIGHT_BYTES, reinterpret_cast<const void*>(runs.address + k * runs.step), runs.bytes, full);
        }
    }
}

// Fills a warpgroup's stages with the K blocks of a tile. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load_pixels(const PrologueWgmma& f, u32 pixel, const Operands<S>& o, Ring<S::STAGES>& ring) {
#pragma unroll 1
    for (u32 channel = 0; channel < f.inputs; channel += BLOCK_K, ring.advance()) {
        const u32 full = o.full(ring.stage);
        if (!ring.fresh) barrier_wait(full + 8, ring.parity ^ 1);
        if (elected()) {
            barrier_arrive_expecting(full, image_bytes(f, channel));
            load_image(f, o.image(ring.stage), full, channel, pixel);
        }
    }
}

// What a warpgroup does: every `WARPGROUPS`th tile of the block.
template <class S>
__device__ __forceinline__ void work(const PrologueWgmma& f, const Walkway& way, u32 base, u32 group, const Worker& w) {
    const ConvWgmmaParams& p = f.product.product;
    Ring<S::STAGES> ring;
    Operands<S> o = {base, group, false};
    if (S::AFFINE) barrier_wait(base + S::TABLE_BARRIER, 0);
    u32 a[PRODUCTS][4] = {}, turn = 0;
#pragma unroll 1
    for (u32 row = way.first + group * way.step; row < p.run_tiles; row += S::WARPGROUPS * way.step, ++turn, o.loaded = true) {
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
        for (u32 i = 0; i < S::WARPGROUPS * (S::STAGES + 1); ++i) {
            barrier_init(base + S::BARRIERS + i * 16, 1);          // full: the copies
            barrier_init(base + S::BARRIERS + i * 16 + 8, WARPS);  // empty: the warps of a warpgroup
        }
        for (u32 i = 0; i < p.k_blocks; ++i) barrier_init(base + S::WEIGHT_BARRIERS + i * 8, 1);
        if (S::AFFINE) barrier_init(base + S::TABLE_BARRIER, 1);
        barrier_init_fence();
    }
    __syncthreads();
    const Walkway way = walkway<S>(p);
    if (warp >= S::WORKERS / WARP) {
        const u32 group = warp - S::WORKERS / WARP;
        // Constants: they come before the launches that make the image have ended.
        if (group == 0) load_constants<S>(f, way.channel, base);
        wait_for_predecessors();
        Ring<S::STAGES> ring;
        u32 turn = 0;
        for (u32 row = way.first + group * way.step; row < p.run_tiles; row += S::WARPGROUPS * way.step, ++turn) {
            const u32 pixel = p.first_pixel + row * S::TILE_M;
            load_pixels<S>(f, pixel, Operands<S>{base, group, true}, ring);
            if (is_join(p.epilogue)) load_joined_tile<S>(f.product, pixel, way.channel, Buffer<S>(base, group, turn));
        }
    } else {
        wait_for_predecessors();  // the output's place may still be read
        // Not before: launches further behind would take places on the SMs, and the next one's blocks lie unevenly.
        release_successors();
        work<S>(f, way, base, warp / WARPS, Worker(warp % WARPS * WARP_ROWS, lane));
    }
}

// Kernels of the menu (plan/tactic/prologue_wgmma.rs): channels, most K blocks, warpgroups, stages of each, what comes before.
#define PROLOGUE_WGMMA(name, N, BLOCKS, GROUPS, STAGES, KIND)                                                              \
    extern "C" __global__ void __launch_bounds__(Shape<N, BLOCKS, GROUPS, STAGES, Kind::KIND>::THREADS, 1)                 \
        name(const __grid_constant__ PrologueWgmma p) {                                                                    \
        convolve<Shape<N, BLOCKS, GROUPS, STAGES, Kind::KIND>>(p);                                                         \
    }

PROLOGUE_WGMMA(prologue_wgmma_128_k4_g3_s4_affine_ascending, 128, 4, 3, 4, AFFINE_ASCENDING)
PROLOGUE_WGMMA(prologue_wgmma_128_k8_g2_s4_affine_ascending, 128, 8, 2, 4, AFFINE_ASCENDING)
PROLOGUE_WGMMA(prologue_wgmma_64_k8_g4_s3_affine_ascending, 64, 8, 4, 3, AFFINE_ASCENDING)
PROLOGUE_WGMMA(prologue_wgmma_64_k16_g3_s2_affine_ascending, 64, 16, 3, 2, AFFINE_ASCENDING)
PROLOGUE_WGMMA(prologue_wgmma_128_k8_g2_s4_affine_pieces, 128, 8, 2, 4, AFFINE_PIECES)
PROLOGUE_WGMMA(prologue_wgmma_64_k8_g3_s4_affine_pieces, 64, 8, 3, 4, AFFINE_PIECES)
PROLOGUE_WGMMA(prologue_wgmma_64_k16_g3_s2_affine_pieces, 64, 16, 3, 2, AFFINE_PIECES)
PROLOGUE_WGMMA(prologue_wgmma_128_k8_g2_s4_gate_pieces, 128, 8, 2, 4, GATE_PIECES)
PROLOGUE_WGMMA(prologue_wgmma_64_k8_g3_s4_gate_pieces, 64, 8, 3, 4, GATE_PIECES)
PROLOGUE_WGMMA(prologue_wgmma_64_k16_g3_s3_gate_pieces, 64, 16, 3, 3, GATE_PIECES)
