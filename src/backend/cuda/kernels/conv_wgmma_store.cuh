// Storing the sums of a warp: from the fragments of a warpgroup product to runs of channels.
//
// The usual tails are applied to the fragments, which cost fewer instructions there than pixel by pixel; then the warp
// turns 16 rows of up to 64 channels round in its strip of shared memory and stores 16 bytes a thread. What does not
// qualify goes through `finish`, with the same bits.
#pragma once

#include "bounds.cuh"
#include "hopper.cuh"

constexpr u32 WARP_ROWS = 16;                   // rows of a fragment
constexpr u32 STRIP = 64;                       // channels that are turned round at a time
constexpr u32 STRIP_ROW_BYTES = STRIP * 2;
constexpr u32 STRIP_BYTES = WARP_ROWS * STRIP_ROW_BYTES;
constexpr u32 NARROW = 32;                      // channels at a time where f32 goes through the strip

static_assert(WARP_ROWS * NARROW * 4 <= STRIP_BYTES, "f32 fits the strip, half as many channels at a time");

// The rows of a warp in the output. Each of 16 lanes knows its row's offset; the others repeat them.
struct WarpRows {
    u32 output, joined;  // of row lane % 16, in pairs of channels
    u32 live;            // rows that are stored
};

// Offsets of pixels count in pairs of channels.
constexpr u32 PAIR = 2;

__device__ __forceinline__ u32 row_pairs(const ChannelsLast& tensor, const Place& place) {
    return static_cast<u32>((place.batch * tensor.batch + place.row * tensor.row + place.pixel * tensor.pixel) / PAIR);
}

// Byte of a strip where a piece of 8 channels of a row lies: pieces are permuted, so that the same piece of 8 rows meets
// different banks.
__device__ __forceinline__ u32 strip_piece(u32 row, u32 piece) { return row * STRIP_ROW_BYTES + (piece ^ row % 8) * 16; }

// How a warp stores a strip of `WIDTH` columns: in turns, each lane 8 channels of a row.
template <u32 WIDTH>
struct StripTurns {
    static constexpr u32 PIECES = WIDTH / GROUP, AT_ONCE = 32 / PIECES, TURNS = WARP_ROWS / AT_ONCE;

    // Address of this lane's group in the row that it stores at turn `i`; all lanes take part.
    static __device__ __forceinline__ u64 address(const ChannelsLast& tensor, u32 pairs, u32 channel, u32 i, u32 lane) {
        const u32 own = channel + lane % PIECES * GROUP, row = i * AT_ONCE + lane / PIECES;
        return tensor.address + (static_cast<u64>(__shfl_sync(0xffffffff, pairs, row)) * PAIR + own) * 2;
    }

    static __device__ __forceinline__ bool is_live(const WarpRows& rows, u32 channel, u32 channels, u32 i, u32 lane) {
        return channel + lane % PIECES * GROUP < channels && i * AT_ONCE + lane / PIECES < rows.live;
    }
};

// What a strip needs besides its sums: of a thread's fragment and of what it stores.
template <u32 WIDTH>
struct StripAhead {
    float2 bias[WIDTH / GROUP];
    uint4 joined[StripTurns<WIDTH>::TURNS];

    // The first of what is joined; then the others move up.
    __device__ __forceinline__ uint4 next() {
        const uint4 first = joined[0];
#pragma unroll
        for (u32 i = 1; i < StripTurns<WIDTH>::TURNS; ++i) joined[i - 1] = joined[i];
        return first;
    }
};

// Loads the biases of a thread's fragment. `channel` is the strip's first.
template <u32 COUNT>
__device__ __forceinline__ void load_biases(float2 (&biases)[COUNT], const Epilogue& e, u32 channel, u32 channels, u32 lane) {
    const float2* bias = reinterpret_cast<const float2*>(e.bias + 4ull * (channel + lane % 4 * 2));
#pragma unroll
    for (u32 j = 0; j < COUNT; ++j) {
        biases[j] = make_float2(0.0f, 0.0f);
        if (e.bias != 0 && channel + j * GROUP < channels) biases[j] = bias[j * GROUP / 2];
    }
}

// Loads what is joined to a strip.
template <u32 WIDTH>
__device__ __forceinline__ void load_joined(StripAhead<WIDTH>& ahead, const Epilogue& e, const WarpRows& rows, u32 channel, u32 channels, u32 lane) {
    using Turns = StripTurns<WIDTH>;
#pragma unroll
    for (u32 i = 0; i < Turns::TURNS; ++i) {
        const u64 other = Turns::address(e.joined, rows.joined, channel, i, lane);
        if (Turns::is_live(rows, channel, channels, i, lane)) ahead.joined[i] = *reinterpret_cast<const uint4*>(other);
    }
}

