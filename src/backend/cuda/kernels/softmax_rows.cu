// Softmax in f16, of floats and without a tail, over rows of up to 1024 elements: sixteen threads a row, or a warp, which read it once and keep it
// in registers.
//
// With the bits of softmax.cu: sixteen threads sum the `e^(x - max)` of the positions of their remainder modulo sixteen in ascending
// order, and the sixteen sums are folded in halves. Where the rows lie is known before the wait.
//
// It leaves out what no f16 shows: exponentials below the smallest normal f32, which change neither a sum that is
// at least 1 nor a quotient that is rounded to 0, and the cases of division that quotients of 2^-60 or more never meet.
#include "chain.cuh"
#include "generic.cuh"
#include "math_halves.cuh"
#include "parameters.cuh"

struct SoftmaxRows {
    u64 x;       // element [0, .., 0], or the first row's where all lie at one distance
    u64 y;
    i64 x_row;   // from row to row, where that is the same for all; else 0
    i64 y_row;
    i32 x_step;  // along the axis
    i32 y_step;
    u32 extent;  // of the axis
    u32 tiles;   // of the rows of a block
    u32 x_dtype;
    u32 padding;
    Box box;     // one position along the axis
    i64 x_strides[MAX_RANK];
    i64 y_strides[MAX_RANK];
};

static_assert(sizeof(SoftmaxRows) == 32 + 24 + 104 + 96, "mirrored in bind/softmax.rs");

constexpr u32 PARTIALS = 16;
constexpr u32 TOGETHER = 4;  // elements of a thread that are skipped together behind the row's end

// The sum of what sixteen lanes have, folded in halves, in all LANES of a row.
template <u32 LANES>
__device__ __forceinline__ float folded(float value) {
#pragma unroll
    for (u32 half = PARTIALS / 2; half > 0; half /= 2) value = __fadd_rn(value, __shfl_down_sync(0xffffffffu, value, half, LANES));
    return __shfl_sync(0xffffffffu, value, 0, LANES);
}

// e^x of x <= 0 or NaN; 0 where that is no normal f32.
__device__ __forceinline__ float exponential_of_negative(float x) {
    const float y = exponential_of_normal(x);
    return x >= -87.0f ? y : x < 0.0f ? 0.0f : x;
}

// Quotients by one number from 1 on: Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM J. Res.
// Dev. 34 (1990); correctly rounded where neither the quotient nor its remainder leaves the normal numbers.
struct Quotients {
    float divisor, reciprocal;

    __device__ __forceinline__ explicit Quotients(float by) : divisor(by), reciprocal(reciprocal_of_normal(by)) {}

    __device__ __forceinline__ float of(float x) const {
        float q = __fmul_rn(x, reciprocal);
        q = __fmaf_rn(reciprocal, __fmaf_rn(-divisor, q, x), q);
        return __fmaf_rn(reciprocal, __fmaf_rn(-divisor, q, x), q);
    }
};

// LANES threads a row, EACH elements a thread.
template <u32 LANES, u32 EACH>
__device__ __forceinline__ void softmax_rows(const SoftmaxRows& p) {
    constexpr u32 ROWS = GENERIC_THREADS / LANES;
    const u32 lane = threadIdx.x % LANES;
    // Calls `each` with the numbers of a thread's elements, whole groups of which lie behind the row's end for all threads alike.
    const auto every = [&](auto each) {
#pragma unroll
        for (u32 first = 0; first < EACH; first += TOGETHER) {
            if (first * LANES >= p.extent) continue;
#pragma unroll
            for (u32 i = first; i < EACH && i < first + TOGETHER; ++i) each(i);
        }
    };
    // Of a row in both tensors, the thread's first elements; of one that is not there, those of the first.
    const auto find = [&](u32 tile, u64& from, u64& to, bool& present) {
        const u32 index = tile * ROWS + threadIdx.x / LANES, row = index < p.box.count ? index : 0;
        i64 x = row * p.x_row, y = row * p.y_row;
        if (p.x_row == 0) {
            u32 at[MAX_RANK];
            coordinates(p.box, row, at);
            x = element_of(p.x_strides, at), y = element_of(p.y_strides, at);
        }
        from = p.x + static_cast<u64>(x + static_cast<i64>(lane) * p.x_step) * (p.x_dtype == F16 ? 2 : 4);
        to = p.y + static_cast<u64>(y + static_cast<i64>(lane) * p.y_step) * 2;
        present = index < p.box.count;
    };
    u64 from, to;
    bool present;
    find(blockIdx.x, from, to, present);
    const i64 x_step = static_cast<i64>(p.x_step) * LANES, y_step = static_cast<i64>(p.y_step) * LANES;
    settle(static_cast<u32>(from) ^ static_cast<u32>(to));
    wait_for_predecessors();
    release_successors();
    const auto inside = [&](u32 i) { return i * LANES + lane < p.extent; };
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        if (tile != blockIdx.x) find(tile, from, to, present);
        float v[EACH];
        // All loads are under way before the first is waited for.
        if (p.x_dtype == F16) {
            const u16* const row = reinterpret_cast<const u16*>(from);
            u16 halves[EACH];
            every([&](u32 i) { halves[i] = inside(i) ? row[i * x_step] : 0; });
            every([&](u32 i) { v[i] = half_to_float(halves[i]); });
        } else {
            const float* const row = reinterpret_cast<const float*>(from);
            every([&](u32 i) { v[i] = inside(i) ? row[i * x_step] : 0.0f; });
        }
        // A maximum is the same in any order: NaNs are passed over, and the sign of a zero does not reach the exponential.
        float greatest = __uint_as_float(0xff800000u);
        every([&](u32 i) { greatest = inside(i) ? fmaxf(v[i], greatest) : greatest; });
#pragma unroll
        for (u32 other = LANES / 2; other > 0; other /= 2) greatest = fmaxf(__shfl_xor_sync(0xffffffffu, greatest, other), greatest);
        // Zeros behind the row's end change no sum. Of a warp, the first half adds what the second has.
        float sum = 0.0f;
        every([&](u32 i) {
            v[i] = inside(i) ? exponential_of_negative(__fsub_rn(v[i], greatest)) : 0.0f;
            sum = __fadd_rn(sum, v[i]);
            if (LANES > PARTIALS) sum = __fadd_rn(sum, __shfl_down_sync(0xffffffffu, v[i], PARTIALS));
        });
        sum = folded<LANES>(sum);
        if (!present) continue;
        const Quotients by(sum);
        u16* const row = reinterpret_cast<u16*>(to);
        every([&](u32 i) {
            if (inside(i)) row[i * y_step] = float_to_half(by.of(v[i]));
        });
    }
}

// Named by the most elements of a row.
#define SOFTMAX_ROWS(NAME, LANES, EACH) \
    extern "C" __global__ void __launch_bounds__(GENERIC_THREADS) NAME(const __grid_constant__ SoftmaxRows p) { softmax_rows<LANES, EACH>(p); }

SOFTMAX_ROWS(softmax_rows_32, 16, 2)
SOFTMAX_ROWS(softmax_rows_64, 16, 4)
SOFTMAX_ROWS(softmax_rows_128, 32, 4)
SOFTMAX_ROWS(softmax_rows_256, 32, 8)
SOFTMAX_ROWS(softmax_rows_512, 32, 16)
SOFTMAX_ROWS(softmax_rows_1024, 32, 32)
