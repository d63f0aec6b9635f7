// What happens to a finished accumulator of a convolution or matrix product: bias, rounding, tail, store.
//
// The unit of work is 8 neighbouring channels of one pixel, in f32, so that every access to memory can be 16 bytes wide.
// Main loops call `finish` once for each such group and know nothing else of what follows them. The usual tails have a
// path of their own; all others are interpreted.
#pragma once

#include "activations.cuh"
#include "choice.cuh"
#include "halves.cuh"
#include "tail.cuh"

// Numbered as in bind/epilogue.rs.
enum EpilogueFunction : u32 {
    EPILOGUE_IDENTITY = 0,
    EPILOGUE_RELU = 1,
    EPILOGUE_LEAKY_RELU = 2,  // first: slope
    EPILOGUE_CLIP = 3,        // first, second: bounds
    EPILOGUE_HARD_SWISH = 4,
    EPILOGUE_SILU = 5,
    EPILOGUE_GELU = 6,
    EPILOGUE_SIGMOID = 7,  // from here on what networks seldom have behind a product
    EPILOGUE_TANH = 8,
    EPILOGUE_GELU_TANH = 9,
    EPILOGUE_TAIL = 10,  // any other tail; nothing is joined
};

// Bits of `Epilogue::flags`.
constexpr u32 EPILOGUE_ROUNDED = 1;      // the accumulator with its bias is rounded to f16 before the tail
constexpr u32 EPILOGUE_WIDE_STORE = 2;   // every group of 8 channels of the output begins at a multiple of 16 bytes
constexpr u32 EPILOGUE_WIDE_JOINED = 4;  // the same for the joined tensor
constexpr u32 EPILOGUE_FLAT = 8;         // pixels of output and joined tensor follow each other across rows and samples

constexpr u32 EPILOGUE_WIDENED = 16;     // results are rounded to f16 and stored as f32; never with EPILOGUE_WIDE_STORE
constexpr u32 EPILOGUE_JOINS = 32;       // the function's value, rounded to f16, is added to the joined tensor
constexpr u32 EPILOGUE_JOINS_RELU = 64;  // with it: and a relu is the last
constexpr u32 EPILOGUE_EVEN_STORE = 128;  // every pair of channels of the output begins at a multiple of 4 bytes

// A tensor `[batch, row, pixel, channel]` of f16, or, of an output that is widened, of f32, with neighbouring channels side by side; strides in elements.
struct ChannelsLast {
    u64 address;
    i64 batch;
    i64 row;
    i64 pixel;
};

struct Epilogue {
    ChannelsLast output;
    ChannelsLast joined;  // address 0 if nothing is joined
    u64 bias;             // f32, one a channel, up to a multiple of GROUP channels; 0 for none
    u32 function;
    u32 flags;
    float first;
    float second;
    Tail tail;  // for EPILOGUE_TAIL
};

static_assert(sizeof(Epilogue) == 88 + sizeof(Tail), "mirrored in bind/epilogue.rs");

constexpr u32 GROUP = 8;

// Functions that bounds alone express: they commute with the rounding of the store, but for the sign of a zero. So all kernels find the
// bounds of what is not rounded yet, or of halves by instructions to which 0 is above -0: a little below zero gives 0 behind a relu.
__device__ __forceinline__ bool is_clip(const Epilogue& e) { return e.function == EPILOGUE_IDENTITY || e.function == EPILOGUE_RELU || e.function == EPILOGUE_CLIP; }

__device__ __forceinline__ bool is_join(const Epilogue& e) { return e.flags & EPILOGUE_JOINS; }

// Where a group lies: indices of the whole tensor, not of a chunk.
struct Place {
    u32 batch;
    u32 row;
    u32 pixel;
    u32 channel;
};

__device__ __forceinline__ u32 two_halves(float low, float high) {
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

__device__ __forceinline__ float low_half(u32 bits) { return half_to_float(static_cast<u16>(bits)); }
__device__ __forceinline__ float high_half(u32 bits) { return half_to_float(static_cast<u16>(bits >> 16)); }

__device__ __forceinline__ u64 group_address(const ChannelsLast& tensor, const Place& place) {
    const i64 element = place.batch * tensor.batch + place.row * tensor.row + place.pixel * tensor.pixel + place.channel;
    return tensor.address + static_cast<u64>(element * 2);
}

// Reads the first `count` of 8 halves at `address`; the others are 0.
__device__ __forceinline__ void load_group(float (&values)[GROUP], u64 address, bool wide, u32 count) {
    if (wide && count == GROUP) {
        const uint4 bits = *reinterpret_cast<const uint4*>(address);
        const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            values[2 * i] = low_half(words[i]);
            values[2 * i + 1] = high_half(words[i]);
        }
    } else {
        const u16* halves = reinterpret_cast<const u16*>(address);
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i) {
            values[i] = i < count ? half_to_float(halves[i]) : 0.0f;
        }
    }
}