// Adds the biases to `COUNT` values of a fragment from `FIRST` on, bounds them and rounds them to halves.
template <u32 FIRST, u32 COUNT, u32 N>
__device__ __forceinline__ void fragment_to_halves(u32 (&halves)[COUNT / 2], const float (&sums)[N], const float2 (&bias)[COUNT / 4], const Epilogue& e) {
    const Bounds bounds(e);
    const auto round = [&](const auto& pair) {
#pragma unroll
        for (u32 j = 0; j < COUNT / 4; ++j) {
            const float* value = sums + FIRST + 4 * j;
            const float2 b = bias[j];
            halves[2 * j] = pair(__fadd_rn(value[0], b.x), __fadd_rn(value[1], b.y));
            halves[2 * j + 1] = pair(__fadd_rn(value[2], b.x), __fadd_rn(value[3], b.y));
        }
    };
    if (bounds.any) {
        round([&](float a, float b) { return bounds.halves(a, b); });
    } else {
        round([](float a, float b) { return two_halves(a, b); });
    }
}

// Writes the halves of a fragment to the strip.
template <u32 COUNT>
__device__ __forceinline__ void halves_to_strip(const u32 (&halves)[COUNT], u32 strip, u32 lane) {
    // Lanes 8 i .. 8 i + 7 name the rows of the i-th 8 by 8 matrix: upper and lower rows of two groups of columns.
    const u32 row = lane % 16, piece = lane / 16;
#pragma unroll
    for (u32 j = 0; j < COUNT; j += 4) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(strip + strip_piece(row, piece + j / 2)),
                     "r"(halves[j]),
                     "r"(halves[j + 1]), "r"(halves[j + 2]), "r"(halves[j + 3])
                     : "memory");
    }
}

// Both, when all lanes have read what the strip held.
template <u32 FIRST, u32 COUNT, u32 N>
__device__ __forceinline__ void fragment_to_strip(const float (&sums)[N], const float2 (&bias)[COUNT / 4], const Epilogue& e, u32 strip, u32 lane) {
    u32 halves[COUNT / 2];
    fragment_to_halves<FIRST, COUNT>(halves, sums, bias, e);
    __syncwarp();
    halves_to_strip(halves, strip, lane);
    __syncwarp();
}

