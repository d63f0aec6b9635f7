// Convolution as an implicit matrix product on the tensor cores of sm_80 and newer: mma.sync fed by cp.async.
//
// A block of threads makes one tile of BM pixels x BN channels at a time; K passes through a ring of stages in shared
// memory. Every element is one chain of m16n8k16 instructions in ascending K, so its bits do not depend on the tile, the
// stages, the chunk or the grid. Where few pixels and a long K would leave the GPU idle, K is cut into `splits` ranges:
// their sums are added in ascending order, by one block that meets them all (`folding`) or by the last of the blocks that
// each make one. Which of the two is a matter of speed alone.
#include "chain.cuh"
#include "conv_load.cuh"

// How a block cuts its tile: warps of WM x WN, steps of BK, a ring of STAGES.
template <u32 BM_, u32 BN_, u32 BK_, u32 WM_, u32 WN_, u32 STAGES_>
struct Cut {
    static constexpr u32 BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_, STAGES = STAGES_;
    static constexpr u32 WARPS_ACROSS = BN / WN;
    static constexpr u32 THREADS = BM / WM * WARPS_ACROSS * 32;
    static constexpr u32 MI = WM / 16, NI = WN / 8, STEPS = BK / 16;
    static constexpr u32 PIXEL_BYTES = BM * BK * 2, STAGE_BYTES = (BM + BN) * BK * 2;
    // Before they are stored, 16 rows of a warp's accumulators are turned round in shared memory; the padding keeps both
    // ways free of bank conflicts.
    static constexpr u32 TURN_ROW = WN + 8;
    static constexpr u32 TURN_BYTES = THREADS / 32 * 16 * TURN_ROW * 4;
    static constexpr u32 RING_BYTES = STAGES * STAGE_BYTES > TURN_BYTES ? STAGES * STAGE_BYTES : TURN_BYTES;
    static_assert(WM % 16 == 0 && WN % 16 == 0 && BM % WM == 0 && BN % WN == 0 && (BK == 32 || BK == 64), "whole instructions");
};

template <class C>
using Accumulators = float[C::MI][C::NI][4];

// Operands of one step of 16 along K.
template <class C, bool AFFINE>
struct Fragments {
    u32 a[C::MI][4];
    u32 b[C::NI / 2][4];
    uint4 affine;  // scales and shifts of this lane's channels

    __device__ __forceinline__ void load(u32 a_base, u32 b_base, u32 a_piece, u32 b_piece, u32 step, u32 affine_at) {
        if constexpr (AFFINE) {
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(affine.x), "=r"(affine.y), "=r"(affine.z), "=r"(affine.w)
                         : "r"(affine_at)
                         : "memory");
        }
#pragma unroll
        for (u32 i = 0; i < C::MI; ++i) load_matrices(a[i], a_base + i * 16 * C::BK * 2 + (a_piece ^ (step * 32)));
#pragma unroll
        for (u32 j = 0; j < C::NI / 2; ++j) load_matrices(b[j], b_base + j * 16 * C::BK * 2 + (b_piece ^ (step * 32)));
    }

    // What happens to the pixels before they are multiplied.
    __device__ __forceinline__ void prepare() {
        if constexpr (AFFINE) {
#pragma unroll
            for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
                for (u32 j = 0; j < 4; ++j) {
                    a[i][j] = j < 2 ? affine_relu(a[i][j], affine.x, affine.z) : affine_relu(a[i][j], affine.y, affine.w);
                }
            }
        }
    }
};

template <class C, bool AFFINE>
__device__ __forceinline__ void multiply_all(Accumulators<C>& sums, const Fragments<C, AFFINE>& f) {
#pragma unroll
    for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
        for (u32 j = 0; j < C::NI; ++j) multiply(sums[i][j], f.a[i], f.b[j / 2][j % 2 * 2], f.b[j / 2][j % 2 * 2 + 1]);
    }
}

