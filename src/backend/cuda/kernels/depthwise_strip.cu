// Depthwise convolution of f16 under square windows of 3, 5 or 7 taps, for many pixels, with the tails that cost a few steps.
#include "depthwise_strip.cuh"

// The halves that a strip's sums end as.
template <u32 COUNT>
__device__ __forceinline__ void finish(const DepthwiseStrip& p, const float (&sums)[COUNT], u32 (&bits)[COUNT / 2]) {
    const auto all = [&](const auto& pair) {
#pragma unroll
        for (u32 i = 0; i < COUNT / 2; ++i) bits[i] = pair(sums[2 * i], sums[2 * i + 1]);
    };
    if (p.function == STRIP_RELU && p.rounded) {
        all([](float a, float b) { return relu_halves(two_rounded(a, b)); });
    } else if (p.function == STRIP_HARD_SWISH) {
        all([&](float a, float b) { return each(p, a, b, [](float x) { return hard_swish(x); }); });
    } else if (p.function == STRIP_IDENTITY) {
        all([](float a, float b) { return two_rounded(a, b); });
    } else {
        const bool relu = p.function == STRIP_RELU;
        const float low = relu ? 0.0f : p.first;
        all([&](float a, float b) {
            return each(p, a, b, [&](float x) {
                const float least = greater(low, x);
                return relu ? least : lesser(p.second, least);
            });
        });
    }
}

DEPTHWISE_STRIP(depthwise_strip_3_1_4, 3, 1, 4, 2, 3)
DEPTHWISE_STRIP(depthwise_strip_3_2_4, 3, 2, 4, 2, 3)
DEPTHWISE_STRIP(depthwise_strip_5_1_4, 5, 1, 4, 1, 3)
DEPTHWISE_STRIP(depthwise_strip_5_2_4, 5, 2, 4, 1, 3)
DEPTHWISE_STRIP(depthwise_strip_3_1_2, 3, 1, 2, 1, 4)
DEPTHWISE_STRIP(depthwise_strip_3_2_2, 3, 2, 2, 1, 4)
DEPTHWISE_STRIP(depthwise_strip_5_1_2, 5, 1, 2, 1, 4)
DEPTHWISE_STRIP(depthwise_strip_5_2_2, 5, 2, 2, 1, 4)
DEPTHWISE_STRIP(depthwise_strip_7_1_4, 7, 1, 4, 1, 2)
DEPTHWISE_STRIP(depthwise_strip_7_1_2, 7, 1, 2, 1, 2)
