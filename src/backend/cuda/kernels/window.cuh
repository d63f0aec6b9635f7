// A sliding window over up to three spatial axes.
#pragma once

#include "view.cuh"

struct Window {
    u32 axes;
    u32 kernel[3];
    u32 stride[3];
    u32 dilation[3];
    u32 pad_begin[3];
    u32 pad_end[3];
};

static_assert(sizeof(Window) == 64, "mirrored in bind/window.rs");

// Where tap `tap` of spatial axis `axis` lands in the input for output `at`; may be outside.
__device__ __forceinline__ i64 landing(const Window& w, u32 axis, u32 at, u32 tap) {
    return static_cast<i64>(at) * w.stride[axis] + static_cast<i64>(tap) * w.dilation[axis] - w.pad_begin[axis];
}
