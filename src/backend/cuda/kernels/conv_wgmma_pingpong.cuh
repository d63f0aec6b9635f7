// What the kernels share whose warpgroups take tiles in turns, 64 or 128 pixels each: while one rounds and stores, others multiply.
//
// Between a tile's ends and memory stands the copy engine alone: a warp brings what is joined to a tile into the place it is stored
// from, where the warps add to it. So no warp waits for memory. Pixels follow each other at one distance, and tails are stored the
// plain way (bind/conv_wgmma.rs).
//
// A shape `S` says TILE_M pixels, TILE_N channels, OWN_M of the pixels that a warpgroup has, WARPGROUPS that multiply, whether it has FUNCTIONS that bounds do not express (nothing
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

// A tile's channels are stored and joined in strips of one width, half as wide where its channels are not whole wide ones: so one map
// serves them all, and a buffer has no bytes that are never stored.
template <class S>
constexpr u32 TILE_STRIP = S::TILE_N % STRIP == 0 ? STRIP : STRIP / 2;
template <class S>
constexpr u32 TILE_STRIPS = S::TILE_N / TILE_STRIP<S>;

// Bytes of a row of a strip, of a tile's rows of one, and of a whole tile.
template <class S>
constexpr u32 TILE_ROW_BYTES = TILE_STRIP<S> * 2;
template <class S>
constexpr u32 STRIP_OF_TILE = S::OWN_M * TILE_ROW_BYTES<S>;
template <class S>
constexpr u32 BUFFER_BYTES = TILE_STRIPS<S> * STRIP_OF_TILE<S>;

// Parts of a tile, 64 pixels each, and how many of them functions are applied to at once: to as many values whatever a strip's width.
template <class S>
constexpr u32 PARTS = S::OWN_M / WARPGROUP_ROWS;
template <class S>
constexpr u32 PARTS_AT_ONCE = STRIP / TILE_STRIP<S> < PARTS<S> ? STRIP / TILE_STRIP<S> : PARTS<S>;

// Strips of a tile that has the channels from `channel` on.
template <class S>
__device__ __forceinline__ u32 live_strips(const ConvWgmmaParams& p, u32 channel) {
    return min((p.channels - channel + TILE_STRIP<S> - 1) / TILE_STRIP<S>, TILE_STRIPS<S>);
}

// Sums of a thread: of each 64 pixels of a tile, those of all its channels.
template <class S>
using TileSums = float[S::OWN_M / WARPGROUP_ROWS][S::TILE_N / 2];

// Stores a box of shared memory where a two-axis map says.
__device__ __forceinline__ void store_box(const TensorMap* map, u32 from, i32 inner, i32 outer) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from), "r"(inner), "r"(outer)
                 : "memory");
}

// Stores since the last one are a group.
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

// Brings what is joined to a tile into its buffer.
template <class S>
__device__ __forceinline__ void load_joined_tile(const ConvPingPongParams& f, u32 pixel, u32 channel, const Buffer<S>& b) {
    const u32 strips = live_strips<S>(f.product, channel);
    barrier_wait(b.barrier + 8, b.parity ^ 1);
    barrier_arrive_expecting(b.barrier, strips * STRIP_OF_TILE<S>);
#pragma unroll 1
    for (u32 i = 0; i < strips; ++i) {
        copy_box(b.place + i * STRIP_OF_TILE<S>, &f.joined, b.barrier, static_cast<i32>(channel + i * TILE_STRIP<S>), static_cast<i32>(pixel));
    }
}

// Byte of a strip where a piece of 8 channels of a row lies, as `strip_piece` says for wide ones: the copy engine's swizzle over as many
// bytes as a row has. The same piece of 8 rows meets different banks.
template <u32 WIDTH>
__device__ __forceinline__ u32 piece_of(u32 row, u32 piece) {
    constexpr u32 ROW_BYTES = WIDTH * 2, PIECES = WIDTH / GROUP;
    static_assert(PIECES == 8 || PIECES == 4, "rows of 128 or 64 bytes");
    return row * ROW_BYTES + (piece ^ row * ROW_BYTES / STRIP_ROW_BYTES % PIECES) * 16;
}

