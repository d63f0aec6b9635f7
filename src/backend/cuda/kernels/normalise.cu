// Layer and root mean square normalisation along one axis, with any layout and tail.
//
// Of f32 as on the CPU, sixteen threads a row: the sum, then the sum of the squared differences from the mean, each in sixteen
// partial sums by the position modulo sixteen, folded in halves. Rows may have any length; the first values of a thread stay in
// registers between the sums.
//
// Of halves in the order of normalise_order.cuh, a warp a row, or a block a row of more than a run. Where rows lie side by side
// instead of their elements, a block has eight of them, and a thread reads an element of all eight at once.
//
// Results go eight neighbours at a time, so that the tail reads its scale and shift in whole groups.
#include "chain.cuh"
#include "generic.cuh"
#include "normalise_order.cuh"
#include "parameters.cuh"

struct Normalise {
    Generic common;  // the box has one position along the axis, and along that of rows side by side; tiles are what a block takes
    View x;
    u32 extent;      // of the axis
    u32 axis;
    float epsilon;
    float count;     // 1 / extent
    float centre;    // what the sum is multiplied by for the mean: the same, or 0 of root mean squares
    u32 columns;     // 1 where rows lie side by side and eight of them on 16 bytes
    u32 across;      // the axis along which they do
    u32 first;       // of a chunk
    Divisor groups;  // of eight of them
    u32 padding;
};

static_assert(sizeof(Normalise) == sizeof(Generic) + 88 + 48, "mirrored in bind/normalise.rs");

constexpr u32 LANES = 16;
constexpr u32 KEPT = 4;  // values of a thread in registers

// What a row's values have taken from them, and what the differences are then divided by or, of halves, multiplied by; of eight
// rows or eight times that of one.
struct Moments {
    float mean[EACH];
    float scale[EACH];
};

__device__ __forceinline__ Moments alike(float mean, float scale) {
    Moments moments;
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) moments.mean[k] = mean, moments.scale[k] = scale;
    return moments;
}

// Partial sums of 16 lanes folded in halves: lane 0's result, in all lanes.
__device__ __forceinline__ float folded_down(float value) {
#pragma unroll
    for (u32 half = LANES / 2; half > 0; half /= 2) value = __fadd_rn(value, __shfl_down_sync(0xffffffffu, value, half, LANES));
    return __shfl_sync(0xffffffffu, value, 0, LANES);
}

// Of the row of f32 that begins at element `from`; `lane` of its sixteen.
__device__ __forceinline__ Moments of_floats(const Normalise& p, i64 from, u32 lane) {
    const float count = static_cast<float>(p.extent);
    const i64 step = p.x.strides[p.axis];
    const auto value = [&](u32 i) { return *pointer_to<float>(p.x.address, from + static_cast<i64>(i) * step); };
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
    const float mean = p.centre == 0.0f ? 0.0f : __fdiv_rn(folded_down(sum), count);
    sum = 0.0f;
    each([&](float x) {
        const float difference = __fsub_rn(x, mean);
        sum = __fmaf_rn(difference, difference, sum);
    });
    return alike(mean, __fsqrt_rn(__fadd_rn(__fdiv_rn(folded_down(sum), count), p.epsilon)));
}

// The sum of all places, of which each warp has those of a lane and run at `at(run)`.
template <typename At>
__device__ __forceinline__ float all_places(u32 runs, At at) {
    float four[RUNS];
#pragma unroll
    for (u32 run = 0; run < RUNS; ++run) {
        four[run] = at(run);
        if (runs == LONG_RUNS) four[run] = __fadd_rn(__fadd_rn(four[run], at(run + 8)), __fadd_rn(at(run + 4), at(run + 12)));
    }
    return folded<32>(four_runs(four[0], four[1], four[2], four[3]));
}

// Of the row of halves that begins at element `from`, which is the block's, or the warp's alone.
__device__ __forceinline__ Moments of_halves(const Normalise& p, i64 from, bool whole, float* shared) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 runs = p.extent > LONG_ROW ? LONG_RUNS : RUNS;
    const i64 step = p.x.strides[p.axis];
    const auto total = [&](bool squares, float mean) {
        float* const places = shared + (whole ? 0 : warp * RUNS * 32);
        // A warp that has a row to itself has the places of all runs, of which the first alone has values.
#pragma unroll 1
        for (u32 run = whole ? warp : 0; run < (whole ? warp + 1 : RUNS); ++run) {
            float sums[EACH] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
            for (u32 first = run * RUN + lane * EACH; first < p.extent; first += runs * RUN) {
                float v[EACH];
                const u32 count = p.extent - first < EACH ? p.extent - first : EACH;
                load_run(p.x.address, F16, from + static_cast<i64>(first) * step, step, count, v);
#pragma unroll
                for (u32 k = 0; k < EACH; ++k) {
                    if (k < count) sums[k] = taken(squares, mean, sums[k], v[k]);
                }
            }
            places[run * 32 + lane] = in_order(sums);
        }
        __syncthreads();
        const float sum = all_places(runs, [&](u32 run) { return places[run * 32 + lane]; });
        __syncthreads();
        return sum;
    };
    const float mean = __fmul_rn(total(false, 0.0f), p.centre);
    return alike(mean, reciprocal_deviation(total(true, mean), p.count, p.epsilon));
}

