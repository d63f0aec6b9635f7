// Sums of weighed samples of pictures: a level of deformable attention. The CPU's numbers, operation for operation.
//
//     sample_sums_*          a query and a channel a thread, of any layout
//     sample_sums_*_pieces   halves whose channels lie side by side: a query and eight channels a thread
//
// Of the latter a block takes queries of a picture and channels. Several points of each query have their elements and weights found by
// threads that share them out; then every thread asks for the elements around all of these before it adds the first.
#include "chain.cuh"
#include "divide.cuh"
#include "parameters.cuh"
#include "sample_pieces.cuh"

constexpr u32 SUMS_THREADS = 128;
constexpr u32 SUMS_POINTS = 4;  // of a query that are found at once
constexpr u32 SUMS_ENTRIES = SUMS_THREADS * SUMS_POINTS;

struct SampleSums {
    View x;
    View places;
    View factors;
    View start;       // address 0 for none
    View y;
    Divisor lots;     // of a query's channels: single ones, or as many pieces as a tile has
    Divisor runs;     // of a picture's queries in the chunk: single ones, or those of a tile
    u32 first_batch;
    u32 first_query;
    u32 queries;      // of a picture in the chunk
    u32 points;       // of a query
    u32 count;        // of tiles or elements
    u32 lanes;        // log2 of a tile's pieces
    SampleRule rule;
    u32 steps[2];     // pieces of x from column to column, and from row to row
};

static_assert(sizeof(SampleSums) == 5 * 88 + 2 * 12 + 10 * 4, "mirrored in bind/places/sums.rs");

template <Sampling SAMPLING>
__device__ __forceinline__ void sums_of_elements(const SampleSums& p) {
    constexpr u32 COUNT = ELEMENTS<SAMPLING>;
    wait_for_predecessors();
    release_successors();
    const u32 high = p.x.extents[2], wide = p.x.extents[3];
    for (u32 index = blockIdx.x * SUMS_THREADS + threadIdx.x; index < p.count; index += gridDim.x * SUMS_THREADS) {
        const u32 place = divide(index, p.lots), sample = divide(place, p.runs);
        const i64 channel = index - place * p.lots.divisor, n = p.first_batch + sample;
        const i64 query = p.first_query + place - sample * p.runs.divisor;
        const i64 grid = n * p.places.strides[0] + query * p.places.strides[1];
        const i64 factors = n * p.factors.strides[0] + query * p.factors.strides[2];
        const i64 from = n * p.x.strides[0] + channel * p.x.strides[1];
        float sum = 0.0f;
        if (p.start.address) {
            const i64 first = n * p.start.strides[0] + channel * p.start.strides[1] + query * p.start.strides[2];
            sum = load_float(p.start.address, p.start.dtype, first);
        }
        for (u32 point = 0; point < p.points; ++point) {
            const i64 pair = grid + point * p.places.strides[2];
            const float across = load_float(p.places.address, p.places.dtype, pair);
            const float down = load_float(p.places.address, p.places.dtype, pair + p.places.strides[3]);
            const float factor = load_float(p.factors.address, p.factors.dtype, factors + point * p.factors.strides[3]);
            const auto rows = around<SAMPLING>(p.rule, centred(p.rule, down, high), high);
            const auto columns = around<SAMPLING>(p.rule, centred(p.rule, across, wide), wide);
            float sampled = 0.0f;
#pragma unroll
            for (u32 j = 0; j < COUNT; ++j) {
                float line = 0.0f;
#pragma unroll
                for (u32 i = 0; i < COUNT; ++i) {
                    float v = 0.0f;
                    if (rows.positions[j] >= 0 && columns.positions[i] >= 0) {
                        v = load_float(p.x.address, p.x.dtype, from + rows.positions[j] * p.x.strides[2] + columns.positions[i] * p.x.strides[3]);
                    }
                    line = __fmaf_rn(columns.weights[i], v, line);
                }
                sampled = __fmaf_rn(rows.weights[j], line, sampled);
            }
            sum = __fmaf_rn(factor, sampled, sum);
        }
        const i64 to = n * p.y.strides[0] + channel * p.y.strides[1] + query * p.y.strides[2];
        if (p.y.dtype == F16) {
            *(reinterpret_cast<u16*>(p.y.address) + to) = float_to_half(sum);
        } else {
            *(reinterpret_cast<float*>(p.y.address) + to) = sum;
        }
    }
}