// Writes the halves of a fragment to a strip, a matrix of 8 by 8 for each 8 lanes, which name its rows.
template <u32 WIDTH, u32 COUNT>
__device__ __forceinline__ void write_strip(const u32 (&halves)[COUNT], u32 strip, u32 lane) {
    const u32 row = lane % 16, piece = lane / 16;
#pragma unroll
    for (u32 j = 0; j < COUNT; j += 4) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(strip + piece_of<WIDTH>(row, piece + j / 2)),
                     "r"(halves[j]), "r"(halves[j + 1]), "r"(halves[j + 2]), "r"(halves[j + 3])
                     : "memory");
    }
}

// Adds what the strip holds to the halves of a fragment, as `join` does.
template <u32 WIDTH, u32 COUNT>
__device__ __forceinline__ void join_strip(u32 (&halves)[COUNT], u32 strip, bool relu, u32 lane) {
    const u32 row = lane % 16, piece = lane / 16;
#pragma unroll
    for (u32 j = 0; j < COUNT; j += 4) {
        u32 other[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(other[0]), "=r"(other[1]), "=r"(other[2]), "=r"(other[3])
                     : "r"(strip + piece_of<WIDTH>(row, piece + j / 2))
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
    return rows.place + c * STRIP_OF_TILE<S> + part * WARPGROUP_ROWS * TILE_ROW_BYTES<S>;
}

// Has those of some parts stored, when all lanes have written them.
template <class S, u32 COUNT>
__device__ __forceinline__ void store_strips(const ConvPingPongParams& f, const OwnRows& rows, u32 part, u32 c, u32 lane) {
    copy_fence();
    __syncwarp();
    if (lane != 0) return;
#pragma unroll
    for (u32 i = part; i < part + COUNT; ++i) {
        store_box(&f.output, strip_at<S>(rows, i, c), static_cast<i32>(rows.channel + c * TILE_STRIP<S>),
                  static_cast<i32>(rows.pixel + i * WARPGROUP_ROWS));
    }
}

// Rounds the sums of a part, from strip `C` on, bounds them and joins what is joined. Where no function follows, they are stored at once.
template <class S, u32 C = 0>
__device__ __forceinline__ void round_strips(const ConvPingPongParams& f, const float (&sums)[S::TILE_N / 2], const OwnRows& rows, u32 part, u32 lane) {
    constexpr u32 WIDTH = TILE_STRIP<S>;
    static_assert(S::TILE_N % WIDTH == 0, "tiles are whole strips");
    const Epilogue& e = f.product.epilogue;
    const u32 strip = strip_at<S>(rows, part, C), first = rows.channel + C * WIDTH;
    if (first >= f.product.channels) return;
    float2 bias[WIDTH / GROUP];
    load_biases(bias, e, first, f.product.channels, lane);
    u32 halves[WIDTH / 4];
    fragment_to_halves<C * WIDTH / 2, WIDTH / 2>(halves, sums, bias, e);
    if (is_join(e)) join_strip<WIDTH>(halves, strip, e.flags & EPILOGUE_JOINS_RELU, lane);
    write_strip<WIDTH>(halves, strip, lane);
    if (!S::FUNCTIONS || is_clip(e)) store_strips<S, 1>(f, rows, part, C, lane);
    if constexpr (C + 1 < TILE_STRIPS<S>) round_strips<S, C + 1>(f, sums, rows, part, lane);
}

// Applies `f` to what a strip holds of a warp's rows of some parts, `ROWS` of a lane's at a time: one warp waits for its own instructions.
template <class S, u32 ROWS, class F>
__device__ __forceinline__ void map_strip(u32 strip, u32 lane, const F& f) {
    constexpr u32 WIDTH = TILE_STRIP<S>, PIECES = WIDTH / GROUP, STEP = 32 / PIECES;
    const auto place = [&](u32 row) {
        const u32 part = PARTS_AT_ONCE<S> == 1 ? 0 : row / WARP_ROWS;
        return strip + part * WARPGROUP_ROWS * TILE_ROW_BYTES<S> + piece_of<WIDTH>(row - part * WARP_ROWS, lane % PIECES);
    };
#pragma unroll 1
    for (u32 first = lane / PIECES; first < PARTS_AT_ONCE<S> * WARP_ROWS; first += ROWS * STEP) {
        uint4 values[ROWS];
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) values[i] = load_strip(place(first + i * STEP));
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) values[i] = each_half(values[i], f);
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) store_strip_piece(place(first + i * STEP), values[i]);
    }
}

