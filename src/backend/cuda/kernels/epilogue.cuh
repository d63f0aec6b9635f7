// What happens to a finished accumulator of a convolution or matrix product: bias, rounding, tail, store.
//
// The unit of work is 8 neighbouring channels of one pixel, in f32, so that every access to memory can be 16 bytes wide.
// Main loops call `finish` once for each such group and know nothing else of what follows them.
#pragma once

#include "types.cuh"

// Tails with a path of their own; numbered as in bind/epilogue.rs.
enum EpilogueFunction : u32 {
    EPILOGUE_IDENTITY = 0,
    EPILOGUE_RELU = 1,
    EPILOGUE_LEAKY_RELU = 2,  // first: slope
    EPILOGUE_CLIP = 3,        // first, second: bounds
    EPILOGUE_HARD_SWISH = 4,
    EPILOGUE_HARD_SIGMOID = 5,  // first, second: alpha, beta
    EPILOGUE_ADD = 6,           // the joined tensor
    EPILOGUE_ADD_RELU = 7,
};

// Bits of `Epilogue::flags`.
constexpr u32 EPILOGUE_ROUNDED = 1;      // the accumulator with its bias is rounded to f16 before the tail
constexpr u32 EPILOGUE_BIAS_F32 = 2;     // the bias is f32, otherwise f16
constexpr u32 EPILOGUE_WIDE_STORE = 4;   // every group of 8 channels of the output begins at a multiple of 16 bytes
constexpr u32 EPILOGUE_WIDE_JOINED = 8;  // the same for the joined tensor

// A tensor `[batch, row, pixel, channel]` of f16 with neighbouring channels side by side; strides in elements.
struct ChannelsLast {
    u64 address;
    i64 batch;
    i64 row;
    i64 pixel;
};

struct Epilogue {
    ChannelsLast output;
    ChannelsLast joined;  // address 0 if the function joins nothing
    u64 bias;             // one value a channel; 0 for none
    u32 function;
    u32 flags;
    float first;
    float second;
};

static_assert(sizeof(Epilogue) == 88, "mirrored in bind/epilogue.rs");

constexpr u32 GROUP = 8;

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

// The comparisons of the host's kernels: a NaN on either side gives the second operand, so NaN passes every function.
__device__ __forceinline__ float greater(float a, float b) { return a > b ? a : b; }
__device__ __forceinline__ float lesser(float a, float b) { return a < b ? a : b; }
__device__ __forceinline__ float clip(float x, float low, float high) { return lesser(high, greater(low, x)); }

__device__ __forceinline__ float hard_sigmoid(float x, float alpha, float beta) { return clip(__fmaf_rn(x, alpha, beta), 0.0f, 1.0f); }

__device__ __forceinline__ void add_bias(float (&values)[GROUP], const Epilogue& e, u32 channel, u32 count) {
    if (e.bias == 0) return;
    if (e.flags & EPILOGUE_BIAS_F32) {
        const float* bias = reinterpret_cast<const float*>(e.bias) + channel;
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i) {
            if (i < count) values[i] = __fadd_rn(values[i], bias[i]);
        }
    } else {
        float bias[GROUP];
        // A section of weights begins at a multiple of 64 bytes, and groups at multiples of 8 channels.
        load_group(bias, e.bias + 2ull * channel, true, count);
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i) values[i] = __fadd_rn(values[i], bias[i]);
    }
}

// Finishes the `count` (1 to 8) channels from `place` on: values are sums of products, in f32.
__device__ __forceinline__ void finish(float (&values)[GROUP], const Epilogue& e, const Place& place, u32 count) {
    add_bias(values, e, place.channel, count);
    if (e.flags & EPILOGUE_ROUNDED) {
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i) values[i] = half_to_float(float_to_half(values[i]));
    }
    switch (e.function) {
        case EPILOGUE_RELU:
#pragma unroll
            for (u32 i = 0; i < GROUP; ++i) values[i] = greater(0.0f, values[i]);
            break;
        case EPILOGUE_LEAKY_RELU:
#pragma unroll
            for (u32 i = 0; i < GROUP; ++i) values[i] = values[i] < 0.0f ? __fmul_rn(values[i], e.first) : values[i];
            break;
        case EPILOGUE_CLIP:
#pragma unroll
            for (u32 i = 0; i < GROUP; ++i) values[i] = clip(values[i], e.first, e.second);
            break;
        case EPILOGUE_HARD_SWISH:
#pragma unroll
            for (u32 i = 0; i < GROUP; ++i) values[i] = __fmul_rn(values[i], hard_sigmoid(values[i], 1.0f / 6.0f, 0.5f));
            break;
        case EPILOGUE_HARD_SIGMOID:
#pragma unroll
            for (u32 i = 0; i < GROUP; ++i) values[i] = hard_sigmoid(values[i], e.first, e.second);
            break;
        case EPILOGUE_ADD:
        case EPILOGUE_ADD_RELU: {
            float joined[GROUP];
            load_group(joined, group_address(e.joined, place), e.flags & EPILOGUE_WIDE_JOINED, count);
            const bool relu = e.function == EPILOGUE_ADD_RELU;
            // A sum is not rounded before the relu, which commutes with rounding.
#pragma unroll
            for (u32 i = 0; i < GROUP; ++i) {
                const float sum = __fadd_rn(values[i], joined[i]);
                values[i] = relu ? greater(0.0f, sum) : sum;
            }
            break;
        }
        default: break;
    }
    store_group(values, group_address(e.output, place), e.flags & EPILOGUE_WIDE_STORE, count);
}
