// Convolutions of one tap behind scale, shift and relu, or behind factors of samples and channels, by `wgmma`: what conv_mma.cu and
// conv_warps.cu compute by `mma.sync`, with their bits.
//
// A product m64nNk16 has the bits of the products m16n8k16 that it is made of, in whatever order its 16 channels come (measured on an
// H200, tests/gpu/prologues.rs). So chains of it are those of either order of K (conv_affine.cu), as long as each product has the same
// channels: 16 that follow each other, or of 32 the lower or the upper half of each 8.
//
// A block keeps the weights of its output channels. Each of its warpgroups has tiles of its own, 64 pixels each, and a warp that keeps
// a ring of stages full for it. Pixels go through registers, where the prologue is applied, and are one operand from there. While
// products run, the next pixels are made ready in other registers.
//
// For tails of a bias, a relu and a sum, and pixels that follow each other at one distance (bind/prologue_wgmma.rs).
#include "conv_wgmma_pingpong.cuh"
#include "divide.cuh"

struct PrologueWgmma {
    ConvPingPongParams product;  // the image is a map of two axes, channels and pixels: a box is 32 channels of 64 pixels, rows of 64 bytes
    u64 constants;               // scales and shifts of the input channels, in the order of conv_affine.cu
    u64 factors;                 // f16, of the input channels side by side, of sample 0
    i64 factors_batch;           // elements from sample to sample
    Divisor sample;              // pixels of a sample
    u32 inputs;                  // channels
    u32 chain;                   // pieces of a chain
    u32 nothing;                 // 0
    u32 end[4];
};

static_assert(sizeof(PrologueWgmma) == sizeof(ConvPingPongParams) + 64, "mirrored in bind/prologue_wgmma.rs");

// What comes before products, and their order of K.
enum class Kind { AFFINE_ASCENDING, AFFINE_PIECES, GATE_PIECES };

constexpr u32 PIECE_CHANNELS = 32, PIECES = BLOCK_K / PIECE_CHANNELS;  // pieces of a stage
constexpr u32 ROW_BYTES = PIECE_CHANNELS * 2;                          // of a pixel's piece
constexpr u32 BOX_BYTES = WARPGROUP_ROWS * ROW_BYTES;
constexpr u32 PRODUCTS = PIECE_CHANNELS / PRODUCT_K;                   // of a piece
constexpr u32 TABLE_BYTES = BLOCK_K * 4;                               // of a stage's channels

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

// Where the barriers of a warpgroup's stage and its pixels lie.
template <class S>
struct Stages {
    u32 base, group;
    __device__ __forceinline__ u32 full(u32 stage) const { return base + S::BARRIERS + (group * S::STAGES + stage) * 16; }
    __device__ __forceinline__ u32 image(u32 stage) const { return base + S::IMAGES + (group * S::STAGES + stage) * S::IMAGE_BYTES; }
};

// Two halves times `scale`, plus `shift`, at least zero; rounded after each step: `affine_relu` of mma.cuh.
__device__ __forceinline__ u32 prepared(u32 x, u32 scale, u32 shift) {
    u32 y;
    // Volatile, here and below, as it has to be done before products are waited for.
    asm volatile("{\n"
        ".reg .b32 t;\n"
        "mul.rn.f16x2 t, %1, %2;\n"
        "add.rn.f16x2 t, t, %3;\n"
        "max.NaN.f16x2 %0, t, %4;\n"
        "}"
        : "=r"(y)
        : "r"(x), "r"(scale), "r"(shift), "r"(0));
    return y;
}

__device__ __forceinline__ uint4 load_16(u32 shared) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(shared) : "memory");
    return v;
}

