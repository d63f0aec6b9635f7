// What the depthwise convolutions of few pixels share, depthwise_burst.cu and depthwise_patch.cu: weights whose loads are few and
// wait for nothing, and the halves that sums end as under any tail of a strip.
#pragma once

#include "choice.cuh"
#include "depthwise_strip.cuh"
#include "elementwise_halves.cuh"

// Weights are packed by lots of channels, fours of taps, pairs of channels: a thread of two channels loads four taps at once.
constexpr u32 LOT = 16;
constexpr u32 PAIRS = LOT / 2;
constexpr u32 FOUR = PAIRS * 16;  // bytes of four taps of a lot

// Weights of two channels.
template <u32 TAPS>
struct Taps {
    static constexpr u32 FOURS = (TAPS + 3) / 4;
    u32 words[FOURS * 4];

    __device__ __forceinline__ void load(const DepthwiseStrip& p, u32 channel) {
        const u64 from = p.weights + channel / LOT * (FOURS * FOUR) + channel % LOT * 8;
#pragma unroll
        for (u32 q = 0; q < FOURS; ++q) {
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(words[4 * q]), "=r"(words[4 * q + 1]), "=r"(words[4 * q + 2]), "=r"(words[4 * q + 3])
                         : "l"(from + q * FOUR)
                         : "memory");
        }
    }
    // Keeps whatever needs them behind the loads before it.
    __device__ __forceinline__ void hold() {
#pragma unroll
        for (u32 tap = 0; tap < TAPS; ++tap) asm volatile("" : "+r"(words[tap]));
    }
    __device__ __forceinline__ void get(u32 tap, float (&w)[2]) const {
        const u32 bits[1] = {words[tap]};
        widen(bits, w);
    }
};

// `count` steps behind an address.
__device__ __forceinline__ u64 ahead(u64 start, i32 count, i32 step) {
    u64 to;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(to) : "r"(count), "r"(step), "l"(start));
    return to;
}

__device__ __forceinline__ void store_word(u64 to, u32 bits) { asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(bits) : "memory"); }

template <u32 COUNT>
__device__ __forceinline__ void finish(const DepthwiseStrip& p, const float (&sums)[COUNT], u32 (&bits)[COUNT / 2]) {
    const auto all = [&](const auto& f) {
#pragma unroll
        for (u32 i = 0; i < COUNT / 2; ++i) bits[i] = each(p, sums[2 * i], sums[2 * i + 1], f);
    };
    if (asked(p.function == STRIP_IDENTITY)) {
#pragma unroll
        for (u32 i = 0; i < COUNT / 2; ++i) bits[i] = two_rounded(sums[2 * i], sums[2 * i + 1]);
    } else if (asked(p.function == STRIP_RELU)) {
        all([](float x) { return greater(0.0f, x); });
    } else if (asked(p.function == STRIP_CLIP)) {
        all([&](float x) { return lesser(p.second, greater(p.first, x)); });
    } else if (asked(p.function == STRIP_HARD_SWISH)) {
        all([](float x) { return hard_swish(x); });
    } else if (asked(p.function == STRIP_SILU)) {
        all([](float x) { return silu_of_half(x); });
    } else if (asked(p.function == STRIP_GELU)) {
        all([](float x) { return gelu_of_half(x); });
    } else if (asked(p.function == STRIP_LEAKY_RELU)) {
        all([&](float x) { return x < 0.0f ? __fmul_rn(x, p.first) : x; });
    } else if (asked(p.function == STRIP_GELU_TANH)) {
        all([](float x) { return gelu_tanh_of_half(x); });
    } else {
        all([](float x) { return sigmoid_of_half(x); });
    }
}
