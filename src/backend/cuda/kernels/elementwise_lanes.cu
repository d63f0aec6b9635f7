// Chains of elementwise functions of coordinates: the output's innermost axis has two elements or four, and a thread's eight neighbours
// run over the axes around it, too.
//
// The host turns and joins axes as for elementwise.cu, whose struct this is. It launches these kernels where the results of the axes
// along which a thread's eight lie are side by side, in whole eights, and elements are numbered in 31 bits. The bits of a lane's number
// are, from the lowest on, `length` of its coordinate on axis 0, `group` of that on axis 1 and `padding` of that on axis 2, three in all:
// 1 and 2, 2 and 1, or one each. The extents count the lanes of a thread along an axis as one.
#include "chain.cuh"
#include "divide.cuh"
#include "elementwise.cuh"
#include "elementwise_chain.cuh"
#include "elementwise_halves.cuh"
#include "parameters.cuh"

// Coordinates of a thread's first lane but that on axis 0, which is 0.
struct First {
    u32 at[MAX_RANK - 1];
};

__device__ __forceinline__ i32 place_of(const i64 (&strides)[MAX_RANK], const First& first) {
    u32 element = 0;
#pragma unroll
    for (u32 axis = 1; axis < MAX_RANK; ++axis) element += first.at[axis - 1] * static_cast<u32>(strides[axis]);
    return static_cast<i32>(element);
}

template <typename T>
__device__ __forceinline__ void load_apart(u64 from, const i32 (&steps)[3], T (&v)[8]) {
#pragma unroll
    for (u32 i = 0; i < 8; ++i) v[i] = *pointer_to<T>(from, (i & 1 ? steps[0] : 0) + (i & 2 ? steps[1] : 0) + (i & 4 ? steps[2] : 0));
}

__device__ __forceinline__ void load_lanes(const Elementwise& p, const TailOperand& o, const First& first, float (&v)[8]) {
    const u64 from = o.address + static_cast<i64>(place_of(o.strides, first)) * (o.dtype == F16 ? 2 : 4);
    const i32 inner = static_cast<i32>(o.strides[0]), next = static_cast<i32>(o.strides[1]);
    // From a lane to that whose number has one bit more.
    const i32 steps[3] = {inner, p.length == 1 ? next : 2 * inner,
                          p.padding == 1 ? static_cast<i32>(o.strides[2]) : p.group == 1 ? next : 2 * next};
    const bool even = steps[1] == 2 * inner && steps[2] == 4 * inner;
    if (even && inner == 0) {
        load_run(from, o.dtype, 0, 0, 8, v);
    } else if (even && inner == 1 && from % 16 == 0) {
        load_run(from, o.dtype, 0, 1, 8, v);
    } else if (o.dtype == F16) {
        u16 halves[8];
        load_apart(from, steps, halves);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) v[i] = half_to_float(halves[i]);
    } else {
        load_apart(from, steps, v);
    }
}

// Any function. Each is a loop of its own: what it is, is asked once.
struct Any {
    template <u32 N>
    __device__ __forceinline__ void operator()(const TailCall& call, bool halves, float (&a)[N], const float (&b)[N]) const {
        if (call.function < TAIL_ADD) return chain_unary(call, halves, a);
        const auto each = [&](auto f) {
#pragma unroll
            for (u32 i = 0; i < N; ++i) a[i] = f(a[i], b[i]);
        };
        switch (call.function) {
            case TAIL_ADD: return each([](float x, float y) { return __fadd_rn(x, y); });
            case TAIL_SUB: return each([](float x, float y) { return __fsub_rn(x, y); });
            case TAIL_MUL: return each([](float x, float y) { return __fmul_rn(x, y); });
            case TAIL_DIV: return each([](float x, float y) { return __fdiv_rn(x, y); });
            default: {
                float v[N];
                tail_binary(call.function, a, b, v);
#pragma unroll
                for (u32 i = 0; i < N; ++i) a[i] = v[i];
            }
        }
    }
};

template <typename Functions>
__device__ __forceinline__ void elementwise_over(const Elementwise& p) {
    const auto find = [&](u32 tile, First& first) {
        const u32 index = tile * ELEMENTWISE_THREADS + threadIdx.x;
        u32 rest = index < p.count ? index : 0;
#pragma unroll
        for (u32 axis = 1; axis < MAX_RANK; ++axis) {
            const u32 above = axis + 1 < MAX_RANK ? divide(rest, p.extents[axis]) : 0;
            const u32 lanes = axis == 1 ? p.group : axis == 2 ? p.padding : 0;
            first.at[axis - 1] = (rest - above * p.extents[axis].divisor) << lanes;
            rest = above;
        }
        return index < p.count;
    };
    First first;
    bring_around(p, p.tail);
    bool present = find(blockIdx.x, first);
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        if (tile != blockIdx.x) present = find(tile, first);
        if (!present) continue;
        float values[8];
        touch_operands(p.tail, [&](const TailOperand& o, auto touch_at) { touch_at(place_of(o.strides, first)); });
        walk_chain(p, [&](const TailOperand& o, float(&v)[8]) { load_lanes(p, o, first, v); }, Functions(), values);
        store_run(p.y.address, p.y.dtype, place_of(p.y.strides, first), 8, values);
    }
}

// With the number of blocks left open, the compiler takes 64 registers for any function, and has to put some away.
#define ELEMENTWISE(NAME, FUNCTIONS, BLOCKS)                                                                            \
    extern "C" __global__ void __launch_bounds__(ELEMENTWISE_THREADS, BLOCKS) NAME(const __grid_constant__ Elementwise p) { \
        elementwise_over<FUNCTIONS>(p);                                                                             \
    }

ELEMENTWISE(elementwise_lanes, Any, 3)
ELEMENTWISE(elementwise_lanes_brief, Brief, 6)
