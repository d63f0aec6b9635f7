// Samples by grids, of halves whose channels lie side by side. The bits of sample.cu.
//
//     *_planes   into planes
//     *_pixels   into halves whose channels lie side by side, too
//
// A block takes places of a picture, one behind the other, and channels. Each place's elements and weights are found once, by a thread
// an axis. Then neighbouring threads load neighbouring pieces of a place, each the same piece of two places. Pixels are stored from
// there. For planes the two places' channels go side by side into shared memory, from where every channel's places leave in units as
// wide as the output's layout allows.
#include "chain.cuh"
#include "divide.cuh"
#include "sample_pieces.cuh"

constexpr u32 PLANES_THREADS = 128;
constexpr u32 PLANES_PLACES = 64;  // of a tile
constexpr u32 PLANES_PIECES = 4;   // of a tile's channels
constexpr u32 PAIRS = PLANES_PLACES / 2;

static_assert(PLANES_THREADS == 2 * PLANES_PLACES && PLANES_THREADS == PAIRS * PLANES_PIECES, "an axis a thread, then a pair of pieces");

struct SamplePlanes {
    View x;
    View grid;
    View y;
    Divisor columns;    // of the output
    Divisor lots;       // of a tile's channels
    Divisor runs;       // of a tile's places, of a picture in the chunk
    u32 first_batch;
    u32 first_row;
    u32 places;         // of a picture in the chunk
    u32 tiles;
    u32 unit;           // log2 of the halves that leave at once
    SampleRule rule;
    u32 steps[2];       // pieces of x from column to column, and from row to row
    u32 leaps[2];       // the same of y, of pixels
};

static_assert(sizeof(SamplePlanes) == 3 * 88 + 3 * 12 + 11 * 4, "mirrored in bind/places/planes.rs");

// Stores a tile's channels, `1 << UNIT` places at once. A unit does not reach into another row unless the rows lie behind each other.
// A thread stays at its places.
template <u32 UNIT>
__device__ __forceinline__ void store_planes(const SamplePlanes& p, const u32* turned, u32 n, u32 first, u32 channel) {
    constexpr u32 UNITS = PLANES_PLACES >> UNIT, DOWN = PLANES_THREADS / UNITS;
    const u32 at = (threadIdx.x % UNITS) << UNIT, place = first + at, top = threadIdx.x / UNITS;
    const u32 planes = min(p.y.extents[1] - channel, PLANES_PIECES * PIECE);
    if (place >= p.places) return;
    const u32 line = divide(place, p.columns), column = place - line * p.columns.divisor;
    u16* to = reinterpret_cast<u16*>(p.y.address) + static_cast<i64>(n) * p.y.strides[0] +
              static_cast<i64>(channel + top) * p.y.strides[1] + static_cast<i64>(p.first_row + line) * p.y.strides[2] + column;
    const bool whole = place + (1u << UNIT) <= p.places;
#pragma unroll 1
    for (u32 plane = top; plane < planes; plane += DOWN) {
        const u32* from = turned + plane * PAIRS + ((at / 2) ^ (plane / PIECE * PIECE));
        if (UNIT > 0 && whole) {
            if constexpr (UNIT == 3) *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
            if constexpr (UNIT == 2) *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(from);
            if constexpr (UNIT == 1) *reinterpret_cast<u32*>(to) = *from;
        } else {
            const u16* halves = reinterpret_cast<const u16*>(from) + at % 2;
#pragma unroll 1
            for (u32 e = 0; e < min(p.places - place, 1u << UNIT); ++e) to[e] = halves[e];
        }
        to += DOWN * p.y.strides[1];
    }
}

__device__ __forceinline__ uint4 rounded(const float (&v)[PIECE]) {
    return make_uint4(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]), two_rounded(v[4], v[5]), two_rounded(v[6], v[7]));
}

