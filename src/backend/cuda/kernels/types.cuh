// Types and conversions that all kernels share, without any header of a toolkit: the same source goes through every
// version of the run-time compiler.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

static_assert(sizeof(u64) == 8 && sizeof(i32) == 4, "the host's mirrors of these types have these sizes");

// Element types, numbered as the host numbers them (bind/views.rs).
enum DType : u32 { F32 = 0, F16 = 1, I32 = 2, U8 = 3, BOOL = 4 };

// An f16 is carried by its bits: arithmetic on it happens in f32.
__device__ __forceinline__ float half_to_float(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// Rounds to nearest, ties to even.
__device__ __forceinline__ u16 float_to_half(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