// Of eight rows of halves side by side, the first of which begins at element `from`. Where there are fewer places than threads,
// each has some of a place's positions.
__device__ __forceinline__ Moments of_columns(const Normalise& p, i64 from, float* shared) {
    const u32 places = p.extent > LONG_ROW ? LONG_THREADS : NORMALISE_THREADS;
    const u32 place = threadIdx.x % places, part = threadIdx.x / places, lane = threadIdx.x % 32;
    const u32 own = EACH * places / LONG_THREADS;  // positions of a place, and afterwards rows
    const i64 step = p.x.strides[p.axis];
    const auto total = [&](bool squares, const float(&mean)[EACH], float(&sum)[EACH]) {
        float sums[EACH];
#pragma unroll 1
        for (u32 k = part * own; k < part * own + own; ++k) {
#pragma unroll
            for (u32 row = 0; row < EACH; ++row) sums[row] = 0.0f;
#pragma unroll 8
            for (u32 i = place * EACH + k; i < p.extent; i += places * EACH) {
                float v[EACH];
                widen(*reinterpret_cast<const uint4*>(pointer_to<u16>(p.x.address, from + static_cast<i64>(i) * step)), v);
#pragma unroll
                for (u32 row = 0; row < EACH; ++row) sums[row] = taken(squares, mean[row], sums[row], v[row]);
            }
#pragma unroll
            for (u32 row = 0; row < EACH; ++row) {
                sum[row] = k == 0 ? sums[row] : __fadd_rn(sum[row], sums[row]);
                if (own < EACH) shared[(k * EACH + row) * places + place] = sums[row];
            }
        }
        if (own < EACH) {
            __syncthreads();
            for (u32 row = part * own; row < part * own + own; ++row) {
                float all = shared[row * places + place];
#pragma unroll
                for (u32 k = 1; k < EACH; ++k) all = __fadd_rn(all, shared[(k * EACH + row) * places + place]);
                shared[row * places + place] = all;
            }
        } else {
#pragma unroll
            for (u32 row = 0; row < EACH; ++row) shared[row * places + place] = sum[row];
        }
        __syncthreads();
#pragma unroll
        for (u32 row = 0; row < EACH; ++row) {
            sum[row] = all_places(places / 32, [&](u32 run) { return shared[row * places + run * 32 + lane]; });
        }
        __syncthreads();
    };
    Moments moments = alike(0.0f, 0.0f);
    total(false, moments.scale, moments.mean);
#pragma unroll
    for (u32 row = 0; row < EACH; ++row) moments.mean[row] = __fmul_rn(moments.mean[row], p.centre);
    total(true, moments.mean, moments.scale);
#pragma unroll
    for (u32 row = 0; row < EACH; ++row) moments.scale[row] = reciprocal_deviation(moments.scale[row], p.count, p.epsilon);
    return moments;
}

extern "C" __global__ void __launch_bounds__(LONG_THREADS) normalise(const __grid_constant__ Normalise p) {
    __shared__ float shared[EACH * EACH * NORMALISE_THREADS];
    bring_around(p, p.common.tail);
    wait_for_predecessors();
    release_successors();
    const Generic& g = p.common;
    const bool halves = p.x.dtype == F16, columns = p.columns != 0;
    const bool whole = columns || (halves && p.extent > RUN);
    const u32 threads = whole ? blockDim.x : halves ? 32 : LANES;  // of a row
    const u32 thread = threadIdx.x % threads;
    // What a thread takes at once: neighbours of a row, or an element of neighbouring rows.
    const u32 along = columns ? p.across : p.axis, step = columns ? 1 : EACH;
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 row = columns ? divide(tile, p.groups) : tile * (blockDim.x / threads) + threadIdx.x / threads;
        // Threads without a row take part in the exchange of the others.
        const bool present = row < g.box.count;
        u32 at[MAX_RANK];
        coordinates(g.box, present ? row : 0, at);
        const u32 front = columns ? (tile - row * p.groups.divisor) * EACH : 0;
        if (columns) {
#pragma unroll
            for (u32 axis = 0; axis < MAX_RANK; ++axis) at[axis] = axis == p.across ? p.first + front : at[axis];
        }
        const i64 from = element_of(p.x.strides, at), to = element_of(g.y.strides, at);
        const Moments moments = columns  ? of_columns(p, from, shared)
                                : halves ? of_halves(p, from, whole, shared)
                                         : of_floats(p, from, thread);
        if (!present) continue;
        for (u32 first = thread * step; first < p.extent; first += threads * step) {
            const u32 count = columns ? EACH : p.extent - first < EACH ? p.extent - first : EACH;
            float v[EACH];
            load_run(p.x.address, p.x.dtype, from + static_cast<i64>(first) * p.x.strides[p.axis], p.x.strides[along], count, v);
#pragma unroll
            for (u32 k = 0; k < EACH; ++k) {
                const float difference = __fsub_rn(v[k], moments.mean[k]);
                v[k] = halves ? __fmul_rn(difference, moments.scale[k]) : __fdiv_rn(difference, moments.scale[k]);
            }
            u32 here[MAX_RANK];
#pragma unroll
            for (u32 axis = 0; axis < MAX_RANK; ++axis) here[axis] = axis == p.axis ? first : at[axis];
            tail_run(g.tail, v, count, here, along);
            store_run(g.y.address, g.y.dtype, to + static_cast<i64>(first) * g.y.strides[p.axis], count, v, g.y.strides[along]);
        }
    }
}
