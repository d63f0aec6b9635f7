// Depthwise convolution of f16 as depthwise_strip.cu, with tails of many steps: kernels of their own, as these take registers.
#include "choice.cuh"
#include "depthwise_strip.cuh"
#include "elementwise_halves.cuh"

// The halves that a strip's sums end as.
template <u32 COUNT>
__device__ __forceinline__ void finish(const DepthwiseStrip& p, const float (&sums)[COUNT], u32 (&bits)[COUNT / 2]) {
    const auto all = [&](const auto& f) {
#pragma unroll
        for (u32 i = 0; i < COUNT / 2; ++i) bits[i] = each(p, sums[2 * i], sums[2 * i + 1], f);
    };
    if (asked(p.function == STRIP_SILU)) return all([](float x) { return silu_of_half(x); });
    if (asked(p.function == STRIP_GELU)) return all([](float x) { return gelu_of_half(x); });
    if (asked(p.function == STRIP_GELU_TANH)) return all([](float x) { return gelu_tanh_of_half(x); });
    if (asked(p.function == STRIP_LEAKY_RELU)) return all([&](float x) { return x < 0.0f ? __fmul_rn(x, p.first) : x; });
    all([](float x) { return sigmoid_of_half(x); });
}

DEPTHWISE_STRIP(depthwise_curved_3_1_4, 3, 1, 4, 2, 3)
DEPTHWISE_STRIP(depthwise_curved_3_2_4, 3, 2, 4, 2, 3)
DEPTHWISE_STRIP(depthwise_curved_5_1_4, 5, 1, 4, 1, 3)
DEPTHWISE_STRIP(depthwise_curved_5_2_4, 5, 2, 4, 1, 3)
DEPTHWISE_STRIP(depthwise_curved_3_1_2, 3, 1, 2, 1, 4)
DEPTHWISE_STRIP(depthwise_curved_3_2_2, 3, 2, 2, 1, 4)
DEPTHWISE_STRIP(depthwise_curved_5_1_2, 5, 1, 2, 1, 4)
DEPTHWISE_STRIP(depthwise_curved_5_2_2, 5, 2, 2, 1, 4)
DEPTHWISE_STRIP(depthwise_curved_7_1_4, 7, 1, 4, 1, 2)
DEPTHWISE_STRIP(depthwise_curved_7_1_2, 7, 1, 2, 1, 2)