__device__ __forceinline__ u32 word(const uint4& v, u32 i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// D += A * B for 64 rows and N columns, A in registers as fragments of m16n8k16 have it, B by `swizzled_matrix`.
template <int N>
struct FromRegisters;

#define FROM_REGISTERS(N, SUMS, OPERANDS, A0, A1, A2, A3, B, HIGH)                                                        \
    template <>                                                                                                           \
    struct FromRegisters<N> {                                                                                             \
        static __device__ __forceinline__ void multiply(float (&d)[SUMS], const u32 (&a)[4], u32 b) {                     \
            asm volatile(                                                                                                 \
                "{\n.reg .pred p;\n.reg .b64 b;\nsetp.eq.u32 p, 0, 0;\nmov.b64 b, {%" #B ", %" #HIGH "};\n"               \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES_##SUMS "}, "                             \
                "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, b, p, 1, 1, 0;\n}\n"                                           \
                : OPERANDS                                                                                                \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(SWIZZLED_MATRIX));                              \
        }                                                                                                                 \
    };

FROM_REGISTERS(64, 32, D_32, 32, 33, 34, 35, 36, 37)
FROM_REGISTERS(128, 64, D_64, 64, 65, 66, 67, 68, 69)

// The tiles of a block: all of some channels, every `step`th one. Its warpgroups take them in turns.
struct Walkway {
    u32 channel, first, step;
};

template <class S>
__device__ __forceinline__ Walkway walkway(const ConvWgmmaParams& p) {
    const u32 row = blockIdx.x / p.channel_tiles;
    return {(blockIdx.x - row * p.channel_tiles) * S::TILE_N, row, gridDim.x / p.channel_tiles};
}

// Asks for the weights of a block's channels, and for the table of scales and shifts. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load_constants(const PrologueWgmma& f, u32 channel, u32 base) {
    const ConvWgmmaParams& p = f.product.product;
    const WeightRuns runs = weight_runs<S>(p, Tile{0, 0, channel}, 0);
    if (S::AFFINE && elected()) {
        barrier_arrive_expecting(base + S::TABLE_BARRIER, p.k_blocks * TABLE_BYTES);
        copy_run(base + S::TABLE, reinterpret_cast<const void*>(f.constants), p.k_blocks * TABLE_BYTES, base + S::TABLE_BARRIER);
    }
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
__device__ __forceinline__ void load_pixels(const PrologueWgmma& f, u32 pixel, const Stages<S>& stages, Ring<S::STAGES>& ring) {
    const ConvWgmmaParams& p = f.product.product;
#pragma unroll 1
    for (u32 channel = 0; channel < f.inputs; channel += BLOCK_K, ring.advance()) {
        const u32 full = stages.full(ring.stage);
        if (!ring.fresh) barrier_wait(full + 8, ring.parity ^ 1);
        // Nobody reads a piece behind the last channel.
        const bool both = channel + PIECE_CHANNELS < f.inputs;
        if (elected()) {
            const u32 to = stages.image(ring.stage);
            barrier_arrive_expecting(full, both ? S::IMAGE_BYTES : BOX_BYTES);
            copy_box(to, &p.image, full, static_cast<i32>(channel), static_cast<i32>(pixel));
            if (both) copy_box(to + BOX_BYTES, &p.image, full, static_cast<i32>(channel + PIECE_CHANNELS), static_cast<i32>(pixel));
        }
    }
}

// A warp of a warpgroup, whose rows begin at `row`, and where in a box this lane reads.
struct Worker {
    u32 row, lane, whole, half;

    __device__ __forceinline__ Worker(u32 row, u32 lane)
        : row(row), lane(lane), whole(place(row + lane % 16, lane / 16)), half(place(row + lane / 4, lane % 4)) {
        // What is computed once here, compilers would compute for each piece.
        asm volatile("" : "+r"(whole), "+r"(half));
    }

    // Byte of a group of 8 channels of a row of a box, under the 64-byte swizzle.
    __device__ __forceinline__ static u32 place(u32 row, u32 group) { return row * ROW_BYTES + (group ^ row / 2 % 4) * 16; }

    // Fetches a piece's pixels for products of 16 channels that follow each other. `prepare` has a product, and which half of its channels.
    template <class F>
    __device__ __forceinline__ void fetch_rows(u32 (&a)[PRODUCTS][4], u32 box, const F& prepare) const {
#pragma unroll
        for (u32 i = 0; i < PRODUCTS; ++i) {
            u32 x[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                         : "r"(box + (whole ^ i * 32))
                         : "memory");
#pragma unroll
            for (u32 j = 0; j < 4; ++j) a[i][j] = prepare(x[j], i, j / 2);
        }
    }

    // The same for products of the lower and the upper half of each 8 channels. `prepare` has a row's pixel, of two, and a word's place.
    template <class F>
    __device__ __forceinline__ void fetch_halves(u32 (&a)[PRODUCTS][4], u32 box, const F& prepare) const {
        const u32 from = box + half;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            const uint4 x = load_16(from + i * 8 * ROW_BYTES);
#pragma unroll
            for (u32 w = 0; w < 4; ++w) a[w / 2][i + w % 2 * 2] = prepare(word(x, w), i, w);
        }
    }
};

