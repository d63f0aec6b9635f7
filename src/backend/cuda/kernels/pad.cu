// Padding: elements of the input at places that each axis finds by itself, and a constant where there is none. Bits are moved as they
// are.
//
//     pad_units_*   units of 1 to 16 bytes that lie in one piece on both sides, such as channels side by side of which rows and columns
//                   are padded
//     pad_rows_*    rows that lie in one piece on both sides and are padded themselves, such as those of planes: 16 bytes of the
//                   output a thread, wherever in them the row begins
//
// The host puts the chunk's first element into the output's address, joins the axes that lie behind each other in both tensors, and
// orders the rest by the output's strides. Steps and offsets are counted in units, or in elements of rows.
#include "chain.cuh"
#include "divide.cuh"
#include "parameters.cuh"
#include "view.cuh"

constexpr u32 PAD_THREADS = 256;
constexpr u32 PAD_BYTES = 16;  // of a piece of a row

enum PadMode : u32 { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

struct PadAxis {
    Divisor positions;  // of the chunk's output
    Divisor around;     // the input's positions, 1 for none
    i32 first;          // the input's position at the output's first, before it is brought inside; of wrapped axes inside already
    u32 limit;          // the input's positions
    i32 x_step;
    i32 y_step;
};

static_assert(sizeof(PadAxis) == 40, "mirrored in bind/pad.rs");

struct Pad {
    u64 x;
    u64 y;
    u64 low;         // the input's memory; pieces of rows are read inside
    u64 high;
    u32 mode;        // a PadMode
    u32 outside;     // a constant's bits, again and again
    u32 count;       // units, or pieces of rows
    u32 tiles;
    Divisor pieces;  // of a row
    Divisor group;   // of a row: neighbours that are one position
    u32 length;      // of a row, in elements
    u32 used;        // axes
    PadAxis axes[MAX_RANK];  // innermost first
};

static_assert(sizeof(Pad) == 80 + MAX_RANK * 40, "mirrored in bind/pad.rs");

// The position of the input under one of the output; `inside` stays true where there is one.
template <PadMode MODE>
__device__ __forceinline__ u32 source_of(const PadAxis& a, u32 position, bool& inside) {
    const i32 at = static_cast<i32>(position) + a.first, last = static_cast<i32>(a.limit) - 1;
    if constexpr (MODE == PAD_CONSTANT) {
        inside = inside && static_cast<u32>(at) < a.limit;
        return static_cast<u32>(at);
    } else if constexpr (MODE == PAD_REFLECT) {
        const i32 turned = at < 0 ? -at : at;
        return static_cast<u32>(min(turned, 2 * last - turned));
    } else if constexpr (MODE == PAD_EDGE) {
        return static_cast<u32>(min(max(at, 0), last));
    } else {
        return static_cast<u32>(at) - divide(static_cast<u32>(at), a.around) * a.limit;
    }
}

// Where a thread reads and writes.
struct PadPlace {
    u32 from;
    u32 to;
    bool inside;
};

// Goes on along the axes from FIRST on, for RUN places at once.
template <PadMode MODE, u32 FIRST, u32 RUN>
__device__ __forceinline__ void walk(const Pad& p, u32 (&rest)[RUN], PadPlace (&places)[RUN]) {
#pragma unroll
    for (u32 axis = FIRST; axis < MAX_RANK; ++axis) {
        if (axis >= p.used) break;
        const PadAxis& a = p.axes[axis];
#pragma unroll
        for (u32 k = 0; k < RUN; ++k) {
            const u32 above = divide(rest[k], a.positions), at = rest[k] - above * a.positions.divisor;
            rest[k] = above;
            places[k].from += source_of<MODE>(a, at, places[k].inside) * static_cast<u32>(a.x_step);
            places[k].to += at * static_cast<u32>(a.y_step);
        }
    }
}

// Has the places of the first tile found before the launch ahead has ended.
template <u32 RUN>
__device__ __forceinline__ void begin_once(bool& begun, const PadPlace (&places)[RUN]) {
    if (!begun) {
        u32 all = 0;
#pragma unroll
        for (u32 k = 0; k < RUN; ++k) all ^= places[k].from + places[k].to + places[k].inside;
        settle(all);
        wait_for_predecessors();
        release_successors();
    }
    begun = true;
}

__device__ __forceinline__ void bring_pad(const Pad& p) {
    bring_more(p, 0, static_cast<u32>(sizeof(Pad) - sizeof(p.axes)) + p.used * static_cast<u32>(sizeof(PadAxis)));
}

template <typename T>
__device__ __forceinline__ T filled(u32 word) {
    if constexpr (sizeof(T) == 16) {
        return make_uint4(word, word, word, word);
    } else if constexpr (sizeof(T) == 8) {
        return make_uint2(word, word);
    } else {
        return static_cast<T>(word);
    }
}

template <typename T, u32 RUN, PadMode MODE>
__device__ __forceinline__ void pad_units(const Pad& p) {
    const T outside = filled<T>(p.outside);
    bool begun = false;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = tile * (RUN * PAD_THREADS) + threadIdx.x;
        u32 rest[RUN];
        PadPlace places[RUN];
#pragma unroll
        for (u32 k = 0; k < RUN; ++k) {
            rest[k] = min(index + k * PAD_THREADS, p.count - 1);
            places[k] = PadPlace{0, 0, true};
        }
        walk<MODE, 0>(p, rest, places);
        begin_once(begun, places);
        T values[RUN];
#pragma unroll
        for (u32 k = 0; k < RUN; ++k) {
            values[k] = outside;
            if (places[k].inside) values[k] = *pointer_to<T>(p.x, static_cast<i32>(places[k].from));
        }
#pragma unroll
        for (u32 k = 0; k < RUN; ++k) {
            if (index + k * PAD_THREADS < p.count) *(reinterpret_cast<T*>(p.y) + static_cast<i32>(places[k].to)) = values[k];
        }
    }
}

