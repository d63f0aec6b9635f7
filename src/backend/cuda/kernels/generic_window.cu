// Convolution, transposed convolution and pooling over any layouts.
#include "chain.cuh"
#include "generic.cuh"
#include "window.cuh"

struct GenericConv {
    Generic common;
    View x;
    View w;
    View bias;
    Window window;
    Divisor wide;     // output channels of a group
    u32 depth;        // input channels of a group
    u32 transposed;
    u32 splits;       // ranges of the channels of one tap, summed on their own and then in order
    u32 share;        // channels of a range
    u32 padding;
};

static_assert(sizeof(GenericConv) == sizeof(Generic) + 3 * 88 + 64 + 32, "mirrored in bind/generic/window.rs");

// One fused multiply-add for each tap, in row-major order, and each channel, ascending; what is outside the input is 0.
// A transposed convolution meets the taps of its phase only.
extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_conv(const __grid_constant__ GenericConv p) {
    wait_for_predecessors();
    release_successors();
    every_element(p.common, [&](const u32(&at)[MAX_RANK]) {
        const u32 group = divide(at[1], p.wide);
        const u32 inside_group = at[1] - group * p.wide.divisor;
        const i64 first_channel = static_cast<i64>(group) * p.depth;
        const i64 batch = static_cast<i64>(at[0]) * p.x.strides[0] + first_channel * p.x.strides[1];
        // `[O, C / g, k..]`, or transposed `[C, O / g, k..]`.
        const i64 weights = p.transposed ? inside_group * p.w.strides[1] + first_channel * p.w.strides[0] : at[1] * p.w.strides[0];
        const i64 weight_step = p.w.strides[p.transposed ? 0 : 1];
        const bool biased = p.bias.address != 0;
        const float bias = biased ? load_float(p.bias.address, p.bias.dtype, at[1] * p.bias.strides[0]) : 0.0f;
        float sum = p.splits > 1 ? 0.0f : bias;
        // Along one axis: whether the tap is met, whether it lands inside, and where.
        const auto meet = [&](u32 axis, u32 tap, bool& inside, i64& element) {
            if (axis >= p.window.axes) return true;
            i64 position = landing(p.window, axis, at[axis + 2], tap);
            if (p.transposed) {
                const i64 lands = static_cast<i64>(at[axis + 2]) + p.window.pad_begin[axis] - static_cast<i64>(tap) * p.window.dilation[axis];
                const i64 stride = p.window.stride[axis];
                position = lands >= 0 ? lands / stride : -((stride - 1 - lands) / stride);
                if (position * stride != lands) return false;
            }
            inside = inside && position >= 0 && position < p.x.extents[axis + 2];
            element += position * p.x.strides[axis + 2];
            return true;
        };
        for (u32 t0 = 0; t0 < p.window.kernel[0]; ++t0) {
            for (u32 t1 = 0; t1 < p.window.kernel[1]; ++t1) {
                for (u32 t2 = 0; t2 < p.window.kernel[2]; ++t2) {
                    bool inside = true;
                    i64 from = batch;
                    if (!meet(0, t0, inside, from) || !meet(1, t1, inside, from) || !meet(2, t2, inside, from)) continue;
                    const i64 tap = t0 * p.w.strides[2] + t1 * p.w.strides[3] + t2 * p.w.strides[4];
                    const auto add = [&](float partial, u32 first, u32 end) {
                        for (u32 c = first; c < end; ++c) {
                            const float x = inside ? load_float(p.x.address, p.x.dtype, from + c * p.x.strides[1]) : 0.0f;
                            const float w = load_float(p.w.address, p.w.dtype, weights + tap + c * weight_step);
                            partial = __fmaf_rn(x, w, partial);
                        }
                        return partial;
                    };
                    if (p.splits <= 1) {
                        sum = add(sum, 0, p.depth);
                        continue;
                    }
                    for (u32 first = 0; first < p.depth; first += p.share) {
                        const float partial = add(0.0f, first, first + p.share < p.depth ? first + p.share : p.depth);
                        sum = first == 0 ? partial : __fadd_rn(sum, partial);
                    }
                }
            }
        }
        return of_float(p.splits > 1 && biased ? __fadd_rn(sum, bias) : sum);
    });
}

