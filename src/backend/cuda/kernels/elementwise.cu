// Chains of elementwise functions, and copies, of floats: eight neighbours a thread along the output's innermost axis.
//
// The host turns the axes so that axis 0 is the innermost, joins those that lie behind each other in all tensors, and puts
// the chunk's first element into the addresses: coordinates count from the chunk on.
#include "divide.cuh"
#include "tail.cuh"

constexpr u32 ELEMENTWISE_THREADS = 256;

struct Elementwise {
    View y;
    TailCall head;               // both inputs in memory
    Tail tail;
    Divisor extents[MAX_RANK];   // of the axes; [0] in groups of 8
    u32 length;                  // of axis 0, in elements
    u32 copy;                    // the head is its first input as it is
    u32 count;                   // groups
    u32 tiles;                   // of ELEMENTWISE_THREADS groups
};

static_assert(sizeof(Elementwise) == 88 + 152 + 1080 + 72 + 16, "mirrored in bind/elementwise.rs");

extern "C" __global__ void __launch_bounds__(ELEMENTWISE_THREADS) elementwise(const __grid_constant__ Elementwise p) {
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = tile * ELEMENTWISE_THREADS + threadIdx.x;
        if (index >= p.count) continue;
        u32 at[MAX_RANK];
        u32 rest = index;
#pragma unroll
        for (u32 axis = 0; axis < MAX_RANK; ++axis) {
            const u32 above = divide(rest, p.extents[axis]);
            at[axis] = rest - above * p.extents[axis].divisor;
            rest = above;
        }
        at[0] *= 8;
        const u32 left = p.length - at[0], count = left < 8 ? left : 8;
        float a[8], v[8];
        tail_load(p.head.a, count, at, 0, a);
        if (!p.copy) {
            if (p.head.function < TAIL_ADD) {
                tail_unary(p.head, a);
            } else {
                float b[8];
                tail_load(p.head.b, count, at, 0, b);
                tail_binary(p.head.function, a, b, v);
#pragma unroll
                for (u32 i = 0; i < 8; ++i) a[i] = v[i];
            }
        }
        tail_run(p.tail, a, count, at, 0);
        store_run(p.y.address, p.y.dtype, element_of(p.y.strides, at), count, a);
    }
}
