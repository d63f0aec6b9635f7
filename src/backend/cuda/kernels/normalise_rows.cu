// Layer and root mean square normalisation of rows of halves side by side, scaled and shifted by constants: a row is read once.
//
// In the order of normalise_order.cuh, as all of halves. A block stays for as many rows as there are for it: their constants are loaded
// once, and the next row is on its way while one is normalised.
#include "chain.cuh"
#include "generic.cuh"
#include "halves.cuh"
#include "normalise_order.cuh"

// Rows of which whole places lie on 16 bytes, scaled and shifted by constants or as they are.
struct NormaliseRows {
    u64 x;         // elements [0, .., 0]
    u64 y;
    i64 x_strides[MAX_RANK];
    i64 y_strides[MAX_RANK];
    i64 x_step;    // from row to row, where `x` and `y` are the first row's and all lie at one distance; else 0
    i64 y_step;
    Box box;       // one position along the axis
    u64 scale;     // f16, side by side; 0 where nothing scales
    u64 shift;     // likewise
    u32 extent;    // of the axis
    float count;   // 1 / extent
    float centre;  // what the sum is multiplied by for the mean: the same, or 0 of root mean squares
    float epsilon;
    u32 tiles;     // blocks' rows
    u32 padding;
};

static_assert(sizeof(NormaliseRows) == 16 + 96 + 16 + 104 + 40, "mirrored in bind/normalise.rs");

__device__ __forceinline__ u32 mul_halves(u32 a, u32 b) {
    u32 product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

// A place's results from the differences of its values from the mean.
__device__ __forceinline__ uint4 normalised(const NormaliseRows& p, const float (&differences)[EACH], float factor, uint4 scale, uint4 shift) {
    float v[EACH];
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) v[k] = __fmul_rn(differences[k], factor);
    uint4 y = make_uint4(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]), two_rounded(v[4], v[5]), two_rounded(v[6], v[7]));
    // A product of halves is exact in f32: rounding it at once is what rounding that gives.
    if (p.scale) {
        y = make_uint4(mul_halves(y.x, scale.x), mul_halves(y.y, scale.y), mul_halves(y.z, scale.z), mul_halves(y.w, scale.w));
    }
    if (p.shift) {
        y = make_uint4(add_halves(y.x, shift.x), add_halves(y.y, shift.y), add_halves(y.z, shift.z), add_halves(y.w, shift.w));
    }
    return y;
}

__device__ __forceinline__ uint4 constants(u64 address, u32 position, u32 extent) {
    return address && position < extent ? *reinterpret_cast<const uint4*>(pointer_to<u16>(address, position)) : make_uint4(0, 0, 0, 0);
}

// The first elements of a row in both tensors.
struct Row {
    const uint4* from;
    uint4* to;
};

__device__ __forceinline__ Row row_at(const NormaliseRows& p, u32 row) {
    i64 x = row * p.x_step, y = row * p.y_step;
    if (p.x_step == 0) {
        // As `coordinates` goes through the axes, in a loop: usual launches only jump across it, so it is short.
        u32 rest = row;
#pragma unroll 1
        for (u32 i = 0; i < MAX_RANK; ++i) {
            const u32 last = MAX_RANK - 1, axis = !p.box.channels_last ? last - i : i == 0 ? 1 : i == last ? 0 : last + 1 - i;
            const u32 above = divide(rest, p.box.extents[axis]);
            const i64 at = p.box.start[axis] + rest - above * p.box.extents[axis].divisor;
            x += at * p.x_strides[axis], y += at * p.y_strides[axis];
            rest = above;
        }
    }
    return {reinterpret_cast<const uint4*>(pointer_to<u16>(p.x, x)), reinterpret_cast<uint4*>(reinterpret_cast<u16*>(p.y) + y)};
}