// 16 bytes from an address on, from the two pieces that they lie in.
__device__ __forceinline__ uint4 unaligned(u64 piece, u32 skew) {
    const uint4 low = *reinterpret_cast<const uint4*>(piece);
    if (skew == 0) return low;
    const uint4 high = *reinterpret_cast<const uint4*>(piece + PAD_BYTES);
    u32 w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (u32 i = 0; i < 6; ++i) w[i] = skew & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (u32 i = 0; i < 5; ++i) w[i] = skew & 4 ? w[i + 1] : w[i];
    const u32 bits = skew % 4 * 8;
    return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits), __funnelshift_r(w[2], w[3], bits),
                      __funnelshift_r(w[3], w[4], bits));
}

template <typename T, PadMode MODE>
__device__ __forceinline__ void pad_rows(const Pad& p) {
    constexpr i32 EACH = PAD_BYTES / sizeof(T);
    constexpr u32 IN_WORD = 4 / sizeof(T);
    const i32 length = static_cast<i32>(p.length);
    // The input's element of the row under one of the output's.
    const auto element = [&](i32 o, bool& inside) {
        const u32 position = divide(static_cast<u32>(o), p.group), beside = static_cast<u32>(o) - position * p.group.divisor;
        return static_cast<i32>(source_of<MODE>(p.axes[0], position, inside) * p.group.divisor + beside);
    };
    bool begun = false;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = min(tile * PAD_THREADS + threadIdx.x, p.count - 1);
        u32 row[1] = {divide(index, p.pieces)};
        const u32 piece = index - row[0] * p.pieces.divisor;
        PadPlace places[1] = {{0, 0, true}};
        walk<MODE, 1>(p, row, places);
        begin_once(begun, places);
        if (tile * PAD_THREADS + threadIdx.x >= p.count) continue;
        const T* const x = pointer_to<T>(p.x, static_cast<i32>(places[0].from));
        T* const y = reinterpret_cast<T*>(p.y) + static_cast<i32>(places[0].to);
        // A row's pieces are counted from the 16 bytes that its first element lies in.
        const i32 first = static_cast<i32>(piece * EACH) - static_cast<i32>(reinterpret_cast<u64>(y) % PAD_BYTES / sizeof(T));
        if (first >= length) continue;
        const bool whole = first >= 0 && first + EACH <= length;
        u32 words[4] = {p.outside, p.outside, p.outside, p.outside};
        if (places[0].inside) {
            bool ends = whole;
            const i32 left = element(max(first, 0), ends), right = element(min(first + EACH, length) - 1, ends);
            const u64 address = reinterpret_cast<u64>(x + left), from = address / PAD_BYTES * PAD_BYTES;
            const u32 skew = static_cast<u32>(address % PAD_BYTES);
            // Positions go on by one at most: ends as far apart as in the output have neighbours between them.
            if (ends && right - left == EACH - 1 && from >= p.low && from + (skew ? 2 * PAD_BYTES : PAD_BYTES) <= p.high) {
                const uint4 found = unaligned(from, skew);
                words[0] = found.x, words[1] = found.y, words[2] = found.z, words[3] = found.w;
            } else {
                T values[EACH];
#pragma unroll
                for (i32 i = 0; i < EACH; ++i) {
                    bool inside = true;
                    const i32 at = element(min(max(first + i, 0), length - 1), inside);
                    values[i] = static_cast<T>(p.outside);
                    if (inside) values[i] = x[at];
                }
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    words[i] = 0;
#pragma unroll
                    for (u32 k = 0; k < IN_WORD; ++k) words[i] |= static_cast<u32>(values[i * IN_WORD + k]) << (8 * sizeof(T) * k);
                }
            }
        }
        if (whole) {
            *reinterpret_cast<uint4*>(y + first) = make_uint4(words[0], words[1], words[2], words[3]);
            continue;
        }
