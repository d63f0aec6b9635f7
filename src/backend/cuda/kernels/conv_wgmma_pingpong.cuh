// What the kernels share whose warpgroups take tiles in turns, 64 or 128 pixels each: while one rounds and stores, others multiply.
//
// Between a tile's ends and memory stands the copy engine alone: a warp brings what is joined to a tile into the place it is stored
// from, where the warps add to it. So no warp waits for memory. Pixels follow each other at one distance, and tails are stored the
// plain way (bind/conv_wgmma.rs).
//
// A shape `S` says TILE_M pixels, TILE_N channels, WARPGROUPS that multiply, whether it has FUNCTIONS that bounds do not express (nothing
// is joined to theirs), how many BUFFERS each warpgroup has for tiles that are stored or joined, where these OUTPUTS lie, their BUFFER_BARRIERS (two of a buffer, 16 bytes apart) and the ORDER_BARRIERS of the warpgroups.
#pragma once

#include "conv_wgmma_store.cuh"
#include "conv_wgmma_tile.cuh"

struct ConvPingPongParams {
    ConvWgmmaParams product;
    // Maps of two axes, channels and pixels, that end with the chunk.
    TensorMap output;  // a box is a warp's rows of a strip
    TensorMap joined;  // a box is a tile's rows of a strip
};

static_assert(sizeof(ConvPingPongParams) == sizeof(ConvWgmmaParams) + 256, "mirrored in bind/conv_wgmma.rs");

// Bytes of a tile's rows of a strip, and of a whole tile.
template <class S>
constexpr u32 STRIP_OF_TILE = S::TILE_M * STRIP_ROW_BYTES;
template <class S>
constexpr u32 BUFFER_BYTES = S::TILE_N / STRIP * STRIP_OF_TILE<S>;

// Sums of a thread: of each 64 pixels of a tile, those of all its channels.
template <class S>
using TileSums = float[S::TILE_M / WARPGROUP_ROWS][S::TILE_N / 2];

// Stores a box of shared memory where a two-axis map says.
__device__ __forceinline__ void store_box(const TensorMap* map, u32 from, i32 inner, i32 outer) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from), "r"(inner), "r"(outer)
                 : "memory");
}

// Stores since the last one are a group. They are those of one thread: of a warp always the same one is `elected`.
__device__ __forceinline__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but this thread's last `PENDING` groups of stores have read shared memory.
template <int PENDING>
__device__ __forceinline__ void stores_have_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Waits until this thread's stores have ended.
__device__ __forceinline__ void stores_have_ended() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Of a warpgroup, the buffer of its tile `turn`, and how often that was used before.
template <class S>
struct Buffer {
    u32 place, barrier, parity;

    __device__ __forceinline__ Buffer(u32 base, u32 group, u32 turn) {
        const u32 index = group * S::BUFFERS + turn % S::BUFFERS;
        place = base + S::OUTPUTS + index * BUFFER_BYTES<S>;
        barrier = base + S::BUFFER_BARRIERS + index * 16;
        parity = turn / S::BUFFERS % 2;
    }
};

// Brings what is joined to a tile into its buffer. A whole warp comes here.
template <class S>
__device__ __forceinline__ void load_joined_tile(const ConvPingPongParams& f, u32 pixel, u32 channel, const Buffer<S>& b) {
    const u32 strips = min((f.product.channels - channel + STRIP - 1) / STRIP, S::TILE_N / STRIP);
    barrier_wait(b.barrier + 8, b.parity ^ 1);
    if (!elected()) return;
    barrier_arrive_expecting(b.barrier, strips * STRIP_OF_TILE<S>);
#pragma unroll 1
    for (u32 i = 0; i < strips; ++i) {
        copy_box(b.place + i * STRIP_OF_TILE<S>, &f.joined, b.barrier, static_cast<i32>(channel + i * STRIP), static_cast<i32>(pixel));
    }
}

// Adds what the strip holds to the halves of a fragment, as `join` does.
template <u32 COUNT>
__device__ __forceinline__ void join_strip(u32 (&halves)[COUNT], u32 strip, bool relu, u32 lane) {
    const u32 row = lane % 16, piece = lane / 16;
#pragma unroll
    for (u32 j = 0; j < COUNT; j += 4) {
        u32 other[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(other[0]), "=r"(other[1]), "=r"(other[2]), "=r"(other[3])
                     : "r"(strip + strip_piece(row, piece + j / 2))
                     : "memory");
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const u32 sum = add_halves(halves[j + i], other[i]);
            halves[j + i] = relu ? relu_halves(sum) : sum;
        }
    }
}

// A warp's 16 rows of each 64 pixels of a tile: where their first strip lies, their first pixel, and the tile's first channel.
struct OwnRows {
    u32 place, pixel, channel;
};