template <class C>
__device__ __forceinline__ void clear(Accumulators<C>& sums) {
#pragma unroll
    for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
        for (u32 j = 0; j < C::NI; ++j) {
#pragma unroll
            for (u32 e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
        }
    }
}

template <class C>
__device__ __forceinline__ void add(Accumulators<C>& sums, const Accumulators<C>& others) {
#pragma unroll
    for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
        for (u32 j = 0; j < C::NI; ++j) {
#pragma unroll
            for (u32 e = 0; e < 4; ++e) sums[i][j][e] = __fadd_rn(sums[i][j][e], others[i][j][e]);
        }
    }
}

// First K block of a split.
__device__ __forceinline__ u32 split_begin(const Convolution& p, u32 split) {
    return divide(split * (p.k_padded / K_BLOCK), p.splits) * K_BLOCK;
}

// Sums the products of tile (`across`, `down`) over [k_begin, k_end). With FOLDING, sums of the splits are kept apart and
// added in order.
template <class C, class Pixels, bool FOLDING>
__device__ __forceinline__ void sum_products(const Convolution& p, u32 ring, u32 table, u32 down, u32 across, u32 k_begin, u32 k_end,
                                             Accumulators<C>& sums) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 warp_row = warp / C::WARPS_ACROSS * C::WM, warp_column = warp % C::WARPS_ACROSS * C::WN;
    // ldmatrix: 16 rows x 2 pieces of pixels; 2 x 8 rows x 2 pieces of weights.
    const u32 a_row = lane % 16, b_row = lane % 8 + lane / 16 * 8;
    const u32 a_base = ring + (warp_row + a_row) * C::BK * 2;
    const u32 b_base = ring + C::PIXEL_BYTES + (warp_column + b_row) * C::BK * 2;
    const u32 a_piece = (lane / 16 ^ swizzle<C::BK>(a_row)) * 16, b_piece = (lane / 8 % 2 ^ swizzle<C::BK>(b_row)) * 16;

    Pixels pixels(p, down * C::BM, k_begin, table);
    WeightLoader<C::BN, C::BK, C::THREADS> weights(p, across * C::BN, k_begin);
    const u32 blocks = (k_end - k_begin) / C::BK;
#pragma unroll
    for (u32 s = 0; s + 1 < C::STAGES; ++s) {
        if (s < blocks) {
            pixels.begin(p, ring + s * C::STAGE_BYTES, true);
            weights.load(p, ring + s * C::STAGE_BYTES + C::PIXEL_BYTES, true);
            pixels.end(ring + s * C::STAGE_BYTES);
        }
        commit_copies();
    }
    Accumulators<C> totals;
    u32 split = 0, border = 0;
    if constexpr (FOLDING) border = split_begin(p, 1) / C::BK;
    clear<C>(sums);
    wait_copies<C::STAGES - 2>();
    __syncthreads();

    Fragments<C, Pixels::AFFINE> fragments[2];
    constexpr u32 AFFINE_STEP = 64;  // bytes of the table for 16 channels
    u32 affine_at = table + k_begin / 16 * AFFINE_STEP + lane % 4 * 16;
    fragments[0].load(a_base, b_base, a_piece, b_piece, 0, affine_at);
    u32 reading = 0, writing = (C::STAGES - 1) * C::STAGE_BYTES;
    for (u32 block = 0; block < blocks; ++block) {
        if constexpr (FOLDING) {
            if (block == border) {
                if (split == 0) {
                    clear<C>(totals);
                }
                add<C>(totals, sums);
                clear<C>(sums);
                ++split;
                border = split_begin(p, split + 1) / C::BK;
            }
        }
        const bool more = block + C::STAGES - 1 < blocks;
#pragma unroll
        for (u32 step = 0; step < C::STEPS; ++step) {
            if (step + 1 == C::STEPS) {
                if (more) pixels.end(ring + writing);
                writing = writing == (C::STAGES - 1) * C::STAGE_BYTES ? 0 : writing + C::STAGE_BYTES;
                wait_copies<C::STAGES - 2>();
                __syncthreads();
                reading = reading == (C::STAGES - 1) * C::STAGE_BYTES ? 0 : reading + C::STAGE_BYTES;
            }
            // Behind the last step this reads what nothing uses: the table has an entry more.
            affine_at += AFFINE_STEP;
            fragments[(step + 1) % 2].load(a_base + reading, b_base + reading, a_piece, b_piece, (step + 1) % C::STEPS, affine_at);
            if (step == 0) {
                pixels.begin(p, ring + writing, more);
                weights.load(p, ring + writing + C::PIXEL_BYTES, more);
                commit_copies();
            }
            fragments[step % 2].prepare();
            multiply_all<C>(sums, fragments[step % 2]);
        }
    }
    if constexpr (FOLDING) {
        if (split > 0) {
            add<C>(totals, sums);
#pragma unroll
            for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
                for (u32 j = 0; j < C::NI; ++j) {
#pragma unroll
                    for (u32 e = 0; e < 4; ++e) sums[i][j][e] = totals[i][j][e];
                }
            }
        }
    }
    wait_copies<0>();
    __syncthreads();
}