template <Sampling SAMPLING>
__device__ __forceinline__ void sums_of_pieces(const SampleSums& p) {
    constexpr u32 COUNT = ELEMENTS<SAMPLING>;
    constexpr u32 BATCH = SAMPLING == CUBIC ? 1 : SUMS_POINTS;  // points whose elements a thread asks for at once
    __shared__ Along<COUNT> along[2][SUMS_ENTRIES];  // of columns, and of rows
    __shared__ float factors[SUMS_ENTRIES];
    bring_more(p, 0, sizeof(SampleSums));
    const u32 lane = threadIdx.x & ((1u << p.lanes) - 1), own = threadIdx.x >> p.lanes, run = SUMS_THREADS >> p.lanes;
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.count; tile += gridDim.x) {
        const u32 above = divide(tile, p.lots), lot = tile - above * p.lots.divisor;
        const u32 sample = divide(above, p.runs), first = (above - sample * p.runs.divisor) * run;
        const u32 channel = ((lot << p.lanes) + lane) * PIECE;
        const bool live = channel < p.x.extents[1] && first + own < p.queries;
        const i64 n = p.first_batch + sample, query = p.first_query + first + own;
        const uint4* const from = reinterpret_cast<const uint4*>(pointer_to<u16>(p.x.address, n * p.x.strides[0] + channel));
        float sums[PIECE];
#pragma unroll
        for (u32 c = 0; c < PIECE; ++c) sums[c] = 0.0f;
        if (live && p.start.address) {
            const i64 begin = n * p.start.strides[0] + channel * p.start.strides[1] + query * p.start.strides[2];
            load_run(p.start.address, p.start.dtype, begin, p.start.strides[1], PIECE, sums);
        }
#pragma unroll 1
        for (u32 point = 0; point < p.points; point += SUMS_POINTS) {
            if (tile != blockIdx.x || point > 0) __syncthreads();  // what is read of the points before
#pragma unroll 1
            for (u32 e = threadIdx.x; e < run * SUMS_POINTS * 2; e += SUMS_THREADS) {
                // Behind the last query and the last point stands the last one again, which nobody adds.
                const u32 axis = e % 2, entry = e / 2;
                const i64 at = p.first_query + min(first + entry / SUMS_POINTS, p.queries - 1);
                const i64 which = min(point + entry % SUMS_POINTS, p.points - 1);
                const i64 pair = n * p.places.strides[0] + at * p.places.strides[1] + which * p.places.strides[2];
                const float g = load_float(p.places.address, p.places.dtype, pair + axis * p.places.strides[3]);
                if (axis == 0) {
                    const i64 weight = n * p.factors.strides[0] + at * p.factors.strides[2] + which * p.factors.strides[3];
                    factors[entry] = load_float(p.factors.address, p.factors.dtype, weight);
                }
                const u32 extent = axis ? p.x.extents[2] : p.x.extents[3];
                const auto found = around<SAMPLING>(p.rule, centred(p.rule, g, extent), extent);
                Along<COUNT> one;
#pragma unroll
                for (u32 k = 0; k < COUNT; ++k) {
                    one.offsets[k] = found.positions[k] < 0 ? -1 : found.positions[k] * static_cast<i32>(p.steps[axis]);
                    one.weights[k] = found.weights[k];
                }
                along[axis][entry] = one;
            }
            __syncthreads();
            if (!live) continue;
#pragma unroll 1
            for (u32 some = 0; some < SUMS_POINTS; some += BATCH) {
                uint4 pieces[BATCH][COUNT][COUNT];
                const u32 entry = own * SUMS_POINTS + some;
#pragma unroll
                for (u32 b = 0; b < BATCH; ++b) load_pieces(along[0][entry + b], along[1][entry + b], from, pieces[b]);
#pragma unroll
                for (u32 b = 0; b < BATCH; ++b) {
                    if (point + some + b >= p.points) break;
                    float sampled[PIECE];
                    blend(along[0][entry + b], along[1][entry + b], pieces[b], sampled);
#pragma unroll
                    for (u32 c = 0; c < PIECE; ++c) sums[c] = __fmaf_rn(factors[entry + b], sampled[c], sums[c]);
                }
            }
        }
        if (!live) continue;
        const i64 to = n * p.y.strides[0] + channel * p.y.strides[1] + query * p.y.strides[2];
        store_run(p.y.address, p.y.dtype, to, PIECE, sums, p.y.strides[1]);
    }
}

#define ELEMENTS_KERNEL(name, sampling) \
    extern "C" __global__ void __launch_bounds__(SUMS_THREADS) name(const __grid_constant__ SampleSums p) { sums_of_elements<sampling>(p); }

ELEMENTS_KERNEL(sample_sums_nearest, NEAREST)
ELEMENTS_KERNEL(sample_sums_linear, LINEAR)
ELEMENTS_KERNEL(sample_sums_cubic, CUBIC)

#define PIECES_KERNEL(name, sampling) \
    extern "C" __global__ void __launch_bounds__(SUMS_THREADS) name(const __grid_constant__ SampleSums p) { sums_of_pieces<sampling>(p); }

PIECES_KERNEL(sample_sums_nearest_pieces, NEAREST)
PIECES_KERNEL(sample_sums_linear_pieces, LINEAR)
PIECES_KERNEL(sample_sums_cubic_pieces, CUBIC)
