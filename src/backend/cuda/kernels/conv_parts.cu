// Convolutions that are several matrix products of one kind, in one launch: a product for each few groups of a grouped
// convolution, for each phase of a transposed one, or the one of a picture's patches. mma.sync fed by cp.async.
//
// Each part has a list of pieces: which 8 neighbouring halves of the input, seen from a pixel of the part's grid, stand at
// which place of K. Groups that share a part have zeros for each other's weights; so a number that is not finite spreads to
// the other groups of its part. Every element is one chain of m16n8k16 instructions in ascending K, so its bits do not depend
// on the tile, the chunk or the grid.
#include "chain.cuh"
#include "conv_load.cuh"

struct Part {
    u64 weights;   // its first half among all packed ones; rows of K for each output channel
    u32 pitch;     // halves of such a row, a multiple of 64
    u32 depth;     // of K, without what fills up the row
    u32 pieces;    // its first piece
    u32 channel;   // its first output channel
    u32 channels;  // its output channels
    u32 row;       // output row and pixel of its grid's first
    u32 pixel;
    u32 padding;
};

using i16 = short;

struct Piece {
    i16 row;      // from a pixel of the grid, in input rows and pixels; far outside for one that is zero
    i16 pixel;
    u32 channel;  // in halves
};

struct ConvParts {
    u64 x;        // element [0, 0, 0, 0] of the input
    u64 weights;  // packed, of all parts
    u64 parts;
    u64 pieces;
    i32 x_batch;  // strides of the input in elements
    i32 x_row;
    i32 x_pixel;
    u32 height;  // input rows
    u32 width;   // input pixels of a row
    u32 walk_rows;  // input rows and pixels from one of the grid to the next
    u32 walk_pixels;
    u32 step_rows;  // and those of the output
    u32 step_pixels;
    u32 first_batch;
    u32 first_grid_row;
    u32 first_row;  // output rows of the chunk
    u32 end_row;
    u32 out_width;
    u32 m;           // pixels of a part's grid in the chunk
    u32 tiles;
    Divisor sample;  // pixels of the grid in one sample
    Divisor row;     // and in a row
    Divisor across;  // tiles along the channels of the widest part
    Divisor count;   // parts
    Epilogue epilogue;
};

static_assert(sizeof(Part) == 40 && sizeof(Piece) == 8 && sizeof(ConvParts) == 144 + sizeof(Epilogue), "mirrored in bind/conv_parts.rs");

// How a block cuts its tile: warps of WM x WN, steps of BK, a ring of STAGES.
template <u32 BM_, u32 BN_, u32 BK_, u32 WM_, u32 WN_, u32 STAGES_>
struct Cut {
    static constexpr u32 BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_, STAGES = STAGES_;
    static constexpr u32 ACROSS = BN / WN, THREADS = BM / WM * ACROSS * 32;
    static constexpr u32 MI = WM / 16, NI = WN / 8;
    static constexpr u32 PIECES = BK / PIECE, STEP = THREADS / PIECES;
    static constexpr u32 ROUNDS = BM / STEP, WEIGHT_ROUNDS = (BN + STEP - 1) / STEP;
    static constexpr u32 PIXEL_BYTES = BM * BK * 2, STAGE_BYTES = (BM + BN) * BK * 2;
    // 16 rows of a warp's sums, turned round before they are stored; the padding keeps both ways free of bank conflicts.
    static constexpr u32 TURN_ROW = WN + 8;
    static_assert(BM % STEP == 0 && STEP % 8 == 0 && (BN < STEP || BN % STEP == 0), "whole rounds of copies");
};

// A pixel of a part's grid, 0 <= index < m: sample, row and pixel of the grid.
struct GridPixel {
    u32 batch, row, pixel;
};

__device__ __forceinline__ GridPixel grid_pixel(const ConvParts& p, u32 index) {
    const u32 sample = divide(index, p.sample);
    const u32 inside = index - sample * p.sample.divisor;
    const u32 row = divide(inside, p.row);
    return {p.first_batch + sample, p.first_grid_row + row, inside - row * p.row.divisor};
}

// What a thread copies: one piece of every block of K, for some pixels and some rows of weights.
template <class C>
struct PartLoader {
    i32 bases[C::ROUNDS];    // elements to the pixels
    i32 rows[C::ROUNDS];     // their rows and pixels in the input
    i32 pixels[C::ROUNDS];
    const Piece* piece;      // of the next block
    Piece ahead;             // the same, there before its block is asked for
    u64 weights;
    u64 weight_step;         // bytes from round to round
    u32 readable;            // rows of weights from this thread's first on
    u32 target;