// Where the rows of a part (64 pixels) of strip `c` lie.
template <class S>
__device__ __forceinline__ u32 strip_at(const OwnRows& rows, u32 part, u32 c) {
    return rows.place + c * STRIP_OF_TILE<S> + part * WARPGROUP_ROWS * STRIP_ROW_BYTES;
}

// Has them stored, when all lanes have written them.
template <class S>
__device__ __forceinline__ void store_strip(const ConvPingPongParams& f, const OwnRows& rows, u32 part, u32 c) {
    copy_fence();
    __syncwarp();
    if (!elected()) return;
    store_box(&f.output, strip_at<S>(rows, part, c), static_cast<i32>(rows.channel + c * STRIP), static_cast<i32>(rows.pixel + part * WARPGROUP_ROWS));
}

// Rounds the sums of a part, from strip `C` on, bounds them and joins what is joined. Where no function follows, they are stored at once.
template <class S, u32 C = 0>
__device__ __forceinline__ void round_strips(const ConvPingPongParams& f, const float (&sums)[S::TILE_N / 2], const OwnRows& rows, u32 part, u32 lane) {
    static_assert(S::TILE_N % STRIP == 0, "tiles are whole strips");
    const Epilogue& e = f.product.epilogue;
    const u32 strip = strip_at<S>(rows, part, C), first = rows.channel + C * STRIP;
    if (first >= f.product.channels) return;
    float2 bias[STRIP / GROUP];
    load_biases(bias, e, first, f.product.channels, lane);
    u32 halves[STRIP / 4];
    fragment_to_halves<C * STRIP / 2, STRIP / 2>(halves, sums, bias, e);
    if (is_join(e)) join_strip(halves, strip, e.flags & EPILOGUE_JOINS_RELU, lane);
    halves_to_strip(halves, strip, lane);
    if (!S::FUNCTIONS || is_clip(e)) store_strip<S>(f, rows, part, C);
    if constexpr (C + 1 < S::TILE_N / STRIP) round_strips<S, C + 1>(f, sums, rows, part, lane);
}

// Applies `f` to what a strip holds of a warp's rows, `ROWS` of a lane's at a time: one warp waits for its own instructions.
template <u32 ROWS, class F>
__device__ __forceinline__ void map_strip(u32 strip, u32 lane, const F& f) {
    constexpr u32 PIECES = STRIP / GROUP, STEP = 32 / PIECES;
#pragma unroll 1
    for (u32 first = lane / PIECES; first < WARP_ROWS; first += ROWS * STEP) {
        uint4 values[ROWS];
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) values[i] = load_strip(strip + strip_piece(first + i * STEP, lane % PIECES));
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) values[i] = each_half(values[i], f);
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) store_strip_piece(strip + strip_piece(first + i * STEP, lane % PIECES), values[i]);
    }
}

// The same with a launch's function that is no clip.
__device__ __forceinline__ void apply_to_strip(const Epilogue& e, u32 strip, u32 lane) {
    with_unusual(
        e, [&](const auto& f) { map_strip<1>(strip, lane, f); },
        [&] { with_usual(e, [&](const auto& f) { map_strip<4>(strip, lane, f); }); });
}

// Finishes the `turn`th tile of a warpgroup.
template <class S>
__device__ __forceinline__ void finish_tile(const ConvPingPongParams& f, const TileSums<S>& sums, u32 base, u32 group, u32 turn, u32 pixel, u32 channel,
                                            u32 warp_row, u32 lane) {
    constexpr u32 PARTS = S::TILE_M / WARPGROUP_ROWS, STRIPS = S::TILE_N / STRIP;
    const Epilogue& e = f.product.epilogue;
    const Buffer<S> buffer(base, group, turn);
    if (is_join(e)) {
        barrier_wait(buffer.barrier, buffer.parity);
    } else {
        if (elected()) stores_have_read<S::BUFFERS - 1>();
        __syncwarp();
    }
    const OwnRows rows = {buffer.place + warp_row * STRIP_ROW_BYTES, pixel + warp_row, channel};
#pragma unroll
    for (u32 part = 0; part < PARTS; ++part) round_strips<S>(f, sums[part], rows, part, lane);
    if (S::FUNCTIONS && !is_clip(e)) {
        // What functions there are is long and stands here once.
        const u32 strips = min(STRIPS, (f.product.channels - channel + STRIP - 1) / STRIP);
        __syncwarp();
#pragma unroll 1
        for (u32 i = 0; i < PARTS * strips; ++i) {
            apply_to_strip(e, strip_at<S>(rows, i % PARTS, i / PARTS), lane);
            store_strip<S>(f, rows, i % PARTS, i / PARTS);
        }
    }
    if (elected()) {
        stores_commit();
        if (is_join(e) && turn + 1 >= S::BUFFERS) {
            stores_have_read<S::BUFFERS - 1>();
            barrier_arrive(Buffer<S>(base, group, turn + 1 - S::BUFFERS).barrier + 8);
        }
    }
    __syncwarp();
}