__device__ __forceinline__ uint4 load_strip(u32 address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ void store_strip_piece(u32 address, const uint4& v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// Applies `f` to 8 channels.
template <class F>
__device__ __forceinline__ uint4 each_half(const uint4& bits, const F& f) {
    const auto pair = [&](u32 halves) { return two_halves(f(low_half(halves)), f(high_half(halves))); };
    return make_uint4(pair(bits.x), pair(bits.y), pair(bits.z), pair(bits.w));
}

// Adds 8 channels of the other tensor.
__device__ __forceinline__ uint4 join(const uint4& a, const uint4& b, const Epilogue& e) {
    const uint4 sum = make_uint4(add_halves(a.x, b.x), add_halves(a.y, b.y), add_halves(a.z, b.z), add_halves(a.w, b.w));
    if (!(e.flags & EPILOGUE_JOINS_RELU)) return sum;
    return make_uint4(relu_halves(sum.x), relu_halves(sum.y), relu_halves(sum.z), relu_halves(sum.w));
}

// Applies a function of one value that is no clip to 8 rounded channels.
__device__ __forceinline__ uint4 apply_to_group(const uint4& bits, const Epilogue& e) {
    uint4 result;
    const auto all = [&](const auto& f) { result = each_half(bits, f); };
    with_unusual(e, all, [&] { with_usual(e, all); });
    return result;
}

// Stores the first `WIDTH` columns of the strip two channels at a time, of pixels that begin at any even one.
template <u32 WIDTH>
__device__ __forceinline__ void strip_to_pairs(const Epilogue& e, const WarpRows& rows, u32 strip, u32 channel, u32 channels, u32 lane) {
    constexpr u32 PAIRS = WIDTH / PAIR, AT_ONCE = 32 / PAIRS, IN_PIECE = GROUP / PAIR;
    const u32 pair = lane % PAIRS, own = channel + pair * PAIR;
#pragma unroll 4
    for (u32 i = 0; i < WARP_ROWS; i += AT_ONCE) {  // the same in all lanes, or products would lose their uniform registers
        const u32 row = i + lane / PAIRS;
        const u32 bits = load_word(strip + strip_piece(row, pair / IN_PIECE) + pair % IN_PIECE * 4);
        const u64 to = e.output.address + (static_cast<u64>(__shfl_sync(0xffffffff, rows.output, row)) * PAIR + own) * 2;
        if (own < channels && row < rows.live) *reinterpret_cast<u32*>(to) = bits;
    }
}

// Stores the first `WIDTH` columns of the strip. If `EARLY`, what is joined is there already.
template <bool EARLY, u32 WIDTH>
__device__ __forceinline__ void strip_to_output(const Epilogue& e, StripAhead<WIDTH>& ahead, const WarpRows& rows, u32 strip, u32 channel,
                                                u32 channels, u32 lane) {
    using Turns = StripTurns<WIDTH>;
    const auto piece = [&](u32 i) { return load_strip(strip + strip_piece(i * Turns::AT_ONCE + lane / Turns::PIECES, lane % Turns::PIECES)); };
    const auto put = [&](u32 i, const uint4& bits) {
        const u64 to = Turns::address(e.output, rows.output, channel, i, lane);
        if (Turns::is_live(rows, channel, channels, i, lane)) *reinterpret_cast<uint4*>(to) = bits;
    };
    // The choice of a function stands before the turns, which would else wait for its branches again and again. Two turns at a time
    // wait less for each other's instructions, but where there are no more than two, a loop waits less for instructions to come.
    const auto turns = [&](const auto& f) {
        constexpr u32 ROWS = Turns::TURNS % 2 == 0 && Turns::TURNS > 2 ? 2 : 1;
#pragma unroll 1
        for (u32 first = 0; first < Turns::TURNS; first += ROWS) {
            uint4 bits[ROWS];
#pragma unroll
            for (u32 i = 0; i < ROWS; ++i) bits[i] = piece(first + i);
#pragma unroll
            for (u32 i = 0; i < ROWS; ++i) bits[i] = each_half(bits[i], f);
#pragma unroll
            for (u32 i = 0; i < ROWS; ++i) {
                if (is_join(e)) {
                    if constexpr (EARLY) {
                        bits[i] = join(bits[i], ahead.next(), e);
                    } else {  // large tiles have no registers for what is joined
                        const u64 other = Turns::address(e.joined, rows.joined, channel, first + i, lane);
                        if (Turns::is_live(rows, channel, channels, first + i, lane)) bits[i] = join(bits[i], *reinterpret_cast<const uint4*>(other), e);
                    }
                }
                put(first + i, bits[i]);
            }
        }
    };
    const bool clip = is_clip(e), joins = is_join(e);
    if (asked(clip & (joins | (e.flags & EPILOGUE_WIDE_STORE) != 0))) {
        if (!EARLY && joins) load_joined(ahead, e, rows, channel, channels, lane);
#pragma unroll
        for (u32 i = 0; i < Turns::TURNS; ++i) {
            uint4 bits = piece(i);
            if (joins) bits = join(bits, ahead.joined[i], e);
            put(i, bits);
        }
    } else if (!clip) {
        with_unusual(e, turns, [&] { with_usual(e, turns); });
    } else {
        strip_to_pairs<WIDTH>(e, rows, strip, channel, channels, lane);
    }
}

// Columns of the first strip of `N` sums a thread, and of all others.
template <u32 N>
constexpr u32 STRIP_WIDTH = N * 2 < STRIP ? N * 2 : STRIP;

// The plain way, `STRIP` columns at a time. If `EARLY`, what the first strip needs is there already.
template <bool EARLY, u32 N, u32 FIRST = 0>
__device__ __forceinline__ void store_plain(const Epilogue& e, const float (&sums)[N], StripAhead<STRIP_WIDTH<N>>& ahead, const WarpRows& rows,
                                            u32 strip, u32 channel, u32 channels, u32 lane) {
    constexpr u32 WIDTH = STRIP_WIDTH<N>;
    if (channel >= channels) return;
    if constexpr (!EARLY) load_biases(ahead.bias, e, channel, channels, lane);
    fragment_to_strip<FIRST, WIDTH / 2>(sums, ahead.bias, e, strip, lane);
    strip_to_output<EARLY>(e, ahead, rows, strip, channel, channels, lane);
    if constexpr (FIRST + WIDTH / 2 < N) {
        store_plain<false, N, FIRST + WIDTH / 2>(e, sums, ahead, rows, strip, channel + WIDTH, channels, lane);
    }
}

// What a group of 8 channels of a pixel needs besides its sums.
struct GroupAhead {
    float bias[GROUP];
    uint4 joined;
    u64 output;  // address
};

// Loads it for the plain way; offsets are given in pairs of channels.
__device__ __forceinline__ void load_group_ahead(GroupAhead& ahead, const Epilogue& e, u32 output, u32 joined, u32 channel) {
    load_bias(ahead.bias, e, channel);
    ahead.joined = make_uint4(0, 0, 0, 0);
    if (is_join(e)) ahead.joined = *reinterpret_cast<const uint4*>(e.joined.address + (static_cast<u64>(joined) * PAIR + channel) * 2);
    ahead.output = e.output.address + (static_cast<u64>(output) * PAIR + channel) * 2;
}

// Stores 8 channels of a pixel the plain way, or those of them that there are: `left`.
__device__ __forceinline__ void store_plain_group(const Epilogue& e, const float (&sums)[GROUP], const GroupAhead& ahead, u32 left) {
    const Bounds bounds(e);
    u32 words[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        words[i] = bounds.halves(__fadd_rn(sums[2 * i], ahead.bias[2 * i]), __fadd_rn(sums[2 * i + 1], ahead.bias[2 * i + 1]));
    }
    uint4 bits = make_uint4(words[0], words[1], words[2], words[3]);
    const bool joins = is_join(e);
    if (asked(is_clip(e) & (e.flags & EPILOGUE_WIDE_STORE) != 0)) {
        if (joins) bits = join(bits, ahead.joined, e);
        *reinterpret_cast<uint4*>(ahead.output) = bits;
        return;
    }
    if (!is_clip(e)) bits = apply_to_group(bits, e);
    if (joins) bits = join(bits, ahead.joined, e);
    if (e.flags & EPILOGUE_WIDE_STORE) {
        *reinterpret_cast<uint4*>(ahead.output) = bits;
        return;
    }
    const u32 pairs[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        if (i * PAIR < left) reinterpret_cast<u32*>(ahead.output)[i] = pairs[i];
    }
}

// Picks `COUNT` of a fragment's values; `index` counts in `COUNT` and is the same in all lanes.
template <u32 COUNT, u32 N, u32 INDEX = 0>
__device__ __forceinline__ void pick(float (&values)[COUNT], const float (&sums)[N], u32 index) {
    if (index == INDEX) {
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) values[i] = sums[INDEX * COUNT + i];
    } else if constexpr ((INDEX + 1) * COUNT < N) {
        pick<COUNT, N, INDEX + 1>(values, sums, index);
    }
}

// The general way, in f32 and group by group; `place_at(row)` is where a row of the warp lies. What finishes a group is
// long and stands here once, in a loop.
template <u32 N, class PlaceAt>
__device__ __forceinline__ void store_general(const Epilogue& e, const float (&sums)[N], u32 live, const PlaceAt& place_at,
                                              u32 strip, u32 channel, u32 channels, u32 lane) {
    constexpr u32 GROUPS = NARROW / GROUP, AT_ONCE = 32 / GROUPS;
#pragma unroll 1
    for (u32 c = 0; c < N * 2 && channel + c < channels; c += NARROW) {
        const u32 own = channel + c + lane % GROUPS * GROUP;
        float bias[GROUP];
        if (own < channels) load_bias(bias, e, own);
        float values[NARROW / 2];
        pick(values, sums, c / NARROW);
        __syncwarp();
        const u32 fragment = strip + (lane / 4 * NARROW + lane % 4 * 2) * 4;
#pragma unroll
        for (u32 j = 0; j < NARROW / 8; ++j) {
            store_pair(fragment + j * 32, values[4 * j], values[4 * j + 1]);
            store_pair(fragment + (8 * NARROW + j * 8) * 4, values[4 * j + 2], values[4 * j + 3]);
        }
        __syncwarp();
        if (own >= channels) continue;
#pragma unroll 1
        for (u32 row = lane / GROUPS; row < min(WARP_ROWS, live); row += AT_ONCE) {
            const u32 at = strip + (row * NARROW + lane % GROUPS * GROUP) * 4;
            const float4 low = load_four(at), high = load_four(at + 16);
            float group[1][GROUP] = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
            Place place = place_at(row);
            place.channel = own;
            finish_groups(group, bias, e, OnePlace{place}, min(GROUP, channels - own));
        }
    }
}