// Writes 16 rows of a warp's accumulators in row order.
template <class C>
__device__ __forceinline__ void turn_rows(u32 turn, const float (&sums)[C::NI][4]) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 j = 0; j < C::NI; ++j) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 address = turn + ((lane / 4 + half * 8) * C::TURN_ROW + j * 8 + lane % 4 * 2) * 4;
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(sums[j][half * 2]), "f"(sums[j][half * 2 + 1]) : "memory");
        }
    }
}

// The groups of 8 channels that a lane finishes: ROWS apart along the pixels.
template <u32 ROWS>
struct TilePlaces {
    static constexpr bool FLAT = true;
    const Convolution& p;
    u32 first;  // pixel of the chunk
    u32 column;

    __device__ __forceinline__ u32 channel() const { return column; }
    __device__ __forceinline__ bool live(u32 g) const { return first + g * ROWS < p.m; }
    __device__ __forceinline__ u32 flat(u32 g) const { return p.first_pixel + first + g * ROWS; }
    __device__ __forceinline__ Place at(u32 g) const {
        Place place = place_of(p, first + g * ROWS);
        place.channel = column;
        return place;
    }
};

// Hands the tile to the epilogue, 8 channels of a pixel at a time.
template <class C>
__device__ __forceinline__ void store(const Convolution& p, u32 ring, u32 down, u32 across, const Accumulators<C>& sums) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr u32 GROUPS = C::WN / GROUP, ROWS = 32 / GROUPS, COUNT = 16 / ROWS;
    const u32 row = lane / GROUPS, column = lane % GROUPS * GROUP;
    const u32 pixel = down * C::BM + warp / C::WARPS_ACROSS * C::WM + row;
    const u32 channel = across * C::BN + warp % C::WARPS_ACROSS * C::WN + column;
    const u32 turn = ring + warp * 16 * C::TURN_ROW * 4;
    const u32 count = p.n > channel ? min(p.n - channel, GROUP) : 0;
    float bias[GROUP] = {};
    if (count > 0) load_bias(bias, p.epilogue, channel);
    // One copy of what finishes groups serves all rows, so that a launch fetches few instructions; the accumulators must be
    // named by constants.
