// Camera images of any pixel format, read pixel by pixel as red, green and blue.
//
// NV12 is converted as OpenCV's cvtColor does: BT.601 limited range in fixed point of 20 bits, each chroma sample for the two
// by two pixels it stands in.
#pragma once

#include "slot.cuh"

// The host's numbers of the pixel formats.
enum PixelFormat : u32 { RGB8 = 1, BGR8 = 2, GRAY8 = 3, NV12 = 4 };

// A camera of the slot: its entry in the slot's block, and the memory that holds its newest image.
struct Source {
    const Camera* camera;
    const u8* image;
    u64 bytes;
};

static_assert(sizeof(Source) == 24, "mirrored in bind/vision/source.rs");

// An image that lies inside its camera's bytes; format 0 where there is none.
struct Picture {
    const u8* bytes;
    u64 stride;
    u32 width;
    u32 height;
    u32 format;
};

struct Pixel {
    i32 value[3];
};

// The image that the slot's block describes. Whatever the block holds, every pixel of the picture lies inside the memory:
// an image that would reach beyond it is no image.
__device__ __forceinline__ Picture picture_of(const Source& source) {
    const Camera camera = *source.camera;
    Picture none = {nullptr, 0, 0, 0, 0};
    const bool packed = camera.format == RGB8 || camera.format == BGR8;
    if (!packed && camera.format != GRAY8 && camera.format != NV12) return none;
    const u64 row = packed ? 3 * u64(camera.width) : u64(camera.width);
    if (camera.width == 0 || camera.height == 0 || camera.stride < row) return none;
    u64 rows = camera.height;
    if (camera.format == NV12) {
        if (camera.width % 2 != 0 || camera.height % 2 != 0) return none;
        rows += rows / 2;
    }
    if (__umul64hi(rows - 1, camera.stride) != 0) return none;
    const u64 before = (rows - 1) * camera.stride;
    if (before > source.bytes || row > source.bytes - before) return none;
    return {source.image, camera.stride, camera.width, camera.height, camera.format};
}

__device__ __forceinline__ i32 clamp_to_byte(i32 value) {
    return min(max(value, 0), 255);
}

// The standard's matrix (1.164, 1.596, 0.813, 0.391, 2.018) times 2^20, rounded to nearest.
__device__ __forceinline__ Pixel from_luma_and_chroma(i32 luma, i32 cb, i32 cr) {
    const i32 y = max(luma - 16, 0) * 1220542 + (1 << 19);
    const i32 u = cb - 128;
    const i32 v = cr - 128;
    return {clamp_to_byte((y + 1673527 * v) >> 20), clamp_to_byte((y - 852492 * v - 409993 * u) >> 20),
            clamp_to_byte((y + 2116026 * u) >> 20)};
}

// The pixel in column x < width of row y < height.
__device__ __forceinline__ Pixel pixel_at(const Picture& picture, u32 x, u32 y) {
    const u8* row = picture.bytes + y * picture.stride;
    if (picture.format == NV12) {
        const u8* chroma = picture.bytes + (u64(picture.height) + y / 2) * picture.stride + (x & ~1u);
        return from_luma_and_chroma(__ldg(row + x), __ldg(chroma), __ldg(chroma + 1));
    }
    if (picture.format == GRAY8) {
        const i32 grey = __ldg(row + x);
        return {grey, grey, grey};
    }
    const u8* pixel = row + 3 * u64(x);
    const i32 first = __ldg(pixel);
    const i32 second = __ldg(pixel + 1);
    const i32 third = __ldg(pixel + 2);
    return picture.format == RGB8 ? Pixel{first, second, third} : Pixel{third, second, first};
}

// Stores a result as the tensor's element type.
__device__ __forceinline__ void store(float* to, float value) {
    *to = value;
}

__device__ __forceinline__ void store(u16* to, float value) {
    *to = float_to_half(value);
}