__device__ __forceinline__ void store_group(const float (&values)[GROUP], u64 address, bool wide, u32 count) {
    if (wide && count == GROUP) {
        *reinterpret_cast<uint4*>(address) = make_uint4(two_halves(values[0], values[1]), two_halves(values[2], values[3]),
                                                        two_halves(values[4], values[5]), two_halves(values[6], values[7]));
    } else {
        u16* halves = reinterpret_cast<u16*>(address);
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i) {
            if (i < count) halves[i] = float_to_half(values[i]);
        }
    }
}

// Stores the first `count` of 8 values as f32, rounded to halves.
__device__ __forceinline__ void store_widened(const float (&values)[GROUP], u64 address, u32 count) {
    float rounded[GROUP];
#pragma unroll
    for (u32 i = 0; i < GROUP; ++i) rounded[i] = rounded_to_half(values[i]);
    store_run(address, F32, 0, count, rounded);
}

// The biases of 8 channels from `channel` on; zeros without a bias.
__device__ __forceinline__ void load_bias(float (&values)[GROUP], const Epilogue& e, u32 channel) {
    float4 low = make_float4(0.0f, 0.0f, 0.0f, 0.0f), high = low;
    if (e.bias != 0) {
        const float4* pointer = reinterpret_cast<const float4*>(e.bias + 4ull * channel);
        low = pointer[0];
        high = pointer[1];
    }
    const float loaded[GROUP] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (u32 i = 0; i < GROUP; ++i) values[i] = loaded[i];
}

// Calls `use` with the function of one value that a launch has, if it is one of those that are usual in networks and no bounds.
// So the choice stands before what is done with all values. Unless the last one calls it without being asked for, the compiler spills.
template <class Use>
__device__ __forceinline__ void with_usual(const Epilogue& e, const Use& use) {
    if (asked(e.function == EPILOGUE_SILU)) {
        use([](float x) { return brief_silu(x); });
    } else if (asked(e.function == EPILOGUE_HARD_SWISH)) {
        use([](float x) { return hard_swish(x); });
    } else if (asked(e.function == EPILOGUE_LEAKY_RELU)) {
        use([&](float x) { return x < 0.0f ? __fmul_rn(x, e.first) : x; });
    } else {
        use([](float x) { return brief_gelu(x); });
    }
}

// The same of those that are not usual; without one, calls `other`.
template <class Use, class Other>
__device__ __forceinline__ void with_unusual(const Epilogue& e, const Use& use, const Other& other) {
    if (asked(e.function < EPILOGUE_SIGMOID || e.function > EPILOGUE_GELU_TANH)) {
        other();
    } else if (asked(e.function == EPILOGUE_SIGMOID)) {
        use([](float x) { return brief_sigmoid(x); });
    } else if (asked(e.function == EPILOGUE_TANH)) {
        use([](float x) { return brief_tangent(x); });
    } else {
        use([](float x) { return brief_gelu_tanh(x); });
    }
}

// What is unusual, of the `count` first channels. It stays out of line: main loops keep their registers, and the usual launch
// never fetches it.
__device__ __noinline__ void finish_unusual(float (&values)[GROUP], const Epilogue& e, const Place& place, u32 count) {
    const auto all = [&](const auto& f) {
#pragma unroll 4
        for (u32 i = 0; i < GROUP; ++i) values[i] = f(values[i]);
    };
    with_unusual(e, all, [&] { tail_pixel(e.tail, values, count, place.batch, place.channel, place.row, place.pixel); });
}

// Applies `f` to every value.
template <u32 N, class F>
__device__ __forceinline__ void each(float (&values)[N][GROUP], const F& f) {
#pragma unroll
    for (u32 g = 0; g < N; ++g) {
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i) values[g][i] = f(values[g][i]);
    }
}

// Finishes N whole groups behind no function but bounds, all of whose accesses are wide: the way of most launches, short and in one
// piece, as a launch whose instructions are not near waits for them line by line, and longer for each jump.
template <u32 N, class Places, class Address>
__device__ __forceinline__ void finish_wide(float (&values)[N][GROUP], const float (&bias)[GROUP], const Epilogue& e, const Places& places,
                                            const Address& address) {
    const bool joins = is_join(e);
    uint4 joined[N];
    if (joins) {
#pragma unroll
        for (u32 g = 0; g < N; ++g) {
            if (places.live(g)) joined[g] = *reinterpret_cast<const uint4*>(address(e.joined, g));
        }
    }
#pragma unroll
    for (u32 g = 0; g < N; ++g) {
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i) values[g][i] = __fadd_rn(values[g][i], bias[i]);
    }
    if (e.function == EPILOGUE_RELU) each(values, [](float x) { return greater(0.0f, x); });
    if (e.function == EPILOGUE_CLIP) each(values, [&](float x) { return clip(x, e.first, e.second); });
    if (joins) {
        const bool relu = e.flags & EPILOGUE_JOINS_RELU;
#pragma unroll
        for (u32 g = 0; g < N; ++g) {
            const u32 words[4] = {joined[g].x, joined[g].y, joined[g].z, joined[g].w};
#pragma unroll
            for (u32 i = 0; i < GROUP; ++i) {
                const float other = i % 2 == 0 ? low_half(words[i / 2]) : high_half(words[i / 2]);
                const float sum = __fadd_rn(rounded_to_half(values[g][i]), other);
                values[g][i] = relu ? greater(0.0f, sum) : sum;
            }
        }
    }