#pragma unroll 1
    for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
        for (u32 constant = 0; constant < C::MI; ++constant) {
            if (constant == i) turn_rows<C>(turn, sums[constant]);
        }
        __syncwarp();
        if (count > 0) {
            float values[COUNT][GROUP];
#pragma unroll
            for (u32 g = 0; g < COUNT; ++g) {
#pragma unroll
                for (u32 h = 0; h < 2; ++h) {
                    const u32 address = turn + ((row + g * ROWS) * C::TURN_ROW + column + h * 4) * 4;
                    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                                 : "=f"(values[g][h * 4]), "=f"(values[g][h * 4 + 1]), "=f"(values[g][h * 4 + 2]), "=f"(values[g][h * 4 + 3])
                                 : "r"(address)
                                 : "memory");
                }
            }
            finish_groups(values, bias, p.epilogue, TilePlaces<ROWS>{p, pixel + i * 16, channel}, count);
        }
        __syncwarp();
    }
}

// Leaves the sums of one split in memory. True in the block that comes last: it then holds the sums over all splits.
template <class C>
__device__ __forceinline__ bool join(const Convolution& p, u32 tile, u32 split, Accumulators<C>& sums) {
    constexpr u32 SPLIT_FLOATS = C::BM * C::BN, ROUND_FLOATS = C::THREADS * 4;
    const u32 splits = p.splits.divisor;
    float* const partials = reinterpret_cast<float*>(p.partials) + static_cast<u64>(tile) * splits * SPLIT_FLOATS + threadIdx.x * 4;
    float* const mine = partials + static_cast<u64>(split) * SPLIT_FLOATS;
#pragma unroll
    for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
        for (u32 j = 0; j < C::NI; ++j) {
            const float(&s)[4] = sums[i][j];
            __stcg(reinterpret_cast<float4*>(mine + (i * C::NI + j) * ROUND_FLOATS), make_float4(s[0], s[1], s[2], s[3]));
        }
    }
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        u32* const counter = reinterpret_cast<u32*>(p.counters) + tile;
        last = atomicAdd(counter, 1u) + 1 == splits;
        if (last) *counter = 0;
    }
    __syncthreads();
    if (!last) return false;
    __threadfence();
    clear<C>(sums);
    for (u32 other = 0; other < splits; ++other) {
        const float* const theirs = partials + static_cast<u64>(other) * SPLIT_FLOATS;
#pragma unroll
        for (u32 i = 0; i < C::MI; ++i) {
#pragma unroll
            for (u32 j = 0; j < C::NI; ++j) {
                const float4 part = __ldcg(reinterpret_cast<const float4*>(theirs + (i * C::NI + j) * ROUND_FLOATS));
                float(&s)[4] = sums[i][j];
                s[0] = __fadd_rn(s[0], part.x);
                s[1] = __fadd_rn(s[1], part.y);
                s[2] = __fadd_rn(s[2], part.z);
                s[3] = __fadd_rn(s[3], part.w);
            }
        }
    }
    return true;
}

template <class C, template <u32, u32, u32> class Pixels, bool FOLDING>
__device__ __forceinline__ void convolve(const Convolution& p) {
    using Loader = Pixels<C::BM, C::BK, C::THREADS>;
    constexpr bool APART = !FOLDING && Loader::SPLITS;
    extern __shared__ __align__(128) u8 memory[];
    const u32 ring = shared_address(memory), table = ring + C::RING_BYTES;
    Loader::make_table(p, table);
    const u32 splits = APART && p.partials != 0 ? p.splits.divisor : 1;
    for (u32 work = blockIdx.x; work < p.tiles * splits; work += gridDim.x) {
        const u32 tile = splits == 1 ? work : divide(work, p.splits), split = work - tile * splits;
        const u32 down = divide(tile, p.tiles_across), across = tile - down * p.tiles_across.divisor;
        const u32 k_begin = splits == 1 ? 0 : split_begin(p, split), k_end = splits == 1 ? p.k_padded : split_begin(p, split + 1);
        Accumulators<C> sums;
        sum_products<C, Loader, FOLDING>(p, ring, table, down, across, k_begin, k_end, sums);
        bool whole = true;
        if constexpr (APART) whole = splits == 1 || join<C>(p, tile, split, sums);
        if (whole) store<C>(p, ring, down, across, sums);
        __syncthreads();
    }
}

