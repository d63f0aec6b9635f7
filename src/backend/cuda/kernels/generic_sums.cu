// Primitives that sum: matrix products, reductions, linear and cubic resizing, over any layouts.
#include "chain.cuh"
#include "generic.cuh"

struct GenericMatMul {
    Generic common;
    View a;         // stride 0 along the output's columns
    View b;         // stride 0 along the output's rows
    View bias;      // of the output's shape; address 0 for none
    i64 a_step;     // from one k to the next
    i64 b_step;
    u32 depth;      // of K
    u32 splits;     // ranges of K, summed on their own and then in order
    u32 share;      // of K in a range
    u32 padding;
};

static_assert(sizeof(GenericMatMul) == sizeof(Generic) + 3 * 88 + 32, "mirrored in bind/generic/sums.rs");

// One range of K runs from the bias on; of several, each runs from 0, and the bias comes last.
extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_matmul(const __grid_constant__ GenericMatMul p) {
    wait_for_predecessors();
    release_successors();
    every_element(p.common, [&](const u32(&at)[MAX_RANK]) {
        const i64 a = element_of(p.a.strides, at), b = element_of(p.b.strides, at);
        const bool biased = p.bias.address != 0;
        const float bias = biased ? load_float(p.bias.address, p.bias.dtype, element_of(p.bias.strides, at)) : 0.0f;
        const auto add = [&](float sum, u32 first, u32 end) {
            for (u32 k = first; k < end; ++k) {
                const float x = load_float(p.a.address, p.a.dtype, a + k * p.a_step);
                sum = __fmaf_rn(x, load_float(p.b.address, p.b.dtype, b + k * p.b_step), sum);
            }
            return sum;
        };
        if (p.splits <= 1) return of_float(add(bias, 0, p.depth));
        float sum = 0.0f;
        for (u32 first = 0; first < p.depth; first += p.share) {
            const float partial = add(0.0f, first, first + p.share < p.depth ? first + p.share : p.depth);
            sum = first == 0 ? partial : __fadd_rn(sum, partial);
        }
        return of_float(biased ? __fadd_rn(sum, bias) : sum);
    });
}

enum ReduceKind : u32 { REDUCE_MEAN = 0, REDUCE_MAX = 1, REDUCE_SUM = 2, REDUCE_NORM = 3 };

struct GenericReduce {
    Generic common;
    View x;
    Divisor extents[MAX_RANK];  // of the reduced axes; 1 for the others
    u64 count;                  // reduced elements of an output
    u32 kind;
    u32 share;                  // elements of a range, which are summed on their own and then in order
};

static_assert(sizeof(GenericReduce) == sizeof(Generic) + 88 + 72 + 16, "mirrored in bind/generic/sums.rs");

// Reduced elements one after another, in C order of the reduced axes.
extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_reduce(const __grid_constant__ GenericReduce p) {
    wait_for_predecessors();
    release_successors();
    every_element(p.common, [&](const u32(&at)[MAX_RANK]) {
        const i64 base = element_of(p.x.strides, at);
        const auto value = [&](u32 index) {
            i64 element = base;
            u32 rest = index;
#pragma unroll
            for (u32 i = 0; i < MAX_RANK; ++i) {
                const u32 axis = MAX_RANK - 1 - i;
                const u32 above = divide(rest, p.extents[axis]);
                element += static_cast<i64>(rest - above * p.extents[axis].divisor) * p.x.strides[axis];
                rest = above;
            }
            return load_scalar(p.x.address, p.x.dtype, element);
        };
        const u32 count = static_cast<u32>(p.count);
        const bool real = is_real(p.x.dtype);
        if (p.kind == REDUCE_MAX) {
            Scalar best = real ? of_float(__uint_as_float(0xff800000u)) : of_int(p.x.dtype == I32 ? static_cast<i32>(0x80000000u) : 0);
            for (u32 i = 0; i < count; ++i) {
                const Scalar x = value(i);
                const float a = __uint_as_float(x.bits), b = __uint_as_float(best.bits);
                if (real ? a > b || (a != a && b == b) : static_cast<i32>(x.bits) > static_cast<i32>(best.bits)) best = x;
            }
            return best;
        }
        if (!real) {
            u32 sum = 0;
            for (u32 i = 0; i < count; ++i) sum += value(i).bits;
            if (p.kind == REDUCE_SUM) return of_int(static_cast<i32>(sum));
            return of_int(static_cast<i32>(static_cast<i64>(static_cast<i32>(sum)) / static_cast<i64>(count > 0 ? count : 1)));
        }
        float sum = 0.0f;
        for (u32 first = 0; first < count; first += p.share) {
            float partial = 0.0f;
            const u32 end = first + p.share < count ? first + p.share : count;
            for (u32 i = first; i < end; ++i) {
                const float x = as_float(value(i));
                partial = p.kind == REDUCE_NORM ? __fmaf_rn(x, x, partial) : __fadd_rn(partial, x);
            }
            sum = first == 0 ? partial : __fadd_rn(sum, partial);
        }
        if (p.kind == REDUCE_NORM) return of_float(__fsqrt_rn(sum));
        return of_float(p.kind == REDUCE_MEAN ? __fdiv_rn(sum, static_cast<float>(p.count)) : sum);
    });
}

// A tap of a resize along one axis.
struct Tap {
    i32 position;  // -1 for an output outside a cropped input
    float weight;
};

struct GenericResample {
    Generic common;
    View x;
    u64 taps;               // tables of Tap, `counts` for each position of an axis
    u32 table[MAX_RANK];    // first entry of an axis
    u32 counts[MAX_RANK];   // 0 for an axis that is left as it is
    float outside;
    u32 padding;
};

static_assert(sizeof(GenericResample) == sizeof(Generic) + 88 + 8 + 48 + 8, "mirrored in bind/generic/sums.rs");

// Taps in row-major order of the axes; a tap's weight is the product of its axes' weights in axis order. The first tap is a
// product, every later one a fused multiply-add.
extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_resample(const __grid_constant__ GenericResample p) {
    wait_for_predecessors();
    release_successors();
    every_element(p.common, [&](const u32(&at)[MAX_RANK]) {
        u32 tap[MAX_RANK] = {0, 0, 0, 0, 0, 0};
        float sum = 0.0f;
        bool fresh = true;
        while (true) {
            i64 element = 0;
            float weight = 1.0f;
#pragma unroll
            for (u32 axis = 0; axis < MAX_RANK; ++axis) {
                i32 position = static_cast<i32>(at[axis]);
                if (p.counts[axis] != 0) {
                    const Tap t = *pointer_to<Tap>(p.taps, static_cast<i64>(p.table[axis]) + static_cast<i64>(at[axis]) * p.counts[axis] + tap[axis]);
                    if (t.position < 0) return of_float(p.outside);
                    position = t.position;
                    weight = __fmul_rn(weight, t.weight);
                }
                element += static_cast<i64>(position) * p.x.strides[axis];
            }
            const float value = load_float(p.x.address, p.x.dtype, element);
            sum = fresh ? __fmul_rn(weight, value) : __fmaf_rn(weight, value, sum);
            fresh = false;
            // The next tap: the last axis fastest.
            bool wrapped = true;
#pragma unroll
            for (u32 i = 0; i < MAX_RANK; ++i) {
                const u32 axis = MAX_RANK - 1 - i;
                if (wrapped && p.counts[axis] != 0) {
                    tap[axis] = tap[axis] + 1 == p.counts[axis] ? 0 : tap[axis] + 1;
                    wrapped = tap[axis] == 0;
                }
            }
            if (wrapped) return of_float(sum);
        }
    });
}
