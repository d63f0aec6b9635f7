// Which taps of a pooling window lie inside, and by what an average is divided.
#pragma once

#include "window.cuh"

// Positions of taps 0..count of a window along one axis, of which those from `first` to `end` are below `limit`.
__device__ __forceinline__ u32 taps_below(const Window& w, u32 axis, i64 at, i64 limit) {
    const i64 room = limit - at;
    if (room <= 0) return 0;
    const u32 taps = static_cast<u32>((room + w.dilation[axis] - 1) / w.dilation[axis]);
    return taps < w.kernel[axis] ? taps : w.kernel[axis];
}

// The taps of a window that lie inside a picture of `height` by `width` pixels, and where the first tap would lie.
struct LiveTaps {
    i64 top, left;
    u32 row_first, row_end, column_first, column_end;

    __device__ __forceinline__ LiveTaps(const Window& w, u32 row, u32 pixel, u32 height, u32 width)
        : top(landing(w, 0, row, 0)), left(landing(w, 1, pixel, 0)), row_first(taps_below(w, 0, top, 0)), row_end(taps_below(w, 0, top, height)),
          column_first(taps_below(w, 1, left, 0)), column_end(taps_below(w, 1, left, width)) {}

    __device__ __forceinline__ u32 rows() const { return row_end - row_first; }
    __device__ __forceinline__ u32 columns() const { return column_end - column_first; }

    // Positions that an average counts: those inside, or those in the declared padding, too.
    __device__ __forceinline__ float divisor(const Window& w, u32 height, u32 width, bool count_pad) const {
        u32 count = rows() * columns();
        if (count_pad) {
            count = taps_below(w, 0, top, static_cast<i64>(height) + w.pad_end[0]) * taps_below(w, 1, left, static_cast<i64>(width) + w.pad_end[1]);
        }
        return static_cast<float>(count);
    }
};
