// What a frame knows of itself and of its images: the slot's block, copied to the device at the start of each frame.
#pragma once

#include "types.cuh"

constexpr u32 MAX_CAMERAS = 16;

// A camera's newest image. Any contents are possible: kernels clamp sizes to the bytes that the image's buffer has.
struct Camera {
    u64 frame;   // the frame it was submitted with
    u32 width;   // pixels, 0 before the first image
    u32 height;  // pixels
    u32 stride;  // bytes from row to row
    u32 format;  // the host's number of the pixel format, 0 before the first image
    u64 padding;
};

struct SlotBlock {
    u64 frame;
    u32 skip;  // bit set of tenants without input
    u32 sent;  // bit set of tenants whose tensor inputs are in the device's memory already
    Camera cameras[MAX_CAMERAS];
};

static_assert(sizeof(Camera) == 32 && sizeof(SlotBlock) == 16 + 32 * MAX_CAMERAS, "mirrored in bind/views.rs");
