// Bounds and maxima of halves, two at a time.
#pragma once

#include "epilogue.cuh"

__device__ __forceinline__ float infinite() { return __int_as_float(0x7f800000); }

// The greater of both halves of two words; NaN passes.
__device__ __forceinline__ u32 greater_halves(u32 a, u32 b) {
    u32 bits;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(bits) : "r"(a), "r"(b));
    return bits;
}

// The bounds of a clip, of both halves of a word; of other functions, none. They act on rounded values: rounding keeps
// order, so it commutes with bounds that are rounded themselves. NaN passes.
struct Bounds {
    u32 low, high;
    bool any;  // the same in all threads

    __device__ __forceinline__ explicit Bounds(const Epilogue& e) {
        const float least = e.function == EPILOGUE_RELU ? 0.0f : e.function == EPILOGUE_CLIP ? e.first : -infinite();
        const float most = e.function == EPILOGUE_CLIP ? e.second : infinite();
        low = two_halves(least, least);
        high = two_halves(most, most);
        any = e.function == EPILOGUE_RELU || e.function == EPILOGUE_CLIP;
    }

    __device__ __forceinline__ u32 halves(float a, float b) const {
        u32 bits = two_halves(a, b);
        asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(bits) : "r"(low));
        asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(bits) : "r"(high));
        return bits;
    }
};