template <Sampling SAMPLING, bool PLANES>
__device__ __forceinline__ void sample_tiles(const SamplePlanes& p) {
    constexpr u32 COUNT = ELEMENTS<SAMPLING>;
    __shared__ Along<COUNT> along[2][PLANES_PLACES];  // of columns, and of rows
    // Pairs of places, channel by channel; those of a piece change places in eights, so that a warp's pieces lie in different banks.
    __shared__ alignas(16) u32 turned[PLANES ? PLANES_PIECES * PIECE * PAIRS : 1];
    __shared__ u32 pixels[PLANES ? 1 : PLANES_PLACES];  // pieces of y from its picture's first one
    wait_for_predecessors();
    release_successors();
    const u32 entry = threadIdx.x % 2, lane = threadIdx.x % PLANES_PIECES, pair = threadIdx.x / PLANES_PIECES;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 above = divide(tile, p.lots), lot = tile - above * p.lots.divisor;
        const u32 sample = divide(above, p.runs), first = (above - sample * p.runs.divisor) * PLANES_PLACES;
        const u32 n = p.first_batch + sample, place = first + threadIdx.x / 2;
        Along<COUNT> one;
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) one.offsets[k] = -1, one.weights[k] = 0.0f;  // behind the last place
        if (place < p.places) {
            const u32 line = divide(place, p.columns), column = place - line * p.columns.divisor;
            const i64 at = static_cast<i64>(n) * p.grid.strides[0] + static_cast<i64>(p.first_row + line) * p.grid.strides[1] +
                           static_cast<i64>(column) * p.grid.strides[2] + static_cast<i64>(entry) * p.grid.strides[3];
            const u32 extent = entry ? p.x.extents[2] : p.x.extents[3], step = entry ? p.steps[1] : p.steps[0];
            if (!PLANES && entry == 0) pixels[threadIdx.x / 2] = (p.first_row + line) * p.leaps[1] + column * p.leaps[0];
            const float g = load_float(p.grid.address, p.grid.dtype, at);
            const auto found = around<SAMPLING>(p.rule, centred(p.rule, g, extent), extent);
#pragma unroll
            for (u32 k = 0; k < COUNT; ++k) {
                if (found.positions[k] >= 0) one.offsets[k] = found.positions[k] * static_cast<i32>(step);
                one.weights[k] = found.weights[k];
            }
        }
        along[entry][threadIdx.x / 2] = one;
        __syncthreads();  // the tile before has left, too
        const u32 channel = lot * (PLANES_PIECES * PIECE), own = channel + lane * PIECE;
        if (own < p.y.extents[1]) {
            const i64 base = static_cast<i64>(n) * p.x.strides[0] + static_cast<i64>(own);
            const uint4* from = reinterpret_cast<const uint4*>(pointer_to<u16>(p.x.address, base));
            float low[PIECE], high[PIECE];
            uint4 pieces[2][COUNT][COUNT];
            const Along<COUNT>*columns = &along[0][2 * pair], *rows = &along[1][2 * pair];
            load_pieces(columns[0], rows[0], from, pieces[0]);
            load_pieces(columns[1], rows[1], from, pieces[1]);
            blend(columns[0], rows[0], pieces[0], low);
            blend(columns[1], rows[1], pieces[1], high);
            if constexpr (PLANES) {
#pragma unroll
                for (u32 c = 0; c < PIECE; ++c) {
                    turned[(lane * PIECE + c) * PAIRS + (pair ^ (lane * PIECE))] = two_rounded(low[c], high[c]);
                }
            } else {
                const i64 to = static_cast<i64>(n) * p.y.strides[0] + static_cast<i64>(own);
                uint4* y = reinterpret_cast<uint4*>(reinterpret_cast<u16*>(p.y.address) + to);
                const u32 left = p.places - first;
                if (2 * pair < left) y[pixels[2 * pair]] = rounded(low);
                if (2 * pair + 1 < left) y[pixels[2 * pair + 1]] = rounded(high);
            }
        }
        __syncthreads();
        if constexpr (PLANES) {
            switch (p.unit) {
                case 3: store_planes<3>(p, turned, n, first, channel); break;
                case 2: store_planes<2>(p, turned, n, first, channel); break;
                case 1: store_planes<1>(p, turned, n, first, channel); break;
                default: store_planes<0>(p, turned, n, first, channel); break;
            }
        }
    }
}

#define TILES_KERNEL(name, sampling, planes) \
    extern "C" __global__ void __launch_bounds__(PLANES_THREADS) name(const __grid_constant__ SamplePlanes p) { \
        sample_tiles<sampling, planes>(p); \
    }

TILES_KERNEL(sample_nearest_planes, NEAREST, true)
TILES_KERNEL(sample_linear_planes, LINEAR, true)
TILES_KERNEL(sample_cubic_planes, CUBIC, true)
TILES_KERNEL(sample_nearest_pixels, NEAREST, false)
TILES_KERNEL(sample_linear_pixels, LINEAR, false)
TILES_KERNEL(sample_cubic_pixels, CUBIC, false)
