// Primitives that compute nothing over neighbours: elementwise functions, copies, padding, nearest resizing, gathering.
#include "chain.cuh"
#include "generic.cuh"

struct GenericMap {
    Generic common;
    TailCall head;  // both inputs in memory
    u32 copy;       // the head is its first input as it is
    u32 padding;
};

static_assert(sizeof(GenericMap) == sizeof(Generic) + 152 + 8, "mirrored in bind/generic/map.rs");

extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_map(const __grid_constant__ GenericMap p) {
    wait_for_predecessors();
    release_successors();
    every_element(p.common, [&](const u32(&at)[MAX_RANK]) {
        const auto read = [&](const TailOperand& o) { return load_scalar(o.address, o.dtype, element_of(o.strides, at)); };
        const Scalar a = read(p.head.a);
        if (p.copy) return a;
        return p.head.function < TAIL_ADD ? unary_scalar(p.head, a) : binary_scalar(p.head.function, a, read(p.head.b));
    });
}

// No table: positions stay as they are.
constexpr u32 NO_TABLE = 0xffffffffu;

struct GenericRemap {
    Generic common;
    View x;
    u64 tables;             // i32 input positions; -1 outside the input
    u32 table[MAX_RANK];    // first entry of an axis, or NO_TABLE
    float outside;
    u32 padding;
};

static_assert(sizeof(GenericRemap) == sizeof(Generic) + 88 + 8 + 24 + 8, "mirrored in bind/generic/map.rs");

extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_remap(const __grid_constant__ GenericRemap p) {
    wait_for_predecessors();
    release_successors();
    every_element(p.common, [&](const u32(&at)[MAX_RANK]) {
        i64 element = 0;
        bool inside = true;
#pragma unroll
        for (u32 axis = 0; axis < MAX_RANK; ++axis) {
            i32 position = static_cast<i32>(at[axis]);
            if (p.table[axis] != NO_TABLE) position = *pointer_to<i32>(p.tables, static_cast<i64>(p.table[axis]) + at[axis]);
            inside = inside && position >= 0;
            element += static_cast<i64>(position) * p.x.strides[axis];
        }
        if (inside) return load_scalar(p.x.address, p.x.dtype, element);
        return is_real(p.x.dtype) ? of_float(p.outside) : of_int(float_to_int(p.outside));
    });
}

struct GenericGather {
    Generic common;
    View data;     // strides as the output's axes see them, 0 along the indices'
    View indices;  // the same, 0 along the data's
    i64 step;      // of the data along the gathered axis
    u32 extent;    // of that axis
    u32 padding;
};

static_assert(sizeof(GenericGather) == sizeof(Generic) + 2 * 88 + 16, "mirrored in bind/generic/map.rs");

// Negative indices count from the end; indices outside are clamped.
__device__ __forceinline__ i64 gathered_element(const GenericGather& p, const u32 (&at)[MAX_RANK]) {
    i64 index = as_int(load_scalar(p.indices.address, p.indices.dtype, element_of(p.indices.strides, at)));
    const i64 last = static_cast<i64>(p.extent) - 1;
    if (index < 0) index += p.extent;
    index = index < 0 ? 0 : index > last ? last : index;
    return element_of(p.data.strides, at) + index * p.step;
}

extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_gather(const __grid_constant__ GenericGather p) {
    wait_for_predecessors();
    release_successors();
    every_element(p.common, [&](const u32(&at)[MAX_RANK]) {
        return load_scalar(p.data.address, p.data.dtype, gathered_element(p, at));
    });
}

// Copies 16 bytes a thread: the box, the strides and the step count in pieces of 16 bytes. There is no tail.
extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_gather_wide(const __grid_constant__ GenericGather p) {
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.common.tiles; tile += gridDim.x) {
        const u32 index = tile * GENERIC_THREADS + threadIdx.x;
        if (index >= p.common.box.count) continue;
        u32 at[MAX_RANK];
        coordinates(p.common.box, index, at);
        uint4* const y = reinterpret_cast<uint4*>(p.common.y.address);
        y[element_of(p.common.y.strides, at)] = reinterpret_cast<const uint4*>(p.data.address)[gathered_element(p, at)];
    }
}

struct GenericGatherAdded {
    GenericGather gather;  // in pieces of 16 bytes, which are 8 halves
    View added;            // constants as the output's axes see them, in pieces, too
};

static_assert(sizeof(GenericGatherAdded) == sizeof(GenericGather) + 88, "mirrored in bind/generic/gather.rs");

// The same with constants added: embeddings and their positions.
extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) generic_gather_added(const __grid_constant__ GenericGatherAdded p) {
    const Generic& g = p.gather.common;
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 index = tile * GENERIC_THREADS + threadIdx.x;
        const bool present = index < g.box.count;
        u32 at[MAX_RANK];
        coordinates(g.box, present ? index : 0, at);
        const uint4 constants = reinterpret_cast<const uint4*>(p.added.address)[element_of(p.added.strides, at)];
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        if (!present) continue;
        float values[8], added[8];
        widen(constants, added);
        widen(reinterpret_cast<const uint4*>(p.gather.data.address)[gathered_element(p.gather, at)], values);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) values[i] = __fadd_rn(values[i], added[i]);
        store_run(g.y.address, F16, 8 * element_of(g.y.strides, at), 8, values);
    }
}