#pragma unroll
        for (i32 i = 0; i < EACH; ++i) {
            const u32 word = words[i / IN_WORD];
            if (first + i >= 0 && first + i < length) y[first + i] = static_cast<T>(word >> (8 * sizeof(T) * (i % IN_WORD)));
        }
    }
}

#define PAD_UNITS(name, type, run) \
    extern "C" __global__ void __launch_bounds__(PAD_THREADS) name(const __grid_constant__ Pad p) { \
        bring_pad(p); \
        switch (p.mode) { \
            case PAD_CONSTANT: pad_units<type, run, PAD_CONSTANT>(p); break; \
            case PAD_REFLECT: pad_units<type, run, PAD_REFLECT>(p); break; \
            case PAD_EDGE: pad_units<type, run, PAD_EDGE>(p); break; \
            default: pad_units<type, run, PAD_WRAP>(p); break; \
        } \
    }

PAD_UNITS(pad_units_1, u8, 1)
PAD_UNITS(pad_units_2, u16, 1)
PAD_UNITS(pad_units_4, u32, 1)
PAD_UNITS(pad_units_8, uint2, 1)
PAD_UNITS(pad_units_16, uint4, 1)
PAD_UNITS(pad_units_1_fours, u8, 4)
PAD_UNITS(pad_units_2_fours, u16, 4)
PAD_UNITS(pad_units_4_fours, u32, 4)
PAD_UNITS(pad_units_8_fours, uint2, 4)
PAD_UNITS(pad_units_16_fours, uint4, 4)

#define PAD_ROWS(name, type) \
    extern "C" __global__ void __launch_bounds__(PAD_THREADS) name(const __grid_constant__ Pad p) { \
        bring_pad(p); \
        switch (p.mode) { \
            case PAD_CONSTANT: pad_rows<type, PAD_CONSTANT>(p); break; \
            case PAD_REFLECT: pad_rows<type, PAD_REFLECT>(p); break; \
            case PAD_EDGE: pad_rows<type, PAD_EDGE>(p); break; \
            default: pad_rows<type, PAD_WRAP>(p); break; \
        } \
    }

PAD_ROWS(pad_rows_1, u8)
PAD_ROWS(pad_rows_2, u16)
PAD_ROWS(pad_rows_4, u32)