// Scales and shifts of a lane's channels, for products of 16 that follow each other.
struct AffineRows {
    u32 entries;

    __device__ __forceinline__ AffineRows(u32 table, const Worker& w) : entries(table + w.lane % 4 * 16) {}

    __device__ __forceinline__ void fetch(u32 (&a)[PRODUCTS][4], const Worker& w, u32 box, u32 piece) const {
        uint4 affine[PRODUCTS];
#pragma unroll
        for (u32 i = 0; i < PRODUCTS; ++i) affine[i] = load_16(entries + (piece * PRODUCTS + i) * 64);
        w.fetch_rows(a, box, [&](u32 x, u32 i, u32 half) { return prepared(x, word(affine[i], half), word(affine[i], half + 2)); });
    }
};

// The same for products of halves.
struct AffineHalves {
    u32 scales, shifts;

    __device__ __forceinline__ AffineHalves(u32 table, u32 k_blocks, const Worker& w)
        : scales(table + w.lane % 4 * 16), shifts(scales + k_blocks * BLOCK_K * 2) {}

    __device__ __forceinline__ void fetch(u32 (&a)[PRODUCTS][4], const Worker& w, u32 box, u32 piece) const {
        const uint4 scale = load_16(scales + piece * ROW_BYTES), shift = load_16(shifts + piece * ROW_BYTES);
        w.fetch_halves(a, box, [&](u32 x, u32, u32 i) { return prepared(x, word(scale, i), word(shift, i)); });
    }
};

// Factors of a lane's channels of a piece, for the samples of its two pixels: a piece ahead, as they come from device memory.
struct Gate {
    u64 at[2];
    u32 channel, inputs;
    uint4 ahead[2];

    __device__ __forceinline__ Gate(const PrologueWgmma& f, const Worker& w, u32 pixel) : channel(w.lane % 4 * GROUP), inputs(f.inputs) {
        const ConvWgmmaParams& p = f.product.product;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            // Behind the last pixel it is that one: what is computed there goes nowhere.
            const u32 own = min(pixel + w.lane / 4 + i * 8, p.first_pixel + p.run_pixels - 1);
            at[i] = f.factors + 2 * (static_cast<i64>(divide(own, f.sample)) * f.factors_batch + channel);
        }
        load();
    }

    __device__ __forceinline__ void load() {
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            ahead[i] = make_uint4(0, 0, 0, 0);
            if (channel < inputs) {
                asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(ahead[i].x), "=r"(ahead[i].y), "=r"(ahead[i].z), "=r"(ahead[i].w)
                             : "l"(at[i])
                             : "memory");
            }
            at[i] += PIECE_CHANNELS * 2;
        }
        channel += PIECE_CHANNELS;
    }

    __device__ __forceinline__ void fetch(u32 (&a)[PRODUCTS][4], const Worker& w, u32 box, u32) {
        const uint4 factors[2] = {ahead[0], ahead[1]};
        load();
        w.fetch_halves(a, box, [&](u32 x, u32 pixel, u32 i) {
            u32 y;
            asm volatile("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(word(factors[pixel], i)));
            return y;
        });
    }
};

// What a warpgroup multiplies: its stages, the weights and the table, and whether these were waited for before.
template <class S>
struct Operands {
    Stages<S> stages;
    u32 base;
    bool loaded;

    __device__ __forceinline__ void wait(u32 stage, u32 parity, u32 k) const {
        if (!loaded) barrier_wait(base + S::WEIGHT_BARRIERS + k * 8, 0);
        barrier_wait(stages.full(stage), parity);
    }
    __device__ __forceinline__ u32 weights(u32 k) const { return swizzled_matrix(base + k * S::WEIGHT_BYTES); }
};

