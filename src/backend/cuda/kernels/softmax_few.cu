// Softmax of halves over two to eight elements, as over the channels of a pixel: rows that a thread keeps in registers, several at a time.
//
// With the halves of softmax.cu, in fewer steps. Sums are taken in its order; what is left out or made otherwise decides only quotients
// that no half tells from 0:
//
//     e^(x - max)   has no upper bound, as x is not above the maximum, and -87 as its lower one. What is below is less than 2^-125, and
//                   behind three sums of the tree less than half a unit in the last place of the one that has the maximum's 1
//     e / sum       by the sum's reciprocal, correctly rounded, for all of a row: a quotient that is less than a unit off, and its
//                   remainder's share, give the rounded one (Markstein, "Computation of elementary functions on the IBM RISC
//                   System/6000 processor", IBM Journal of Research and Development 34, 1990)
//
// Of NaN a row makes NaN, all of it.
//
//     softmax_few_<N>      rows behind each other: as many a thread as fill whole pieces
//     softmax_planes_<N>   elements of neighbouring rows behind each other: four rows a thread, one load an element
//     softmax_apart_<N>    rows at any even distance
#include "chain.cuh"
#include "divide.cuh"
#include "math_halves.cuh"
#include "parameters.cuh"
#include "run.cuh"

constexpr u32 THREADS = 128;
constexpr u32 FOUR = 4;  // rows of a thread whose elements lie behind those of each other

struct SoftmaxFew {
    u64 x;                    // the first row's first element
    u64 y;
    i64 x_step;               // elements along the axis
    i64 y_step;
    i64 x_row;                // from row to row, where that is even
    i64 y_row;
    u32 count;                // rows; of planes, fours of them
    u32 whole;                // rows apart: each lies on its size in both tensors
    u32 used;                 // of planes: axes
    Divisor extents[MAX_RANK];
    u32 padding;
    i64 x_strides[MAX_RANK];  // from position to position; along the axis of neighbouring rows, from four to four
    i64 y_strides[MAX_RANK];
};

static_assert(sizeof(SoftmaxFew) == 48 + 12 + 72 + 4 + 96, "mirrored in bind/softmax_few.rs");

// A row's shares in place of its values.
template <u32 N>
__device__ __forceinline__ void shares(float (&v)[N]) {
    constexpr u32 HALF = N > 4 ? 4 : 2;
    float greatest = v[0];
#pragma unroll
    for (u32 i = 1; i < N; ++i) greatest = fmaxf(greatest, v[i]);
    bool nan = false;
    float sums[N];
#pragma unroll
    for (u32 i = 0; i < N; ++i) {
        const float x = __fsub_rn(v[i], greatest);
        nan |= x != x;
        sums[i] = v[i] = exponential_of_normal(fmaxf(x, -87.0f));
    }
    // Behind the last element there are zeros, which change nothing.
#pragma unroll
    for (u32 half = HALF; half > 0; half /= 2) {
#pragma unroll
        for (u32 i = 0; i < half; ++i) {
            if (i + half < N) sums[i] = __fadd_rn(sums[i], sums[i + half]);
        }
    }
    const float sum = nan ? __uint_as_float(0x7fc00000u) : sums[0];
    const float near = reciprocal_of_normal(sum), rest = __fmul_rn(__fmaf_rn(-sum, near, 1.0f), near);
#pragma unroll
    for (u32 i = 0; i < N; ++i) {
        const float quotient = __fmaf_rn(v[i], near, __fmul_rn(v[i], rest));
        v[i] = __fmaf_rn(__fmaf_rn(-sum, quotient, v[i]), near, quotient);
    }
}

// Halves `first` to `first + N - 1` of words.
template <u32 N, u32 WORDS>
__device__ __forceinline__ void widen_some(const u32 (&words)[WORDS], u32 first, float (&v)[N]) {
#pragma unroll
    for (u32 i = 0; i < N; ++i) v[i] = half_to_float(static_cast<u16>(words[(first + i) / 2] >> (first + i) % 2 * 16));
}