// One kernel of the menu in bind/conv_mma.rs; `resident` blocks share a multiprocessor at the least.
#define CONV_MMA(name, loader, folding, resident, ...)                                        \
    extern "C" __global__ void __launch_bounds__(Cut<__VA_ARGS__>::THREADS, resident)         \
        name(const __grid_constant__ Convolution p) {                                         \
        wait_for_predecessors();                                                              \
        release_successors();                                                                 \
        convolve<Cut<__VA_ARGS__>, loader, folding>(p);                                       \
    }

CONV_MMA(conv_mma_128x256x32_64x64_s4, TapLoader, false, 1, 128, 256, 32, 64, 64, 4)
CONV_MMA(conv_mma_128x128x64_64x64_s3, TapLoader, false, 2, 128, 128, 64, 64, 64, 3)
CONV_MMA(conv_mma_256x64x32_64x64_s4, TapLoader, false, 2, 256, 64, 32, 64, 64, 4)
CONV_MMA(conv_mma_128x64x32_64x64_s4, TapLoader, false, 4, 128, 64, 32, 64, 64, 4)
CONV_MMA(conv_mma_64x128x64_32x64_s4, TapLoader, false, 2, 64, 128, 64, 32, 64, 4)
CONV_MMA(conv_mma_64x64x64_32x32_s4, TapLoader, false, 3, 64, 64, 64, 32, 32, 4)
CONV_MMA(conv_mma_64x64x64_32x32_s3, TapLoader, false, 4, 64, 64, 64, 32, 32, 3)
CONV_MMA(conv_mma_32x64x64_32x32_s4, TapLoader, false, 6, 32, 64, 64, 32, 32, 4)
CONV_MMA(conv_mma_32x64x64_16x32_s4, TapLoader, false, 4, 32, 64, 64, 16, 32, 4)
CONV_MMA(conv_mma_32x32x64_16x16_s6, TapLoader, false, 4, 32, 32, 64, 16, 16, 6)
CONV_MMA(conv_mma_16x64x64_16x16_s5, TapLoader, false, 4, 16, 64, 64, 16, 16, 5)
CONV_MMA(conv_mma_64x128x64_32x64_s4_fold, TapLoader, true, 2, 64, 128, 64, 32, 64, 4)
CONV_MMA(conv_mma_64x64x64_32x32_s4_fold, TapLoader, true, 3, 64, 64, 64, 32, 32, 4)
CONV_MMA(conv_mma_64x64x32_32x32_s3_gather, GatherLoader, false, 4, 64, 64, 32, 32, 32, 3)
CONV_MMA(conv_mma_64x32x32_16x32_s3_gather, GatherLoader, false, 4, 64, 32, 32, 16, 32, 3)
CONV_MMA(conv_mma_128x16x32_32x16_s3_gather, GatherLoader, false, 4, 128, 16, 32, 32, 16, 3)
CONV_MMA(conv_mma_128x128x32_32x64_s4_affine, AffineLoader, false, 1, 128, 128, 32, 32, 64, 4)
CONV_MMA(conv_mma_64x128x64_32x64_s3_affine, AffineLoader, false, 2, 64, 128, 64, 32, 64, 3)
CONV_MMA(conv_mma_64x64x64_32x32_s3_affine, AffineLoader, false, 3, 64, 64, 64, 32, 32, 3)
CONV_MMA(conv_mma_32x64x64_16x32_s4_affine, AffineLoader, false, 4, 32, 64, 64, 16, 32, 4)
CONV_MMA(conv_mma_32x32x64_16x16_s6_affine, AffineLoader, false, 4, 32, 32, 64, 16, 16, 6)
CONV_MMA(conv_mma_16x32x64_16x16_s6_affine, AffineLoader, false, 4, 16, 32, 64, 16, 16, 6)