// Puts operands into the registers that products take them from, once no product runs: compilers would else have each wait for the one
// before it. What was there is looked at, though it changes nothing, as `nothing` is 0: a compiler would else use those registers for other
// things while products that were issued have yet to read them.
__device__ __forceinline__ void hand_over(u32 (&a)[PRODUCTS][4], const u32 (&ready)[PRODUCTS][4], u32 nothing) {
#pragma unroll
    for (u32 i = 0; i < PRODUCTS * 4; ++i) {
        // a & nothing ^ ready
        asm volatile("lop3.b32 %0, %0, %1, %2, 0x6a;" : "+r"(a[i / 4][i % 4]) : "r"(nothing), "r"(ready[i / 4][i % 4]) : "memory");
    }
}

template <u32 COUNT>
__device__ __forceinline__ void fill(float (&sums)[COUNT], float value) {
#pragma unroll
    for (u32 i = 0; i < COUNT; ++i) sums[i] = value;
}

// The sums of a tile: chains of pieces, added in order. While the products of a piece run, the next is made ready. Products take it from `a`,
// which is nothing else's from the first tile to the last.
template <class S, class P>
__device__ __forceinline__ void sum(float (&sums)[S::TILE_N / 2], u32 (&a)[PRODUCTS][4], const PrologueWgmma& f, P prologue,
                                    const Operands<S>& o, const Worker& w, Ring<S::STAGES>& ring) {
    constexpr bool CHAINS = S::KIND != Kind::AFFINE_ASCENDING;
    const u32 pieces = (f.inputs + PIECE_CHANNELS - 1) / PIECE_CHANNELS;
    float products[CHAINS ? S::TILE_N / 2 : 1];
    // Set here, not by the first product: some compilers would else set them between products and wait for each.
    if constexpr (CHAINS) fill(products, 0.0f);
    // Whatever is added to -0 stays what it is.
    fill(sums, CHAINS ? -0.0f : 0.0f);
    u32 left = f.chain;
    // A chain is at its end.
    const auto add = [&] {
        if constexpr (CHAINS) {
#pragma unroll
            for (u32 j = 0; j < S::TILE_N / 2; ++j) sums[j] = __fadd_rn(sums[j], products[j]);
            left = f.chain;
        }
    };
#pragma unroll 1
    for (u32 k = 0; k * PIECES < pieces; ++k, ring.advance()) {
        o.wait(ring.stage, ring.parity, k);
        const u32 image = o.stages.image(ring.stage), b = o.weights(k);
#pragma unroll
        for (u32 i = 0; i < PIECES; ++i) {
            const u32 piece = k * PIECES + i;
            if (i > 0 && piece >= pieces) break;
            u32 ready[PRODUCTS][4];
            prologue.fetch(ready, w, image + i * BOX_BYTES, piece);
            products_wait<0>();
            if (CHAINS && left == 0) {
                add();
                fill(products, 0.0f);
            }
            --left;
            hand_over(a, ready, f.nothing);
            products_begin();
#pragma unroll
            for (u32 j = 0; j < PRODUCTS; ++j) {
                const u32 from = b + ((i * PRODUCTS + j) * PRODUCT_K * 2 >> 4);
                if constexpr (CHAINS) {
                    FromRegisters<S::TILE_N>::multiply(products, a[j], from);
                } else {
                    FromRegisters<S::TILE_N>::multiply(sums, a[j], from);
                }
            }
            products_commit();
        }
        // Products have been given what was read of the stage, so it is no longer on its way, and the stage may be filled again.
        __syncwarp();
        if (w.lane == 0) barrier_arrive(o.stages.full(ring.stage) + 8);
    }
    products_wait<0>();
    add();
}

