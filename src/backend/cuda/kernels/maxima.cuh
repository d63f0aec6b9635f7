// The greatest of halves, two or eight at a time.
#pragma once

#include "types.cuh"

constexpr u32 LEAST = 0xfc00fc00;  // minus infinity, twice

// The greater of `v` and what comes after it, `x`, in both halves: the first of equals stays, and the first NaN.
__device__ __forceinline__ u32 greater_halves(u32 v, u32 x) {
    u32 above, number;
    asm("set.gtu.u32.f16x2 %0, %1, %2;" : "=r"(above) : "r"(x), "r"(v));  // greater, or one is NaN
    asm("set.eq.u32.f16x2 %0, %1, %1;" : "=r"(number) : "r"(v));
    const u32 take = above & number;
    return (x & take) | (v & ~take);
}

__device__ __forceinline__ uint4 greater_group(uint4 v, uint4 x) {
    return make_uint4(greater_halves(v.x, x.x), greater_halves(v.y, x.y), greater_halves(v.z, x.z), greater_halves(v.w, x.w));
}

// The greatest of groups of eight halves, whatever their order, in fewer instructions: the same numbers as one by one, unless it
// is `doubtful`, and the one NaN that rounding makes. A group that comes twice changes nothing.
struct Most {
    uint4 value;
    uint4 seen;  // bits that any of them has

    Most() = default;
    __device__ __forceinline__ explicit Most(uint4 first) : value(first), seen(first) {}

    __device__ __forceinline__ void take(uint4 x) {
        value = greatest_with(x);
        seen = make_uint4(seen.x | x.x, seen.y | x.y, seen.z | x.z, seen.w | x.w);
    }

    __device__ __forceinline__ void take(const Most& other) {
        value = greatest_with(other.value);
        seen = make_uint4(seen.x | other.seen.x, seen.y | other.seen.y, seen.z | other.seen.z, seen.w | other.seen.w);
    }

    // True if a maximum is 0 where a sign was seen: then its own sign is that of the zero that came first.
    __device__ __forceinline__ bool doubtful() const {
        const auto doubts = [](u32 most, u32 bits) {
            u32 none;
            asm("set.eq.u32.f16x2 %0, %1, %2;" : "=r"(none) : "r"(most), "r"(0));
            return none & bits & 0x80008000;
        };
        return (doubts(value.x, seen.x) | doubts(value.y, seen.y) | doubts(value.z, seen.z) | doubts(value.w, seen.w)) != 0;
    }

private:
    __device__ __forceinline__ uint4 greatest_with(uint4 x) const {
        const auto most = [](u32 a, u32 b) {
            u32 greater;
            asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(greater) : "r"(a), "r"(b));
            return greater;
        };
        return make_uint4(most(value.x, x.x), most(value.y, x.y), most(value.z, x.z), most(value.w, x.w));
    }
};
