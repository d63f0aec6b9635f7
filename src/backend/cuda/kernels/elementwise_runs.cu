// Chains of elementwise functions of tensors that lie as their results do, or repeat themselves: RUNS runs of eight neighbours a
// thread, so that what a call is and where its operands lie is looked up once for all of them.
//
// The host joins axes as for elementwise.cu, whose struct this is. It launches these kernels where eight neighbours along axis 0 lie on
// 16 bytes in every tensor that does not repeat them, and elements are numbered in 31 bits; those named `far` where more than three
// axes are left. A stride of -1 along axis 0 says that a tensor has the two neighbours of every pair changed round.
#include "chain.cuh"
#include "divide.cuh"
#include "elementwise.cuh"
#include "elementwise_chain.cuh"
#include "elementwise_halves.cuh"
#include "parameters.cuh"

constexpr u32 NEAR = 3;  // axes that most chains have left

// Where the runs of a thread lie; those behind the last are at the first element, and nothing of them is stored.
template <u32 RUNS, u32 AXES>
struct Places {
    u32 at[RUNS][AXES];  // axis 0 in elements
    u32 present;         // a bit a run
};

template <u32 RUNS, u32 AXES>
__device__ __forceinline__ i32 place_of(const i64 (&strides)[MAX_RANK], const Places<RUNS, AXES>& places, u32 run) {
    u32 element = strides[0] == 0 ? 0 : places.at[run][0];
#pragma unroll
    for (u32 axis = 1; axis < AXES; ++axis) element += places.at[run][axis] * static_cast<u32>(strides[axis]);
    return static_cast<i32>(element);
}

template <u32 RUNS, u32 AXES>
__device__ __forceinline__ void load_runs(const TailOperand& o, const Places<RUNS, AXES>& places, float (&v)[8 * RUNS]) {
    if (o.strides[0] == 0) {
        float one[RUNS];
#pragma unroll
        for (u32 r = 0; r < RUNS; ++r) {
            const i32 element = place_of(o.strides, places, r);
            one[r] = o.dtype == F16 ? half_to_float(*pointer_to<u16>(o.address, element)) : *pointer_to<float>(o.address, element);
        }
#pragma unroll
        for (u32 i = 0; i < 8 * RUNS; ++i) v[i] = one[i / 8];
    } else if (o.dtype == F16) {
        uint4 bits[RUNS];
#pragma unroll
        for (u32 r = 0; r < RUNS; ++r) {
            bits[r] = *reinterpret_cast<const uint4*>(pointer_to<u16>(o.address, place_of(o.strides, places, r)));
        }
#pragma unroll
        for (u32 r = 0; r < RUNS; ++r) {
            float wide[8];
            widen(bits[r], wide);
#pragma unroll
            for (u32 i = 0; i < 8; ++i) v[8 * r + i] = wide[i];
        }
    } else {
        float4 bits[2 * RUNS];
#pragma unroll
        for (u32 r = 0; r < 2 * RUNS; ++r) {
            bits[r] = reinterpret_cast<const float4*>(pointer_to<float>(o.address, place_of(o.strides, places, r / 2)))[r % 2];
        }
#pragma unroll
        for (u32 r = 0; r < 2 * RUNS; ++r) v[4 * r] = bits[r].x, v[4 * r + 1] = bits[r].y, v[4 * r + 2] = bits[r].z, v[4 * r + 3] = bits[r].w;
    }
    if (o.strides[0] < 0) {
#pragma unroll
        for (u32 i = 0; i < 8 * RUNS; i += 2) {
            const float first = v[i];
            v[i] = v[i + 1], v[i + 1] = first;
        }
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

template <u32 RUNS, u32 AXES, typename Functions>
__device__ __forceinline__ void elementwise_runs(const Elementwise& p) {
    const auto find = [&](u32 tile, Places<RUNS, AXES>& places) {
        places.present = 0;
#pragma unroll
        for (u32 r = 0; r < RUNS; ++r) {
            const u32 index = (tile * RUNS + r) * ELEMENTWISE_THREADS + threadIdx.x;
            places.present |= index < p.count ? 1u << r : 0u;
            u32 rest = index < p.count ? index : 0;
#pragma unroll
            for (u32 axis = 0; axis < AXES; ++axis) {
                const u32 above = axis + 1 < AXES ? divide(rest, p.extents[axis]) : 0;
                places.at[r][axis] = (rest - above * p.extents[axis].divisor) * (axis == 0 ? 8 : 1);
                rest = above;
            }
        }
    };
    Places<RUNS, AXES> places;
    bring_around(p, p.tail);
    find(blockIdx.x, places);
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        if (tile != blockIdx.x) find(tile, places);
        float values[8 * RUNS];
        touch_operands(p.tail, [&](const TailOperand& o, auto touch_at) {
#pragma unroll
            for (u32 r = 0; r < RUNS; ++r) touch_at(place_of(o.strides, places, r));
        });
        walk_chain(p, [&](const TailOperand& o, float(&v)[8 * RUNS]) { load_runs(o, places, v); }, Functions(), values);
#pragma unroll
        for (u32 r = 0; r < RUNS; ++r) {
            if (!(places.present >> r & 1)) continue;
            float v[8];
#pragma unroll
            for (u32 i = 0; i < 8; ++i) v[i] = values[8 * r + i];
            store_run(p.y.address, p.y.dtype, place_of(p.y.strides, places, r), 8, v);
        }
    }
}

#define ELEMENTWISE(NAME, RUNS, AXES, FUNCTIONS, BLOCKS)                                                                \
    extern "C" __global__ void __launch_bounds__(ELEMENTWISE_THREADS, BLOCKS) NAME(const __grid_constant__ Elementwise p) { \
        elementwise_runs<RUNS, AXES, FUNCTIONS>(p);                                                                 \
    }

ELEMENTWISE(elementwise_ones, 1, NEAR, Any, 1)
ELEMENTWISE(elementwise_pairs, 2, NEAR, Any, 2)
ELEMENTWISE(elementwise_fours, 4, NEAR, Any, 2)
ELEMENTWISE(elementwise_far_ones, 1, MAX_RANK, Any, 1)
ELEMENTWISE(elementwise_far_pairs, 2, MAX_RANK, Any, 2)
ELEMENTWISE(elementwise_brief_ones, 1, NEAR, Brief, 1)
ELEMENTWISE(elementwise_brief_pairs, 2, NEAR, Brief, 2)
ELEMENTWISE(elementwise_brief_far_ones, 1, MAX_RANK, Brief, 1)
ELEMENTWISE(elementwise_brief_far_pairs, 2, MAX_RANK, Brief, 2)
