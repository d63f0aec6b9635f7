// Layer normalisation along one axis: sixteen threads a row.
//
// As on the CPU: the sum, then the sum of the squared differences from the mean, each in sixteen partial sums by the position
// modulo sixteen, folded in halves. Rows may have any length; the first values of a thread stay in registers between the sums.
// Results go eight neighbours at a time, so that the tail reads its scale and shift in whole groups.
#include "chain.cuh"
#include "generic.cuh"

struct Normalise {
    Generic common;  // the box has one position along the axis; tiles are of NORMALISE_ROWS rows
    View x;
    u32 extent;      // of the axis
    u32 axis;
    float epsilon;
    u32 padding;
};

static_assert(sizeof(Normalise) == sizeof(Generic) + 88 + 16, "mirrored in bind/normalise.rs");

constexpr u32 LANES = 16;
constexpr u32 NORMALISE_ROWS = GENERIC_THREADS / LANES;
constexpr u32 KEPT = 4;  // values of a thread in registers

// Partial sums of 16 lanes folded in halves: lane 0's result, in all lanes.
__device__ __forceinline__ float folded(float value) {
#pragma unroll
    for (u32 half = LANES / 2; half > 0; half /= 2) value = __fadd_rn(value, __shfl_down_sync(0xffffffffu, value, half, LANES));
    return __shfl_sync(0xffffffffu, value, 0, LANES);
}

extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) normalise(const __grid_constant__ Normalise p) {
    wait_for_predecessors();
    release_successors();
    const Generic& g = p.common;
    const u32 lane = threadIdx.x % LANES;
    const float count = static_cast<float>(p.extent);
    const i64 x_step = p.x.strides[p.axis], y_step = g.y.strides[p.axis];
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 row = tile * NORMALISE_ROWS + threadIdx.x / LANES;
        // Threads without a row take part in the exchange of the others.
        const bool present = row < g.box.count;
        u32 at[MAX_RANK];
        coordinates(g.box, present ? row : 0, at);
        const i64 from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
        const auto value = [&](u32 i) { return load_float(p.x.address, p.x.dtype, from + static_cast<i64>(i) * x_step); };
        float kept[KEPT];
#pragma unroll
        for (u32 k = 0; k < KEPT; ++k) kept[k] = lane + k * LANES < p.extent ? value(lane + k * LANES) : 0.0f;
        // Every value of this thread, in order.
        const auto each = [&](auto take) {
#pragma unroll
            for (u32 k = 0; k < KEPT; ++k) {
                if (lane + k * LANES < p.extent) take(kept[k]);
            }
#pragma unroll 4
            for (u32 i = lane + KEPT * LANES; i < p.extent; i += LANES) take(value(i));
        };
        float sum = 0.0f;
        each([&](float x) { sum = __fadd_rn(sum, x); });
        const float mean = __fdiv_rn(folded(sum), count);
        sum = 0.0f;
        each([&](float x) {
            const float difference = __fsub_rn(x, mean);
            sum = __fmaf_rn(difference, difference, sum);
        });
        const float deviation = __fsqrt_rn(__fadd_rn(__fdiv_rn(folded(sum), count), p.epsilon));
        if (!present) continue;
        for (u32 first = lane * 8; first < p.extent; first += LANES * 8) {
            const u32 left = p.extent - first, run = left < 8 ? left : 8;
            float v[8];
            load_run(p.x.address, p.x.dtype, from + static_cast<i64>(first) * x_step, x_step, run, v);
#pragma unroll
            for (u32 k = 0; k < 8; ++k) v[k] = __fdiv_rn(__fsub_rn(v[k], mean), deviation);
            u32 here[MAX_RANK];
#pragma unroll
            for (u32 axis = 0; axis < MAX_RANK; ++axis) here[axis] = axis == p.axis ? first : at[axis];
            tail_run(g.tail, v, run, here, p.axis);
            store_run(g.y.address, g.y.dtype, to + static_cast<i64>(first) * y_step, run, v, y_step);
        }
    }
}

// Rows of up to VALUES * LANES halves side by side, rounded, scaled by constants, rounded and shifted by constants.
// Everything but the row itself is there before the wait; a row is read once.
struct NormaliseAffine {
    Generic common;  // as Normalise's; the tail is not read
    View x;
    u64 scale;       // f16, side by side
    u64 shift;
    u32 extent;
    float epsilon;
};

static_assert(sizeof(NormaliseAffine) == sizeof(Generic) + 88 + 24, "mirrored in bind/normalise.rs");

template <u32 VALUES>
__device__ __forceinline__ void normalise_affine(const NormaliseAffine& p) {
    const Generic& g = p.common;
    const u32 lane = threadIdx.x % LANES;
    const float count = static_cast<float>(p.extent);
    float scale[VALUES], shift[VALUES];
#pragma unroll
    for (u32 k = 0; k < VALUES; ++k) {
        const u32 i = lane + k * LANES;
        scale[k] = i < p.extent ? half_to_float(pointer_to<u16>(p.scale, 0)[i]) : 0.0f;
        shift[k] = i < p.extent ? half_to_float(pointer_to<u16>(p.shift, 0)[i]) : 0.0f;
    }
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 row = tile * NORMALISE_ROWS + threadIdx.x / LANES;
        const bool present = row < g.box.count;
        u32 at[MAX_RANK];
        coordinates(g.box, present ? row : 0, at);
        const u16* const from = pointer_to<u16>(p.x.address, element_of(p.x.strides, at));
        u16* const to = reinterpret_cast<u16*>(g.y.address) + element_of(g.y.strides, at);
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        float kept[VALUES];
#pragma unroll
        for (u32 k = 0; k < VALUES; ++k) kept[k] = lane + k * LANES < p.extent ? half_to_float(from[lane + k * LANES]) : 0.0f;
        float sum = 0.0f;
#pragma unroll
        for (u32 k = 0; k < VALUES; ++k) {
            if (lane + k * LANES < p.extent) sum = __fadd_rn(sum, kept[k]);
        }
        const float mean = __fdiv_rn(folded(sum), count);
        sum = 0.0f;
#pragma unroll
        for (u32 k = 0; k < VALUES; ++k) {
            kept[k] = __fsub_rn(kept[k], mean);
            if (lane + k * LANES < p.extent) sum = __fmaf_rn(kept[k], kept[k], sum);
        }
        const float deviation = __fsqrt_rn(__fadd_rn(__fdiv_rn(folded(sum), count), p.epsilon));
        if (!present) continue;
#pragma unroll
        for (u32 k = 0; k < VALUES; ++k) {
            if (lane + k * LANES >= p.extent) break;
            const float normal = rounded_to_half(__fdiv_rn(kept[k], deviation));
            const float scaled = rounded_to_half(__fmul_rn(normal, scale[k]));
            to[lane + k * LANES] = float_to_half(__fadd_rn(scaled, shift[k]));
        }
    }
}

// Kernels by the most elements of a row (bind/normalise.rs).
extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) normalise_affine_64(const __grid_constant__ NormaliseAffine p) {
    normalise_affine<64 / LANES>(p);
}

extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) normalise_affine_256(const __grid_constant__ NormaliseAffine p) {
    normalise_affine<256 / LANES>(p);
}