    __device__ __forceinline__ PartLoader(const ConvParts& p, const Part& part, u32 down, u32 across) {
        const u32 line = threadIdx.x / C::PIECES, column = threadIdx.x % C::PIECES;
        target = piece_offset<C::BK>(line, column);
#pragma unroll
        for (u32 i = 0; i < C::ROUNDS; ++i) {
            // Behind the last pixel the last is read again: what is computed there goes nowhere.
            const GridPixel at = grid_pixel(p, min(down * C::BM + line + i * C::STEP, p.m - 1));
            rows[i] = static_cast<i32>(at.row * p.walk_rows);
            pixels[i] = static_cast<i32>(at.pixel * p.walk_pixels);
            bases[i] = static_cast<i32>(at.batch) * p.x_batch + rows[i] * p.x_row + pixels[i] * p.x_pixel;
        }
        piece = reinterpret_cast<const Piece*>(p.pieces) + part.pieces + column;
        ahead = *piece;
        const u32 first = across * C::BN + line;
        readable = part.channels > first ? part.channels - first : 0;
        weights = p.weights + 2 * (part.weights + static_cast<u64>(first) * part.pitch + column * PIECE);
        weight_step = 2ull * C::STEP * part.pitch;
    }

    // Copies the next block of K to the stage at `shared`; there is another behind it unless it is the `last`.
    __device__ __forceinline__ void load(const ConvParts& p, u32 shared, bool last) {
        const Piece e = ahead;
        piece += C::PIECES;
        if (!last) ahead = *piece;
        // Of a piece that is zero this is any number, as nothing is read.
        const u32 offset = static_cast<u32>(e.row) * p.x_row + static_cast<u32>(e.pixel) * p.x_pixel + e.channel;
#pragma unroll
        for (u32 i = 0; i < C::ROUNDS; ++i) {
            const bool inside = static_cast<u32>(rows[i] + e.row) < p.height && static_cast<u32>(pixels[i] + e.pixel) < p.width;
            copy_16(shared + target + i * C::STEP * C::BK * 2, p.x + static_cast<i64>(static_cast<i32>(bases[i] + offset)) * 2, inside ? 16 : 0);
        }
        if (C::BN >= C::STEP || threadIdx.x / C::PIECES < C::BN) {
#pragma unroll
            for (u32 i = 0; i < C::WEIGHT_ROUNDS; ++i) {
                copy_16(shared + C::PIXEL_BYTES + target + i * C::STEP * C::BK * 2, weights + i * weight_step,
                        i * C::STEP < readable ? 16 : 0);
            }
        }
        weights += C::BK * 2;
    }
};

template <class C>
using Sums = float[C::MI][C::NI][4];

// The products of a tile over all of the part's K.
template <class C>
__device__ __forceinline__ void sum_products(const ConvParts& p, const Part& part, u32 ring, u32 down, u32 across, Sums<C>& sums) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // ldmatrix: 16 rows x 2 pieces of pixels; 2 x 8 rows x 2 pieces of weights.
    const u32 a_row = lane % 16, b_row = lane % 8 + lane / 16 * 8;
    const u32 a_base = ring + (warp / C::ACROSS * C::WM + a_row) * C::BK * 2;
    const u32 b_base = ring + C::PIXEL_BYTES + (warp % C::ACROSS * C::WN + b_row) * C::BK * 2;
    const u32 a_piece = (lane / 16 ^ swizzle<C::BK>(a_row)) * 16, b_piece = (lane / 8 % 2 ^ swizzle<C::BK>(b_row)) * 16;
#pragma unroll
    for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
        for (u32 j = 0; j < C::NI; ++j) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0.0f;
    }
    PartLoader<C> loader(p, part, down, across);
    const u32 blocks = (part.depth + C::BK - 1) / C::BK;
#pragma unroll
    for (u32 s = 0; s + 1 < C::STAGES; ++s) {
        if (s < blocks) loader.load(p, ring + s * C::STAGE_BYTES, s + 1 == blocks);
        commit_copies();
    }
    u32 reading = 0, writing = (C::STAGES - 1) * C::STAGE_BYTES;
    for (u32 block = 0; block < blocks; ++block) {
        wait_copies<C::STAGES - 2>();
        __syncthreads();
        if (block + C::STAGES - 1 < blocks) loader.load(p, ring + writing, block + C::STAGES == blocks);
        commit_copies();
        writing = writing == (C::STAGES - 1) * C::STAGE_BYTES ? 0 : writing + C::STAGE_BYTES;
#pragma unroll
        for (u32 step = 0; step < C::BK / 16; ++step) {
            u32 a[C::MI][4], b[C::NI / 2][4];
#pragma unroll
            for (u32 i = 0; i < C::MI; ++i) load_matrices(a[i], a_base + reading + i * 16 * C::BK * 2 + (a_piece ^ step * 32));
#pragma unroll
            for (u32 j = 0; j < C::NI / 2; ++j) load_matrices(b[j], b_base + reading + j * 16 * C::BK * 2 + (b_piece ^ step * 32));
#pragma unroll
            for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
                for (u32 j = 0; j < C::NI; ++j) multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
        }
        reading = reading == (C::STAGES - 1) * C::STAGE_BYTES ? 0 : reading + C::STAGE_BYTES;
    }
    wait_copies<0>();
    __syncthreads();
}

