// A tensor somewhere in memory, as the plan says it: an address and a stride for each logical axis.
#pragma once

#include "types.cuh"

constexpr u32 MAX_RANK = 6;

struct View {
    u64 address;           // of element [0, .., 0]; 0 for a tensor that is not there
    u32 dtype;             // a DType
    u32 rank;
    i64 strides[MAX_RANK];  // in elements, may be 0 or negative; 0 beyond the rank
    u32 extents[MAX_RANK];  // 1 beyond the rank
};

static_assert(sizeof(View) == 88, "mirrored in bind/views.rs");

// Element `[at]`, counted from element 0.
__device__ __forceinline__ i64 element_of(const i64 (&strides)[MAX_RANK], const u32 (&at)[MAX_RANK]) {
    i64 element = 0;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; ++axis) element += static_cast<i64>(at[axis]) * strides[axis];
    return element;
}

template <typename T>
__device__ __forceinline__ const T* pointer_to(u64 address, i64 element) {
    return reinterpret_cast<const T*>(address) + element;
}

// Elements as f32: halves widened, integers converted.
__device__ __forceinline__ float load_float(u64 address, u32 dtype, i64 element) {
    switch (dtype) {
        case F32: return *pointer_to<float>(address, element);
        case F16: return half_to_float(*pointer_to<u16>(address, element));
        case I32: return static_cast<float>(*pointer_to<i32>(address, element));
        default: return static_cast<float>(*pointer_to<u8>(address, element));
    }
}