// Rounds the sums of a tile's strip `C` and those behind it, joins what is joined, and has them stored.
template <class S, u32 C = 0>
__device__ __forceinline__ void finish(const ConvPingPongParams& f, const float (&sums)[S::TILE_N / 2], const OwnRows& rows, u32 lane) {
    const Epilogue& e = f.product.epilogue;
    const u32 strip = strip_at<S>(rows, 0, C), first = rows.channel + C * STRIP;
    if (first >= f.product.channels) return;
    float2 bias[STRIP / GROUP];
    load_biases(bias, e, first, f.product.channels, lane);
    u32 halves[STRIP / 4];
#pragma unroll
    for (u32 j = 0; j < STRIP / 8; ++j) {
        const float* sum = sums + C * STRIP / 2 + 4 * j;
        halves[2 * j] = two_halves(__fadd_rn(sum[0], bias[j].x), __fadd_rn(sum[1], bias[j].y));
        halves[2 * j + 1] = two_halves(__fadd_rn(sum[2], bias[j].x), __fadd_rn(sum[3], bias[j].y));
    }
    if (e.function == EPILOGUE_RELU) {
#pragma unroll
        for (u32 j = 0; j < STRIP / 4; ++j) halves[j] = relu_halves(halves[j]);
    }
    if (is_join(e)) join_strip(halves, strip, e.flags & EPILOGUE_JOINS_RELU, lane);
    halves_to_strip(halves, strip, lane);
    store_strip<S>(f, rows, 0, C);
    if constexpr (C + 1 < S::TILE_N / STRIP) finish<S, C + 1>(f, sums, rows, lane);
}

// What a warpgroup does: every `WARPGROUPS`th tile of the block.
template <class S>
__device__ __forceinline__ void work(const PrologueWgmma& f, const Walkway& way, u32 base, u32 group, const Worker& w) {
    const ConvWgmmaParams& p = f.product.product;
    Ring<S::STAGES> ring;
    Operands<S> o = {Stages<S>{base, group}, base, false};
    if (S::AFFINE) barrier_wait(base + S::TABLE_BARRIER, 0);
    u32 a[PRODUCTS][4] = {}, turn = 0;
#pragma unroll 1
    for (u32 row = way.first + group * way.step; row < p.run_tiles; row += S::WARPGROUPS * way.step, ++turn, o.loaded = true) {
        const u32 pixel = p.first_pixel + row * S::TILE_M + w.row;
        float sums[S::TILE_N / 2];
        const auto sum_behind = [&](const auto& prologue) { sum<S>(sums, a, f, prologue, o, w, ring); };
        if constexpr (S::KIND == Kind::AFFINE_ASCENDING) sum_behind(AffineRows(base + S::TABLE, w));
        if constexpr (S::KIND == Kind::AFFINE_PIECES) sum_behind(AffineHalves(base + S::TABLE, p.k_blocks, w));
        if constexpr (S::KIND == Kind::GATE_PIECES) sum_behind(Gate(f, w, pixel));
        // The tile before is stored from the same place, and what is joined to this one comes there.
        const Buffer<S> buffer(base, group, turn);
        if (is_join(p.epilogue)) {
            barrier_wait(buffer.barrier, buffer.parity);
        } else {
            if (elected()) stores_have_read<0>();
            __syncwarp();
        }
        finish<S>(f.product, sums, OwnRows{buffer.place + w.row * STRIP_ROW_BYTES, pixel, way.channel}, w.lane);
        if (elected()) {
            stores_commit();
            if (is_join(p.epilogue)) {
                stores_have_read<0>();
                barrier_arrive(buffer.barrier + 8);
            }
        }
        __syncwarp();
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
        prefetch_map(&p.image);
        prefetch_map(&f.product.output);
        if (is_join(p.epilogue)) prefetch_map(&f.product.joined);
        for (u32 i = 0; i < S::WARPGROUPS * (S::STAGES + 1); ++i) {
            barrier_init(base + S::BARRIERS + i * 16, 1);          // full: the copies
            barrier_init(base + S::BARRIERS + i * 16 + 8, WARPS);  // empty: the warps of a warpgroup
        }
        for (u32 i = 0; i < p.k_blocks; ++i) barrier_init(base + S::WEIGHT_BARRIERS + i * 8, 1);
        barrier_init(base + S::TABLE_BARRIER, 1);
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
            load_pixels<S>(f, pixel, Stages<S>{base, group}, ring);
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