#pragma unroll
    for (u32 g = 0; g < N; ++g) {
        if (places.live(g)) store_group(values[g], address(e.output, g), true, GROUP);
    }
}

// Finishes the `count` (1 to 8) first channels of N groups: values are sums of products, in f32. Group `g` lies at
// `places.at(g)`; where the flag EPILOGUE_FLAT says that pixels follow each other, at pixel `places.flat(g)` of them all, if
// the places know it (`FLAT`).
// Groups without `places.live(g)` are left alone. All N are worked on at once, to hide latencies behind each other.
template <u32 N, class Places>
__device__ __forceinline__ void finish_groups(float (&values)[N][GROUP], const float (&bias)[GROUP], const Epilogue& e, const Places& places,
                                              u32 count) {
    const u32 channel = places.channel();
    const auto address = [&](const ChannelsLast& tensor, u32 g) {
        if (Places::FLAT && (e.flags & EPILOGUE_FLAT)) return tensor.address + 2 * (places.flat(g) * static_cast<u64>(tensor.pixel) + channel);
        return group_address(tensor, places.at(g));
    };
    const bool joins = is_join(e);
    constexpr u32 WAYS = EPILOGUE_WIDE_STORE | EPILOGUE_WIDENED | (Places::FLAT ? EPILOGUE_FLAT : 0);
    const bool wide = is_clip(e) & (e.flags & WAYS) == (WAYS & ~EPILOGUE_WIDENED) & (!joins | (e.flags & EPILOGUE_WIDE_JOINED) != 0) & count == GROUP;
    if (asked(wide)) {
        finish_wide(values, bias, e, places, address);
        return;
    }
    float joined[N][GROUP];
    if (joins) {
#pragma unroll
        for (u32 g = 0; g < N; ++g) {
            if (places.live(g)) load_group(joined[g], address(e.joined, g), e.flags & EPILOGUE_WIDE_JOINED, count);
        }
    }
#pragma unroll
    for (u32 g = 0; g < N; ++g) {
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i) values[g][i] = __fadd_rn(values[g][i], bias[i]);
    }
    if ((e.flags & EPILOGUE_ROUNDED) && !is_clip(e)) each(values, [](float x) { return rounded_to_half(x); });
    switch (e.function) {
        case EPILOGUE_IDENTITY: break;
        case EPILOGUE_RELU: each(values, [](float x) { return greater(0.0f, x); }); break;
        case EPILOGUE_CLIP: each(values, [&](float x) { return clip(x, e.first, e.second); }); break;
        default:
            if (e.function < EPILOGUE_SIGMOID) {
                with_usual(e, [&](const auto& f) { each(values, f); });
                break;
            }
#pragma unroll 1
            for (u32 g = 0; g < N; ++g) {
                float copies[GROUP];
#pragma unroll
                for (u32 constant = 0; constant < N; ++constant) {
#pragma unroll
                    for (u32 i = 0; i < GROUP; ++i) copies[i] = constant == g ? values[constant][i] : copies[i];
                }
                if (places.live(g)) finish_unusual(copies, e, places.at(g), count);
#pragma unroll
                for (u32 constant = 0; constant < N; ++constant) {
#pragma unroll
                    for (u32 i = 0; i < GROUP; ++i) values[constant][i] = constant == g ? copies[i] : values[constant][i];
                }
            }
            break;
    }
    if (joins) {
        // A sum is not rounded before the relu, which commutes with rounding.
        const bool relu = e.flags & EPILOGUE_JOINS_RELU;
#pragma unroll
        for (u32 g = 0; g < N; ++g) {
#pragma unroll
            for (u32 i = 0; i < GROUP; ++i) {
                const float sum = __fadd_rn(rounded_to_half(values[g][i]), joined[g][i]);
                values[g][i] = relu ? greater(0.0f, sum) : sum;
            }
        }
    }
#pragma unroll
    for (u32 g = 0; g < N; ++g) {
        if (!places.live(g)) continue;
        const u64 to = address(e.output, g);
        if (e.flags & EPILOGUE_WIDENED) {
            store_widened(values[g], 2 * to - e.output.address, count);
        } else {
            store_group(values[g], to, e.flags & EPILOGUE_WIDE_STORE, count);
        }
    }
}

// One group on its own.
struct OnePlace {
    static constexpr bool FLAT = false;
    Place place;
    __device__ __forceinline__ u32 channel() const { return place.channel; }
    __device__ __forceinline__ bool live(u32) const { return true; }
    __device__ __forceinline__ Place at(u32) const { return place; }
    __device__ __forceinline__ u32 flat(u32) const { return 0; }
};

// Finishes one group at `place`.
__device__ __forceinline__ void finish(float (&values)[GROUP], const Epilogue& e, const Place& place, u32 count) {
    float bias[GROUP];
    load_bias(bias, e, place.channel);
    finish_groups<1>(reinterpret_cast<float(&)[1][GROUP]>(values), bias, e, OnePlace{place}, count);
}
