// Where a picture lands in a network's input; the host's Fit::place, operation for operation.
#pragma once

#include "types.cuh"

// The host's numbers of the fits (bind/vision/source.rs).
enum Fit : u32 { STRETCH = 0, LETTERBOX_TOP_LEFT = 1, LETTERBOX_CENTRED = 2 };

struct Placement {
    u32 x;
    u32 y;
    u32 width;
    u32 height;
    float scale_x;
    float scale_y;
};

// A scaled side in whole pixels, at least 1 and at most the input's side.
__device__ __forceinline__ u32 scaled_side(double side, double ratio, u32 target) {
    return min(max(__double2uint_rz(__dmul_rn(side, ratio)), 1u), max(target, 1u));
}

// Places a picture of source_width by source_height into an input of target_width by target_height.
__device__ __forceinline__ Placement place(u32 fit, u32 source_width, u32 source_height, u32 target_width, u32 target_height) {
    const double width = max(source_width, 1u);
    const double height = max(source_height, 1u);
    const double along_x = __ddiv_rn(target_width, width);
    const double along_y = __ddiv_rn(target_height, height);
    if (fit == STRETCH) {
        return {0, 0, target_width, target_height, __double2float_rn(along_x), __double2float_rn(along_y)};
    }
    const double ratio = along_x < along_y ? along_x : along_y;
    const float scale = __double2float_rn(ratio);
    Placement placed = {0, 0, scaled_side(width, ratio, target_width), scaled_side(height, ratio, target_height), scale, scale};
    if (fit == LETTERBOX_CENTRED) {
        placed.x = (target_width - min(placed.width, target_width)) / 2;
        placed.y = (target_height - min(placed.height, target_height)) / 2;
    }
    return placed;
}