// The same with a launch's function that is no clip.
template <class S>
__device__ __forceinline__ void apply_to_strip(const Epilogue& e, u32 strip, u32 lane) {
    with_unusual(
        e, [&](const auto& f) { map_strip<S, 1>(strip, lane, f); },
        [&] { with_usual(e, [&](const auto& f) { map_strip<S, 4>(strip, lane, f); }); });
}

// A warp's rows of a tile that is stored from a buffer.
template <class S>
__device__ __forceinline__ OwnRows rows_of(const Buffer<S>& buffer, u32 pixel, u32 channel, u32 warp_row) {
    return {buffer.place + warp_row * TILE_ROW_BYTES<S>, pixel + warp_row, channel};
}

// Whether a launch has a function that is applied to strips.
template <class S>
__device__ __forceinline__ bool has_function(const Epilogue& e) {
    return S::FUNCTIONS && !is_clip(e);
}

// Brings the sums of a tile into its buffer, and has them stored if no function follows.
template <class S>
__device__ __forceinline__ void round_tile(const ConvPingPongParams& f, const TileSums<S>& sums, const Buffer<S>& buffer, const OwnRows& rows, u32 lane) {
    if (is_join(f.product.epilogue)) {
        barrier_wait(buffer.barrier, buffer.parity);
    } else {
        if (lane == 0) stores_have_read<S::BUFFERS - 1>();
        __syncwarp();
    }
#pragma unroll
    for (u32 part = 0; part < PARTS<S>; ++part) round_strips<S>(f, sums[part], rows, part, lane);
    __syncwarp();
}

// Applies a launch's function to a tile and has it stored, a strip of some parts at a time: to every `step`th from `first` on.
// What functions there are is long: kernels call this in one place.
template <class S>
__device__ __forceinline__ void apply_to_tile(const ConvPingPongParams& f, const OwnRows& rows, u32 first, u32 step, u32 lane) {
    constexpr u32 TIMES = PARTS<S> / PARTS_AT_ONCE<S>;
    const u32 strips = live_strips<S>(f.product, rows.channel);
#pragma unroll 1
    for (u32 i = first; i < TIMES * strips; i += step) {
        const u32 part = i % TIMES * PARTS_AT_ONCE<S>, c = i / TIMES;
        apply_to_strip<S>(f.product.epilogue, strip_at<S>(rows, part, c), lane);
        store_strips<S, PARTS_AT_ONCE<S>>(f, rows, part, c, lane);
    }
}

// Ends the `turn`th tile of a warpgroup, all of whose stores have been asked for.
template <class S>
__device__ __forceinline__ void end_tile(const ConvPingPongParams& f, u32 base, u32 group, u32 turn, u32 lane) {
    if (lane == 0) {
        stores_commit();
        if (is_join(f.product.epilogue) && turn + 1 >= S::BUFFERS) {
            stores_have_read<S::BUFFERS - 1>();
            barrier_arrive(Buffer<S>(base, group, turn + 1 - S::BUFFERS).barrier + 8);
        }
    }
    __syncwarp();
}