// The groups of 8 channels that a lane finishes: ROWS apart along the grid's pixels.
template <u32 ROWS>
struct PartPlaces {
    static constexpr bool FLAT = false;
    const ConvParts& p;
    const Part& part;
    u32 first;
    u32 column;

    __device__ __forceinline__ u32 channel() const { return column; }
    __device__ __forceinline__ Place at(u32 g) const {
        const GridPixel grid = grid_pixel(p, first + g * ROWS);
        return Place{grid.batch, grid.row * p.step_rows + part.row, grid.pixel * p.step_pixels + part.pixel, column};
    }
    // The grid of a chunk may begin before it and end behind it.
    __device__ __forceinline__ bool live(u32 g) const {
        if (first + g * ROWS >= p.m) return false;
        const Place place = at(g);
        return place.row >= p.first_row && place.row < p.end_row && place.pixel < p.out_width;
    }
    __device__ __forceinline__ u32 flat(u32) const { return 0; }
};

// Hands the tile to the epilogue, 8 channels of a pixel at a time, 16 rows of a warp after one another.
template <class C>
__device__ __forceinline__ void store(const ConvParts& p, const Part& part, u32 ring, u32 down, u32 across, const Sums<C>& sums) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr u32 GROUPS = C::WN / GROUP, ROWS = 32 / GROUPS, COUNT = 16 / ROWS;
    const u32 row = lane / GROUPS, column = lane % GROUPS * GROUP;
    const u32 local = across * C::BN + warp % C::ACROSS * C::WN + column;
    const u32 count = part.channels > local ? min(part.channels - local, GROUP) : 0;
    const u32 turn = ring + warp * 16 * C::TURN_ROW * 4;
    float bias[GROUP] = {};
    if (count > 0) load_bias(bias, p.epilogue, part.channel + local);
    // One copy of what finishes groups serves all rows; the sums must be named by constants.
#pragma unroll 1
    for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
        for (u32 constant = 0; constant < C::MI; ++constant) {
            if (constant != i) continue;
#pragma unroll
            for (u32 j = 0; j < C::NI; ++j) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const u32 address = turn + ((lane / 4 + half * 8) * C::TURN_ROW + j * 8 + lane % 4 * 2) * 4;
                    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(sums[constant][j][half * 2]),
                                 "f"(sums[constant][j][half * 2 + 1])
                                 : "memory");
                }
            }
        }
        __syncwarp();
        if (count > 0) {
            float values[COUNT][GROUP];
#pragma unroll
            for (u32 g = 0; g < COUNT; ++g) {
#pragma unroll
                for (u32 h = 0; h < 2; ++h) {
                    float* const v = &values[g][h * 4];
                    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                                 : "r"(turn + ((row + g * ROWS) * C::TURN_ROW + column + h * 4) * 4)
                                 : "memory");
                }
            }
            const u32 pixel = down * C::BM + warp / C::ACROSS * C::WM + i * 16 + row;
            finish_groups(values, bias, p.epilogue, PartPlaces<ROWS>{p, part, pixel, part.channel + local}, count);
        }
        __syncwarp();
    }
}

template <class C>
__device__ __forceinline__ void convolve(const ConvParts& p) {
    extern __shared__ __align__(128) u8 memory[];
    const u32 ring = shared_address(memory);
    for (u32 work = blockIdx.x; work < p.tiles; work += gridDim.x) {
        // Parts of the same pixels come one after another.
        const u32 tile = divide(work, p.count), index = work - tile * p.count.divisor;
        const u32 down = divide(tile, p.across), across = tile - down * p.across.divisor;
        const Part part = reinterpret_cast<const Part*>(p.parts)[index];
        if (across * C::BN >= part.channels) continue;
        Sums<C> sums;
        sum_products<C>(p, part, ring, down, across, sums);
        store<C>(p, part, ring, down, across, sums);
        __syncthreads();
    }
}

// One kernel of the menu in plan/tactic/conv_parts.rs; `resident` blocks share a multiprocessor at the least.
#define CONV_PARTS(name, resident, ...)                                                                                           \
    extern "C" __global__ void __launch_bounds__(Cut<__VA_ARGS__>::THREADS, resident) name(const __grid_constant__ ConvParts p) { \
        wait_for_predecessors();                                                                                                  \
        release_successors();                                                                                                     \
        convolve<Cut<__VA_ARGS__>>(p);                                                                                            \
    }

CONV_PARTS(conv_parts_64x16x32_16x16_s4, 6, 64, 16, 32, 16, 16, 4)
CONV_PARTS(conv_parts_64x32x64_32x16_s4, 4, 64, 32, 64, 32, 16, 4)
CONV_PARTS(conv_parts_64x64x64_32x32_s4, 3, 64, 64, 64, 32, 32, 4)
CONV_PARTS(conv_parts_128x64x64_64x32_s3, 2, 128, 64, 64, 64, 32, 3)
CONV_PARTS(conv_parts_32x32x64_16x16_s5, 4, 32, 32, 64, 16, 16, 5)