struct GenericPool {
    Generic common;
    View x;
    View indices;      // where the winners' flat indices go; address 0 for nowhere
    Window window;
    u32 average;
    u32 count_pad;     // of an average: positions in the declared padding count
    u32 column_major;  // order of the flat indices over the spatial axes
    u32 padding;
};

static_assert(sizeof(GenericPool) == sizeof(Generic) + 2 * 88 + 64 + 16, "mirrored in bind/generic/window.rs");

// Taps in row-major order. Padding never wins a maximum; the first of equals does, and a NaN beats every number.
extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_pool(const __grid_constant__ GenericPool p) {
    wait_for_predecessors();
    release_successors();
    every_element(p.common, [&](const u32(&at)[MAX_RANK]) {
        const i64 base = static_cast<i64>(at[0]) * p.x.strides[0] + static_cast<i64>(at[1]) * p.x.strides[1];
        const bool real = is_real(p.x.dtype);
        // Flat index steps: row-major, or column-major over the spatial axes.
        i64 pitch[3] = {0, 0, 0};
        i64 elements = 1;
        for (u32 i = 0; i < p.window.axes; ++i) {
            const u32 axis = p.column_major ? i : p.window.axes - 1 - i;
            pitch[axis] = elements;
            elements *= p.x.extents[axis + 2];
        }
        Scalar best = real ? of_float(__uint_as_float(0xff800000u)) : of_int(p.x.dtype == I32 ? static_cast<i32>(0x80000000u) : 0);
        bool fresh = true;
        i64 winner = 0;
        float sum = 0.0f;
        u32 count = 0;
        for (u32 t0 = 0; t0 < p.window.kernel[0]; ++t0) {
            for (u32 t1 = 0; t1 < p.window.kernel[1]; ++t1) {
                for (u32 t2 = 0; t2 < p.window.kernel[2]; ++t2) {
                    const u32 taps[3] = {t0, t1, t2};
                    bool inside = true, padded = true;
                    i64 element = base;
                    i64 flat = (static_cast<i64>(at[0]) * p.x.extents[1] + at[1]) * elements;
#pragma unroll
                    for (u32 axis = 0; axis < 3; ++axis) {
                        if (axis >= p.window.axes) continue;
                        const i64 position = landing(p.window, axis, at[axis + 2], taps[axis]);
                        const i64 extent = p.x.extents[axis + 2];
                        inside = inside && position >= 0 && position < extent;
                        padded = padded && position < extent + p.window.pad_end[axis];
                        element += position * p.x.strides[axis + 2];
                        flat += position * pitch[axis];
                    }
                    count += p.count_pad ? padded : inside;
                    if (!inside) continue;
                    const Scalar value = load_scalar(p.x.address, p.x.dtype, element);
                    if (p.average) {
                        sum = __fadd_rn(sum, as_float(value));
                        continue;
                    }
                    const float a = __uint_as_float(value.bits), b = __uint_as_float(best.bits);
                    const bool beats = real ? a > b || (a != a && b == b) : static_cast<i32>(value.bits) > static_cast<i32>(best.bits);
                    if (fresh || beats) {
                        fresh = false;
                        best = value;
                        winner = flat;
                    }
                }
            }
        }
        if (p.average) return of_float(__fdiv_rn(sum, static_cast<float>(count)));
        if (p.indices.address != 0) {
            store_scalar(p.indices.address, p.indices.dtype, element_of(p.indices.strides, at), of_int(static_cast<i32>(winner)));
        }
        return best;
    });
}
