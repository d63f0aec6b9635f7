// What convolutions of one tap behind scale, shift and relu, or behind factors, by `wgmma` have in common: what conv_mma.cu and
// conv_warps.cu compute by `mma.sync`, with their bits.
//
// A product m64nNk16 has the bits of the products m16n8k16 that it is made of, in whatever order its 16 channels come (measured on an
// H200, tests/gpu/prologues.rs). So chains of it are those of either order of K (conv_affine.cu), as long as each product has the same
// channels: 16 that follow each other, or of 32 the lower or the upper half of each 8.
//
// A warpgroup multiplies tiles of 64 pixels. These go through registers, where the prologue is applied, and are one operand from there.
// While products run, the next pixels are made ready in other registers.
//
// For tails of a bias, a relu and a sum, and pixels that follow each other at one distance (bind/prologue_wgmma.rs).
//
// A shape `S` says what conv_wgmma_pingpong.cuh asks for, what comes before products (KIND), and where the TABLE of scales and shifts and its
// TABLE_BARRIER lie. Operands `O` of a warpgroup say where a stage's pixels (`image`), its barriers (`full`) and a K block's `weights` lie,
// `wait` for them, and whether weights are IN_STAGES, too.
#pragma once

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

// The stage in front of the next one.
template <u32 STAGES>
__device__ __forceinline__ u32 stage_before(const Ring<STAGES>& ring) {
    return (ring.stage == 0 ? STAGES : ring.stage) - 1;
}

// The sums of a tile: chains of pieces, added in order. While the products of a piece run, the next is made ready. Products take it from `a`,
// which is nothing else's from the first tile to the last.
template <class S, class P, class O>
__device__ __forceinline__ void sum(float (&sums)[S::TILE_N / 2], u32 (&a)[PRODUCTS][4], const PrologueWgmma& f, P prologue, const O& o,
                                    const Worker& w, Ring<S::STAGES>& ring) {
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
        const u32 image = o.image(ring.stage), b = swizzled_matrix(o.weights(ring.stage, k));
#pragma unroll
        for (u32 i = 0; i < PIECES; ++i) {
            const u32 piece = k * PIECES + i;
            if (i > 0 && piece >= pieces) break;
            u32 ready[PRODUCTS][4];
            prologue.fetch(ready, w, image + i * BOX_BYTES, piece);
            products_wait<0>();
            // Nobody reads the weights of the stage before any more.
            if (O::IN_STAGES && i == 0 && k > 0 && w.lane == 0) barrier_arrive(o.full(stage_before(ring)) + 8);
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
        // Products have been given what was read of the stage's pixels, so it is no longer on its way, and they may be copied over.
        __syncwarp();
        if (!O::IN_STAGES && w.lane == 0) barrier_arrive(o.full(ring.stage) + 8);
    }
    products_wait<0>();
    if (O::IN_STAGES && w.lane == 0) barrier_arrive(o.full(stage_before(ring)) + 8);
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

// Computes and stores a tile, whose place for what is stored and joined is `buffer`.
template <class S, class O>
__device__ __forceinline__ void convolve_tile(const PrologueWgmma& f, u32 (&a)[PRODUCTS][4], const O& o, const Worker& w, const OwnRows& rows,
                                              const Buffer<S>& buffer, u32 base, Ring<S::STAGES>& ring) {
    const ConvWgmmaParams& p = f.product.product;
    float sums[S::TILE_N / 2];
    const auto sum_behind = [&](const auto& prologue) { sum<S>(sums, a, f, prologue, o, w, ring); };
    if constexpr (S::KIND == Kind::AFFINE_ASCENDING) sum_behind(AffineRows(base + S::TABLE, w));
    if constexpr (S::KIND == Kind::AFFINE_PIECES) sum_behind(AffineHalves(base + S::TABLE, p.k_blocks, w));
    if constexpr (S::KIND == Kind::GATE_PIECES) sum_behind(Gate(f, w, rows.pixel));
    // The tile before is stored from the same place, and what is joined to this one comes there.
    if (is_join(p.epilogue)) {
        barrier_wait(buffer.barrier, buffer.parity);
    } else {
        if (elected()) stores_have_read<0>();
        __syncwarp();
    }
    finish<S>(f.product, sums, rows, w.lane);
    if (elected()) {
        stores_commit();
        if (is_join(p.epilogue)) {
            stores_have_read<0>();
            barrier_arrive(buffer.barrier + 8);
        }
    }
    __syncwarp();
}

// Asks for the table of scales and shifts: one thread.
template <class S>
__device__ __forceinline__ void load_table(const PrologueWgmma& f, u32 base) {
    const u32 bytes = f.product.product.k_blocks * TABLE_BYTES, full = base + S::TABLE_BARRIER;
    barrier_arrive_expecting(full, bytes);
    copy_run(base + S::TABLE, reinterpret_cast<const void*>(f.constants), bytes, full);
}

// Bytes of the pixels of a K block that begins at `channel`: nobody reads a piece behind the last one.
__device__ __forceinline__ u32 image_bytes(const PrologueWgmma& f, u32 channel) {
    return channel + PIECE_CHANNELS < f.inputs ? PIECES * BOX_BYTES : BOX_BYTES;
}

// Asks for them: one thread.
__device__ __forceinline__ void load_image(const PrologueWgmma& f, u32 to, u32 full, u32 channel, u32 pixel) {
    const ConvWgmmaParams& p = f.product.product;
    copy_box(to, &p.image, full, static_cast<i32>(channel), static_cast<i32>(pixel));
    if (channel + PIECE_CHANNELS >= f.inputs) return;
    copy_box(to + BOX_BYTES, &p.image, full, static_cast<i32>(channel + PIECE_CHANNELS), static_cast<i32>(pixel));
}

// Has the maps of a launch brought near: one thread.
__device__ __forceinline__ void prefetch_maps(const ConvPingPongParams& f) {
    prefetch_map(&f.product.image);
    prefetch_map(&f.output);
    if (is_join(f.product.epilogue)) prefetch_map(&f.joined);
}