// COUNT pieces of EACH words behind each other.
template <u32 EACH, u32 COUNT>
__device__ __forceinline__ void load_pieces(const void* from, u32 (&words)[EACH * COUNT]) {
#pragma unroll
    for (u32 k = 0; k < COUNT; ++k) {
        if constexpr (EACH == 1) {
            words[k] = reinterpret_cast<const u32*>(from)[k];
        } else if constexpr (EACH == 2) {
            const uint2 two = reinterpret_cast<const uint2*>(from)[k];
            words[2 * k] = two.x, words[2 * k + 1] = two.y;
        } else {
            const uint4 four = reinterpret_cast<const uint4*>(from)[k];
            words[4 * k] = four.x, words[4 * k + 1] = four.y, words[4 * k + 2] = four.z, words[4 * k + 3] = four.w;
        }
    }
}

template <u32 EACH, u32 COUNT>
__device__ __forceinline__ void store_pieces(void* to, const u32 (&words)[EACH * COUNT]) {
#pragma unroll
    for (u32 k = 0; k < COUNT; ++k) {
        if constexpr (EACH == 1) {
            reinterpret_cast<u32*>(to)[k] = words[k];
        } else if constexpr (EACH == 2) {
            reinterpret_cast<uint2*>(to)[k] = make_uint2(words[2 * k], words[2 * k + 1]);
        } else {
            reinterpret_cast<uint4*>(to)[k] = make_uint4(words[4 * k], words[4 * k + 1], words[4 * k + 2], words[4 * k + 3]);
        }
    }
}

template <u32 N>
__device__ __forceinline__ void shares_apart(const u16* from, i64 from_step, u16* to, i64 to_step) {
    u16 halves[N];
#pragma unroll
    for (u32 i = 0; i < N; ++i) halves[i] = from[i * from_step];
    float v[N];
#pragma unroll
    for (u32 i = 0; i < N; ++i) v[i] = half_to_float(halves[i]);
    shares(v);
#pragma unroll
    for (u32 i = 0; i < N; ++i) to[i * to_step] = float_to_half(v[i]);
}

// Rows that fill whole pieces of EACH words: 16 bytes where rows are as long as a power of two, else 8.
template <u32 N>
struct Filled {
    static constexpr bool EVEN = N == 2 || N == 4 || N == 8;
    static constexpr u32 EACH = EVEN ? 4 : 2;
    static constexpr u32 ROWS = EVEN ? 8 / N : N % 2 ? 4 : 2;
    static constexpr u32 WORDS = N * ROWS / 2;
};

template <u32 N>
__device__ __forceinline__ void softmax_few(const SoftmaxFew& p) {
    constexpr u32 ROWS = Filled<N>::ROWS, EACH = Filled<N>::EACH, WORDS = Filled<N>::WORDS;
    bring_more(p, 0, 64);
    wait_for_predecessors();
    release_successors();
#pragma unroll 1
    for (u32 first = (blockIdx.x * THREADS + threadIdx.x) * ROWS; first < p.count; first += gridDim.x * THREADS * ROWS) {
        const u16* const from = pointer_to<u16>(p.x, static_cast<i64>(first) * N);
        u16* const to = reinterpret_cast<u16*>(p.y) + static_cast<i64>(first) * N;
        if (p.count - first < ROWS) {
#pragma unroll 1
            for (u32 row = 0; row < p.count - first; ++row) shares_apart<N>(from + row * N, 1, to + row * N, 1);
            continue;
        }
        u32 words[WORDS];
        load_pieces<EACH, WORDS / EACH>(from, words);
        float v[ROWS][N];
#pragma unroll
        for (u32 row = 0; row < ROWS; ++row) widen_some(words, row * N, v[row]), shares(v[row]);
#pragma unroll
        for (u32 i = 0; i < WORDS; ++i) words[i] = two_rounded(v[2 * i / N][2 * i % N], v[(2 * i + 1) / N][(2 * i + 1) % N]);
        store_pieces<EACH, WORDS / EACH>(to, words);
    }
}

