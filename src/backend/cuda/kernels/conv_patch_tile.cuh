// Tiles of the kernels that convolve patches: which pixels they are, and how their sums are stored.
#pragma once

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

// How a tile is stored: a tail that has a path of its own, any other, or bounds and then maxima.
enum class Store { PLAIN, ANY, POOLED };

// A tile: its sample, and the first row and column that it stores.
struct Tile {
    u32 batch, row, column;
};

// A pooled tile stores half as many rows and columns.
template <u32 ROWS, Store STORE>
__device__ __forceinline__ Tile tile_at(const ConvPatchParams& p, u32 index) {
    const u32 line = index / p.across;
    const u32 batch = line / p.down;
    constexpr u32 POOL = STORE == Store::POOLED ? 2 : 1;
    return {p.first_batch + batch, p.first_row + (line - batch * p.down) * (ROWS / POOL), (index - line * p.across) * (COLUMNS / POOL)};
}

// The barrier of the warps of one warpgroup.
__device__ __forceinline__ void warpgroup_meet(u32 group) {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(WARPGROUP) : "memory");
}

// Rounds the sums and turns them round at `at`, as pixels of 64 channels. `Bounds` and biases are applied on the way.
template <u32 ROWS>
__device__ __forceinline__ void turn_round(const float (&sums)[ROWS * COLUMNS / 2], const Epilogue& e, const float (&bias)[2], u32 at, u32 warp, u32 lane) {
    const Bounds bounds(e);
    // Lanes 8 i .. 8 i + 7 name the pixels of the i-th 8 by 8 matrix: lower and upper channels of two rows.
    const u32 column = lane % 8, piece = warp * 2 + lane / 8 % 2;
    const u32 to = at + (lane / 16 * COLUMNS + column) * K_BYTES + (piece ^ column) * 16;
#pragma unroll
    for (u32 j = 0; j < ROWS; j += 2) {
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

// Rounds the sums, keeps the greatest of every 2 by 2, and turns them round at `at`, as above with half the rows and columns.
template <u32 ROWS>
__device__ __forceinline__ void turn_pooled(const float (&sums)[ROWS * COLUMNS / 2], const Epilogue& e, const float (&bias)[2], u32 at, u32 warp,
                                            u32 lane) {
    const Bounds bounds(e);
    // Of lower (0) or upper (1) channels, the maximum of a thread's two columns in rows `row` and `row + 1`, in both halves.
    const auto pooled = [&](u32 row, u32 upper) {
        const auto pair = [&](u32 j) {
            const float* value = sums + 4 * j + 2 * upper;
            return bounds.halves(__fadd_rn(value[0], bias[upper]), __fadd_rn(value[1], bias[upper]));
        };
        const u32 rows = row + 1 < ROWS ? greater_halves(pair(row), pair(row + 1)) : 0;
        return greater_halves(rows, __funnelshift_r(rows, rows, 16));
    };
    // A matrix holds two pooled rows: its column 2 q + s is column q of row s.
    const u32 pixel = lane / 16 * COLUMNS + lane % 2 * (COLUMNS / 2) + lane % 8 / 2, piece = warp * 2 + lane / 8 % 2;
    const u32 to = at + pixel * K_BYTES + (piece ^ pixel % 8) * 16;
#pragma unroll
    for (u32 j = 0; j < ROWS; j += 8) {
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
    const u64 other = place(e.joined), other_step = e.joined.row * ROWS_AT_ONCE * 2;
    // The choice of a function stands before the turns.
    const auto turns = [&](const auto& f) {
#pragma unroll 1
        for (u32 i = 0; i < TURNS; ++i) {
            if (!live(i)) continue;
            uint4 bits = each_half(load(i), f);
            if (is_join(e)) bits = join(bits, *reinterpret_cast<const uint4*>(other + i * other_step), e);
            *reinterpret_cast<uint4*>(to + i * step) = bits;
        }
    };
    // What is usual stands first (choice.cuh).
    if (asked(is_clip(e) & !is_join(e))) {
#pragma unroll
        for (u32 i = 0; i < TURNS; ++i) {
            if (live(i)) store_bits<WIDE>(e, to + i * step, load(i));
        }
    } else if (asked(is_clip(e))) {
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
        with_unusual(e, turns, [&] { with_usual(e, turns); });
    }
}

// Stores a tile whose tail has no path of its own, half of its rows at a time; `patch` holds them in f32.
template <u32 ROWS>
__device__ __forceinline__ void store_any(const ConvPatchParams& p, const Tile& t, const float (&sums)[ROWS * COLUMNS / 2], u32 channel, u8* patch,
                                          u32 group, u32 thread) {
    constexpr u32 HALF = ROWS / 2, GROUPS = CHANNELS / GROUP;
    const u32 lane = thread % WARP;
    float* tile = reinterpret_cast<float*>(patch);
#pragma unroll
    for (u32 first = 0; first < ROWS; first += HALF) {
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

// Stores the sums of a warpgroup, of channels from `channel` on and with their biases; `patch` is memory of its own that
// nobody reads any more, and that others may fill afterwards.
template <u32 ROWS, Store STORE>
__device__ __forceinline__ void store_tile(const ConvPatchParams& p, const Tile& t, const float (&sums)[ROWS * COLUMNS / 2], const float (&bias)[2],
                                           u32 channel, u8* patch, u32 group, u32 thread) {
    const u32 at = shared_address(patch), warp = thread / WARP, lane = thread % WARP;
    if constexpr (STORE == Store::ANY) {
        store_any<ROWS>(p, t, sums, channel, patch, group, thread);
    } else if constexpr (STORE == Store::POOLED) {
        turn_pooled<ROWS>(sums, p.epilogue, bias, at, warp, lane);
        warpgroup_meet(group);
        store<ROWS / 2, COLUMNS / 2, false>(p, t, channel, at, thread);
    } else {
        turn_round<ROWS>(sums, p.epilogue, bias, at, warp, lane);
        warpgroup_meet(group);
        store<ROWS, COLUMNS, true>(p, t, channel, at, thread);
    }
    copy_fence();
    __syncwarp();
}