// LANES lanes a row, or all threads of a block. A thread keeps PLACES groups of its row, LANES groups apart, all of them of FULL rows.
// All but the rows is there before the wait.
template <u32 LANES, u32 PLACES, bool FULL>
__device__ __forceinline__ void normalise_rows(const NormaliseRows& p) {
    constexpr bool WHOLE = LANES == NORMALISE_THREADS;
    static_assert(WHOLE || LANES * PLACES * EACH <= PERIOD, "places of a lane are of different runs");
    __shared__ float shared[2][RUNS][32];
    const u32 lane = threadIdx.x % LANES;
    uint4 scale[PLACES], shift[PLACES];
#pragma unroll
    for (u32 i = 0; i < PLACES; ++i) {
        const u32 position = (i * LANES + lane) * EACH;
        scale[i] = constants(p.scale, position, p.extent);
        shift[i] = constants(p.shift, position, p.extent);
    }
    wait_for_predecessors();
    release_successors();
    const auto inside = [&](u32 i) { return FULL || (i * LANES + lane) * EACH < p.extent; };
    const auto row_of = [&](u32 tile) { return tile * (NORMALISE_THREADS / LANES) + threadIdx.x / LANES; };
    // Lanes without a row take part in the exchange of the others.
    const auto load = [&](u32 tile, uint4(&bits)[PLACES]) {
        const u32 row = row_of(tile);
        const bool present = tile < p.tiles && row < p.box.count;
        const uint4* const from = row_at(p, present ? row : 0).from + lane;
#pragma unroll
        for (u32 i = 0; i < PLACES; ++i) bits[i] = present && inside(i) ? from[i * LANES] : make_uint4(0, 0, 0, 0);
    };
    uint4 next[PLACES];
    load(blockIdx.x, next);
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        float values[PLACES][EACH];
#pragma unroll
        for (u32 i = 0; i < PLACES; ++i) widen(next[i], values[i]);
        load(tile + gridDim.x, next);
        const auto total = [&](bool squares, float mean) {
            float runs[RUNS] = {0.0f, 0.0f, 0.0f, 0.0f};
            float sums[EACH] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (u32 i = 0; i < PLACES; ++i) {
#pragma unroll
                for (u32 k = 0; k < EACH; ++k) {
                    if (!inside(i)) continue;
                    sums[k] = taken(squares, mean, sums[k], values[i][k]);
                    // What is squared is what the results are made of.
                    if (squares) values[i][k] = __fsub_rn(values[i][k], mean);
                }
                if (WHOLE) continue;
                runs[i % RUNS] = in_order(sums);
#pragma unroll
                for (u32 k = 0; k < EACH; ++k) sums[k] = 0.0f;
            }
            if constexpr (!WHOLE) return folded<LANES>(four_runs(runs[0], runs[1], runs[2], runs[3]));
            float(&places)[RUNS][32] = shared[squares];
            const u32 run = threadIdx.x / 32, place = threadIdx.x % 32;
            places[run][place] = in_order(sums);
            __syncthreads();
            return folded<32>(four_runs(places[0][place], places[1][place], places[2][place], places[3][place]));
        };
        const float mean = __fmul_rn(total(false, 0.0f), p.centre);
        const float factor = reciprocal_deviation(total(true, mean), p.count, p.epsilon);
        const u32 row = row_of(tile);
        if (row >= p.box.count) continue;
        uint4* const to = row_at(p, row).to + lane;
#pragma unroll
        for (u32 i = 0; i < PLACES; ++i) {
            if (inside(i)) to[i * LANES] = normalised(p, values[i], factor, scale[i], shift[i]);
        }
    }
}

// Kernels by the most halves of a row, of which a lane keeps as few as do, and for rows of exactly as many (bind/normalise.rs).
#define NORMALISE(NAME, LANES, PLACES, FULL)                                                                        \
    extern "C" __global__ void __launch_bounds__(NORMALISE_THREADS) NAME(const __grid_constant__ NormaliseRows p) { \
        normalise_rows<LANES, PLACES, FULL>(p);                                                                     \
    }

NORMALISE(normalise_rows_64, 8, 1, false)
NORMALISE(normalise_rows_64_full, 8, 1, true)
NORMALISE(normalise_rows_128, 16, 1, false)
NORMALISE(normalise_rows_128_full, 16, 1, true)
NORMALISE(normalise_rows_256, 32, 1, false)
NORMALISE(normalise_rows_256_full, 32, 1, true)
NORMALISE(normalise_rows_512, 32, 2, false)
NORMALISE(normalise_rows_512_full, 32, 2, true)
NORMALISE(normalise_rows_768, 32, 3, false)
NORMALISE(normalise_rows_768_full, 32, 3, true)
NORMALISE(normalise_rows_1024, 32, 4, false)
NORMALISE(normalise_rows_1024_full, 32, 4, true)
NORMALISE(normalise_rows_2048, NORMALISE_THREADS, 2, false)
NORMALISE(normalise_rows_4096, NORMALISE_THREADS, 4, false)
NORMALISE(normalise_rows_8192, NORMALISE_THREADS, 8, false)