template <u32 N>
__device__ __forceinline__ void softmax_planes(const SoftmaxFew& p) {
    bring_more(p, 0, sizeof(p));
    wait_for_predecessors();
    release_successors();
#pragma unroll 1
    for (u32 index = blockIdx.x * THREADS + threadIdx.x; index < p.count; index += gridDim.x * THREADS) {
        i64 from = 0, to = 0;
        u32 rest = index;
#pragma unroll 1
        for (u32 axis = 0; axis < p.used; ++axis) {
            const u32 above = divide(rest, p.extents[axis]), at = rest - above * p.extents[axis].divisor;
            from += at * p.x_strides[axis], to += at * p.y_strides[axis];
            rest = above;
        }
        u32 words[N][FOUR / 2];
#pragma unroll
        for (u32 i = 0; i < N; ++i) load_pieces<FOUR / 2, 1>(pointer_to<u16>(p.x, from + i * p.x_step), words[i]);
        float v[FOUR][N];
#pragma unroll
        for (u32 row = 0; row < FOUR; ++row) {
#pragma unroll
            for (u32 i = 0; i < N; ++i) v[row][i] = half_to_float(static_cast<u16>(words[i][row / 2] >> row % 2 * 16));
            shares(v[row]);
        }
#pragma unroll
        for (u32 i = 0; i < N; ++i) {
#pragma unroll
            for (u32 k = 0; k < FOUR / 2; ++k) words[i][k] = two_rounded(v[2 * k][i], v[2 * k + 1][i]);
            store_pieces<FOUR / 2, 1>(reinterpret_cast<u16*>(p.y) + (to + i * p.y_step), words[i]);
        }
    }
}

template <u32 N>
__device__ __forceinline__ void softmax_apart(const SoftmaxFew& p) {
    bring_more(p, 0, 64);
    wait_for_predecessors();
    release_successors();
#pragma unroll 1
    for (u32 row = blockIdx.x * THREADS + threadIdx.x; row < p.count; row += gridDim.x * THREADS) {
        const u16* const from = pointer_to<u16>(p.x, row * p.x_row);
        u16* const to = reinterpret_cast<u16*>(p.y) + row * p.y_row;
        if constexpr (Filled<N>::EVEN) {
            if (p.whole) {
                u32 words[N / 2];
                load_pieces<N / 2, 1>(from, words);
                float v[N];
                widen_some(words, 0, v);
                shares(v);
#pragma unroll
                for (u32 i = 0; i < N / 2; ++i) words[i] = two_rounded(v[2 * i], v[2 * i + 1]);
                store_pieces<N / 2, 1>(to, words);
                continue;
            }
        }
        shares_apart<N>(from, p.x_step, to, p.y_step);
    }
}

#define FEW(NAME, N) \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ SoftmaxFew p) { softmax_few<N>(p); }

FEW(softmax_few_2, 2)
FEW(softmax_few_3, 3)
FEW(softmax_few_4, 4)
FEW(softmax_few_5, 5)
FEW(softmax_few_6, 6)
FEW(softmax_few_7, 7)
FEW(softmax_few_8, 8)

#define PLANES(NAME, N) \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ SoftmaxFew p) { softmax_planes<N>(p); }

PLANES(softmax_planes_2, 2)
PLANES(softmax_planes_3, 3)
PLANES(softmax_planes_4, 4)
PLANES(softmax_planes_5, 5)
PLANES(softmax_planes_6, 6)
PLANES(softmax_planes_7, 7)
PLANES(softmax_planes_8, 8)

#define APART(NAME, N) \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ SoftmaxFew p) { softmax_apart<N>(p); }

APART(softmax_apart_2, 2)
APART(softmax_apart_3, 3)
APART(softmax_apart_4, 4)
APART(softmax_apart_5, 5)
APART(softmax_apart_6, 6)
APART(softmax_apart_7, 7)
APART(softmax_apart_8, 8)
