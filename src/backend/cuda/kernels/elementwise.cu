// Chains of elementwise functions, and copies, of floats: eight neighbours a thread along one axis.
//
// The host turns the axes so that axis 0 is the output's innermost, joins those that lie behind each other in all tensors,
// and puts the chunk's first element into the addresses: coordinates count from the chunk on. The eight neighbours lie along
// axis 0; where a tensor is transposed, they lie along the axis on which the input's are side by side, while neighbouring
// threads go along axis 0: they read the same lines, and write whole ones.
#include "chain.cuh"
#include "elementwise.cuh"
#include "elementwise_chain.cuh"
#include "parameters.cuh"

__device__ __forceinline__ void apply_head(const Elementwise& p, u32 count, const u32 (&at)[MAX_RANK], float (&a)[8]) {
    tail_load(p.head.a, count, at, p.group, a);
    if (p.copy) return;
    if (p.head.function < TAIL_ADD) return tail_unary(p.head, a);
    float b[8], v[8];
    tail_load(p.head.b, count, at, p.group, b);
    tail_binary(p.head.function, a, b, v);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) a[i] = v[i];
}

template <bool BRIEF>
__device__ __forceinline__ void elementwise_any(const Elementwise& p) {
    bring_around(p, p.tail);
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = tile * ELEMENTWISE_THREADS + threadIdx.x;
        if (index >= p.count) continue;
        u32 at[MAX_RANK];
        u32 rest = index, first = 0;
#pragma unroll
        for (u32 axis = 0; axis < MAX_RANK; ++axis) {
            const u32 above = divide(rest, p.extents[axis]);
            at[axis] = rest - above * p.extents[axis].divisor;
            if (axis == p.group) first = at[axis] *= 8;
            rest = above;
        }
        const u32 left = p.length - first, count = left < 8 ? left : 8;
        float a[8];
        touch_operands(p.tail, [&](const TailOperand& o, auto touch_at) { touch_at(element_of(o.strides, at)); });
        if constexpr (BRIEF) {
            walk_chain(p, [&](const TailOperand& o, float(&v)[8]) { tail_load(o, count, at, p.group, v); }, Brief(), a);
        } else {
            apply_head(p, count, at, a);
            tail_run(p.tail, a, count, at, p.group);
        }
        store_run(p.y.address, p.y.dtype, element_of(p.y.strides, at), count, a, p.y.strides[p.group]);
    }
}

extern "C" __global__ void __launch_bounds__(ELEMENTWISE_THREADS) elementwise(const __grid_constant__ Elementwise p) { elementwise_any<false>(p); }
extern "C" __global__ void __launch_bounds__(ELEMENTWISE_THREADS) elementwise_brief(const __grid_constant__ Elementwise p) { elementwise_any<true>(p); }
