// Convolutions of one tap behind scale, shift and relu, for more tiles than the GPU has places: weights stay in shared memory, and
// every warp multiplies tiles of its own.
//
// A block keeps the weights of its output channels. Each of its warps has a ring of pixels that it fills and empties alone, tile
// after tile: while one stores, the others multiply, and the next tile's pixels are on their way. Nobody waits for another warp but
// once, for the weights. Scales and shifts are applied to the operands of `mma.sync`, between shared memory and the product.
//
// There are two orders of K, each with the bits of the kernel that has it for fewer tiles: of conv_mma.cu, one chain of m16n8k16 in
// ascending K; of conv_warps.cu, chains of some pieces of 32 channels, whose sums are added in order. In a piece, lane `l` holds
// channels 8 (l % 4) to 8 (l % 4) + 7 of both operands, and the first product takes the lower half of these.
//
// For tails of a bias and a relu, and pixels that follow each other at one distance (bind/conv_affine.rs); others take those kernels.
#include "chain.cuh"
#include "conv_params.cuh"
#include "mma.cuh"

struct ConvAffine {
    Convolution product;
    u32 chain;   // pieces of a chain
    u32 across;  // tiles of output channels; divides the blocks of the launch
};

static_assert(sizeof(ConvAffine) == sizeof(Convolution) + 8, "mirrored in bind/conv_affine.rs");

enum class Order { ASCENDING, PIECES };

constexpr u32 WARP = 32, WARPS = 8, THREADS = WARPS * WARP;
constexpr u32 PIXELS = 32;                        // of a warp's tile
constexpr u32 DOWN = PIXELS / 16;                 // products along the pixels
constexpr u32 BLOCK_K = 64, BLOCK_ROW = BLOCK_K * 2;  // channels of a stage, and the bytes of their row
constexpr u32 GROUPS = BLOCK_K / GROUP;           // of 16 bytes in such a row
constexpr u32 STAGE_BYTES = PIXELS * BLOCK_ROW;
constexpr u32 PIECE_CHANNELS = 32;
constexpr u32 STRIP = 64;                         // channels of 16 pixels that a warp turns round at a time
constexpr u32 STRIP_BYTES = 16 * STRIP * 2;
constexpr u32 BIAS_BYTES = 512;                   // of the most channels of a block

// N output channels, a ring of DEPTH stages for each warp.
template <u32 N, u32 DEPTH, Order ORDER_>
struct Shape {
    static constexpr u32 CHANNELS = N, ACROSS = N / 8, STAGES = DEPTH;
    static constexpr Order ORDER = ORDER_;
    static constexpr u32 WEIGHT_BYTES = N * BLOCK_ROW;  // of 64 input channels

    // Place of a group of 8 channels in its row: what a warp reads at once lies in different banks.
    __device__ __forceinline__ static u32 place(u32 row, u32 group) {
        return group ^ (ORDER == Order::ASCENDING ? row % 8 : row % 2 * 4);
    }
};

__device__ __forceinline__ uint4 load_16(u32 shared) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(shared) : "memory");
    return v;
}

// Both halves, or of a relu those that are not below 0, else 0, as `relu_halves` has them.
__device__ __forceinline__ u32 bounded(u32 halves, u32 relu) {
    u32 below;
    asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(below) : "r"(0), "r"(halves));
    return halves & ~(below & relu);
}

__device__ __forceinline__ u32 word(const uint4& v, u32 i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// Asks for the weights of a block and for its table of scales and shifts, and writes its biases.
template <class S>
__device__ __forceinline__ void load_constants(const Convolution& p, u32 channel, u32 weights, u32 table, u32 biases) {
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, groups = p.k_padded / GROUP;
#pragma unroll 1
    for (u32 row = warp; row < S::CHANNELS; row += WARPS) {
        const u64 from = p.weights + 2 * static_cast<u64>(channel + row) * p.k_padded;
        const u32 bytes = channel + row < p.n ? 16 : 0;
        for (u32 i = lane; i < groups; i += WARP) {
            copy_16(weights + i / GROUPS * S::WEIGHT_BYTES + row * BLOCK_ROW + S::place(row, i % GROUPS) * 16, from + i * 16, bytes);
        }
    }
    for (u32 i = threadIdx.x; i < p.k_padded / 4; i += THREADS) copy_16(table + i * 16, p.affine + i * 16, 16);
    commit_copies();
    for (u32 i = threadIdx.x; i < S::CHANNELS; i += THREADS) {
        const bool has = p.epilogue.bias != 0 && channel + i < p.n;
        const float bias = has ? reinterpret_cast<const float*>(p.epilogue.bias)[channel + i] : 0.0f;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(biases + i * 4), "f"(bias) : "memory");
    }
}

// What a warp loads next: a block of 64 channels of a tile.
template <class S>
struct Loader {
    u32 tile, step, block;
    u32 stage;              // of the ring, in bytes
    i32 offsets[PIXELS / 4];  // elements to the pixels that this lane copies from

    __device__ __forceinline__ Loader(const Convolution& p, u32 first, u32 step_) : tile(first), step(step_), block(0), stage(0) { aim(p); }

    __device__ __forceinline__ void aim(const Convolution& p) {
#pragma unroll
        for (u32 i = 0; i < PIXELS / 4; ++i) {
            // Behind the last pixel the last is read again: what is computed there goes nowhere.
            const u32 pixel = min(tile * PIXELS + i * 4 + threadIdx.x % WARP / GROUPS, p.m - 1);
            offsets[i] = static_cast<i32>(p.first_pixel + pixel) * p.x_pixel;
        }
    }

    // Asks for the next block, if there is one.
    __device__ __forceinline__ void load(const Convolution& p, u32 ring) {
        if (tile < p.tiles) {
            const u32 lane = threadIdx.x % WARP, group = lane % GROUPS, channel = block * BLOCK_K + group * GROUP;
            const u32 bytes = channel < p.k ? 16 : 0;
            const u64 from = p.x + 2 * channel;
#pragma unroll
            for (u32 i = 0; i < PIXELS / 4; ++i) {
                const u32 row = i * 4 + lane / GROUPS;
                copy_16(ring + stage + row * BLOCK_ROW + S::place(row, group) * 16, from + static_cast<i64>(offsets[i]) * 2, bytes);
            }
            stage = stage == (S::STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
            if (++block * BLOCK_K >= p.k_padded) {
                block = 0;
                tile += step;
                if (tile < p.tiles) aim(p);
            }
        }
        commit_copies();
    }
};

template <class S>
using Sums = float[DOWN][S::ACROSS][4];

template <class S>
__device__ __forceinline__ void clear(Sums<S>& sums) {
#pragma unroll
    for (u32 d = 0; d < DOWN; ++d) {
#pragma unroll
        for (u32 j = 0; j < S::ACROSS; ++j) sums[d][j][0] = sums[d][j][1] = sums[d][j][2] = sums[d][j][3] = 0.0f;
    }
}

// Multiplies 16 channels of a stage: in ascending order.
template <class S>
__device__ __forceinline__ void multiply_step(Sums<S>& sums, u32 pixels, u32 weights, u32 table, u32 step) {
    const u32 lane = threadIdx.x % WARP;
    // ldmatrix: 16 rows x 2 groups of pixels; 2 x 8 rows x 2 groups of weights.
    const u32 a_row = lane % 16, b_row = lane % 8 + lane / 16 * 8;
    const uint4 affine = load_16(table + step * 64 + lane % 4 * 16);
    u32 a[DOWN][4];
#pragma unroll
    for (u32 d = 0; d < DOWN; ++d) {
        load_matrices(a[d], pixels + (d * 16 + a_row) * BLOCK_ROW + S::place(a_row, step * 2 + lane / 16) * 16);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) a[d][i] = i < 2 ? affine_relu(a[d][i], affine.x, affine.z) : affine_relu(a[d][i], affine.y, affine.w);
    }
#pragma unroll
    for (u32 j = 0; j < S::ACROSS; j += 2) {
        u32 b[4];
        load_matrices(b, weights + (j * 8 + b_row) * BLOCK_ROW + S::place(b_row, step * 2 + lane / 8 % 2) * 16);
#pragma unroll
        for (u32 d = 0; d < DOWN; ++d) {
            multiply(sums[d][j], a[d], b[0], b[1]);
            multiply(sums[d][j + 1], a[d], b[2], b[3]);
        }
    }
}

// Multiplies a piece, which begins with group `group` of a stage.
template <class S>
__device__ __forceinline__ void multiply_piece(Sums<S>& sums, u32 pixels, u32 weights, u32 scales, u32 shifts, u32 group) {
    const u32 lane = threadIdx.x % WARP, row = lane / 4;
    const uint4 scale = load_16(scales + lane % 4 * 16), shift = load_16(shifts + lane % 4 * 16);
    const u32 place = row * BLOCK_ROW + S::place(row, group + lane % 4) * 16;
    u32 a[DOWN][2][4];
#pragma unroll
    for (u32 d = 0; d < DOWN; ++d) {
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            const uint4 x = load_16(pixels + place + (d * 16 + i * 8) * BLOCK_ROW);
#pragma unroll
            for (u32 w = 0; w < 4; ++w) a[d][w / 2][i + w % 2 * 2] = affine_relu(word(x, w), word(scale, w), word(shift, w));
        }
    }
#pragma unroll
    for (u32 j = 0; j < S::ACROSS; ++j) {
        const uint4 b = load_16(weights + place + j * 8 * BLOCK_ROW);
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
#pragma unroll
            for (u32 d = 0; d < DOWN; ++d) multiply(sums[d][j], a[d][half], word(b, half * 2), word(b, half * 2 + 1));
        }
    }
}

// The sums of a tile, whose blocks of pixels come through the warp's ring from stage `stage` on.
template <class S>
__device__ __forceinline__ void sum_products(const ConvAffine& f, Loader<S>& loader, Sums<S>& sums, u32 weights, u32 table, u32 ring, u32& stage) {
    const Convolution& p = f.product;
    const u32 blocks = p.k_padded / BLOCK_K;
    Sums<S> chain;
    u32 left = f.chain;
    bool first = true;
    clear<S>(sums);
    if constexpr (S::ORDER == Order::PIECES) clear<S>(chain);
#pragma unroll 1
    for (u32 block = 0; block < blocks; ++block) {
        wait_copies<S::STAGES - 2>();
        __syncwarp();
        loader.load(p, ring);
        const u32 pixels = ring + stage, from = weights + block * S::WEIGHT_BYTES;
        stage = stage == (S::STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
        const u32 channels = p.k - block * BLOCK_K;
        if constexpr (S::ORDER == Order::ASCENDING) {
            const u32 entries = table + block * (BLOCK_K * 4);
            if (channels >= BLOCK_K) {
#pragma unroll
                for (u32 step = 0; step < BLOCK_K / 16; ++step) multiply_step<S>(sums, pixels, from, entries, step);
            } else {
#pragma unroll 1
                for (u32 step = 0; step * 16 < channels; ++step) multiply_step<S>(sums, pixels, from, entries, step);
            }
        } else {
#pragma unroll 1
            for (u32 piece = 0; piece < 2 && piece * PIECE_CHANNELS < channels; ++piece) {
                const u32 scales = table + (block * BLOCK_K + piece * PIECE_CHANNELS) * 2;
                multiply_piece<S>(chain, pixels, from, scales, scales + p.k_padded * 2, piece * (PIECE_CHANNELS / GROUP));
                if (--left > 0 && block * BLOCK_K + (piece + 1) * PIECE_CHANNELS < p.k) continue;
#pragma unroll
                for (u32 d = 0; d < DOWN; ++d) {
#pragma unroll
                    for (u32 j = 0; j < S::ACROSS; ++j) {
#pragma unroll
                        for (u32 i = 0; i < 4; ++i) sums[d][j][i] = first ? chain[d][j][i] : __fadd_rn(sums[d][j][i], chain[d][j][i]);
                    }
                }
                clear<S>(chain);
                first = false;
                left = f.chain;
            }
        }
    }
}

// Byte of a group of 8 channels of a strip: the same group of 8 rows meets different banks.
__device__ __forceinline__ u32 strip_place(u32 row, u32 group) { return row * (STRIP * 2) + (group ^ row % 8) * 16; }

// Rounds the sums of a tile and stores them, 16 pixels of 64 channels at a time.
template <class S>
__device__ __forceinline__ void store(const Convolution& p, const Sums<S>& sums, u32 tile, u32 first_channel, u32 strip, u32 biases) {
    const Epilogue& e = p.epilogue;
    const u32 lane = threadIdx.x % WARP, own = first_channel + lane % GROUPS * GROUP, pixel = tile * PIXELS + lane / GROUPS;
    // Rows of this lane that are stored, of every fourth one.
    const u32 live = p.m > pixel ? (p.m - pixel + 3) / 4 : 0;
    const u64 step = 8 * e.output.pixel;
    const u32 relu = e.function == EPILOGUE_RELU ? ~0u : 0u;
#pragma unroll
    for (u32 first = 0; first < S::CHANNELS; first += STRIP) {
        const bool stored = own + first < p.n;
        u64 to = e.output.address + 2 * ((p.first_pixel + pixel) * e.output.pixel + own + first);
#pragma unroll
        for (u32 d = 0; d < DOWN; ++d) {
            __syncwarp();
#pragma unroll
            for (u32 j = 0; j < STRIP / 8; j += 2) {
                u32 halves[4];
#pragma unroll
                for (u32 i = 0; i < 2; ++i) {
                    const float(&s)[4] = sums[d][first / 8 + j + i];
                    float2 bias;
                    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                                 : "=f"(bias.x), "=f"(bias.y)
                                 : "r"(biases + (first + (j + i) * 8 + lane % 4 * 2) * 4)
                                 : "memory");
                    halves[i * 2] = two_halves(__fadd_rn(s[0], bias.x), __fadd_rn(s[1], bias.y));
                    halves[i * 2 + 1] = two_halves(__fadd_rn(s[2], bias.x), __fadd_rn(s[3], bias.y));
                }
#pragma unroll
                for (u32 i = 0; i < 4; ++i) halves[i] = bounded(halves[i], relu);
                // Lanes 8 i .. 8 i + 7 name the rows of the i-th 8 by 8 matrix: upper and lower rows of two groups of channels.
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(strip + strip_place(lane % 16, lane / 16 + j)),
                             "r"(halves[0]), "r"(halves[1]), "r"(halves[2]), "r"(halves[3])
                             : "memory");
            }
            __syncwarp();
#pragma unroll
            for (u32 i = 0; i < 4; ++i, to += step) {
                const uint4 bits = load_16(strip + strip_place(i * 4 + lane / GROUPS, lane % GROUPS));
                if (stored && d * 4 + i < live) {
                    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w) : "memory");
                }
            }
        }
    }
}

template <class S>
__device__ __forceinline__ void convolve(const ConvAffine& f) {
    extern __shared__ __align__(128) u8 memory[];
    const Convolution& p = f.product;
    // Shared memory: weights, the warps' rings, the strips in which they turn sums round, biases, the table.
    const u32 warp = threadIdx.x / WARP, weights = shared_address(memory);
    const u32 rings = weights + p.k_padded / BLOCK_K * S::WEIGHT_BYTES, strips = rings + WARPS * S::STAGES * STAGE_BYTES;
    const u32 biases = strips + WARPS * STRIP_BYTES, table = biases + BIAS_BYTES, ring = rings + warp * S::STAGES * STAGE_BYTES;
    const u32 lane = blockIdx.x % f.across, row = blockIdx.x / f.across, rows = gridDim.x / f.across;
    // Weights are constants.
    load_constants<S>(p, lane * S::CHANNELS, weights, table, biases);
    wait_for_predecessors();
    release_successors();
    // Neighbouring tiles are of different blocks, so that all have some.
    const u32 first = warp * rows + row, step = WARPS * rows;
    Loader<S> loader(p, first, step);
#pragma unroll
    for (u32 i = 0; i + 1 < S::STAGES; ++i) loader.load(p, ring);
    wait_copies<S::STAGES - 1>();
    __syncthreads();
    u32 stage = 0;
#pragma unroll 1
    for (u32 tile = first; tile < p.tiles; tile += step) {
        Sums<S> sums;
        sum_products<S>(f, loader, sums, weights, table, ring, stage);
        store<S>(p, sums, tile, lane * S::CHANNELS, strips + warp * STRIP_BYTES, biases);
    }
}

// Kernels of the menus (plan/tactic/conv_affine.rs): output channels of a block, stages of a warp, order of K.
#define CONV_AFFINE(name, channels, stages, order)                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) name(const __grid_constant__ ConvAffine p) {               \
        convolve<Shape<channels, stages, Order::order>>(p);                                                            \
    }

CONV_AFFINE(conv_affine_128_s3_ascending, 128, 3, ASCENDING)
CONV_AFFINE(conv_affine_128_s2_ascending, 128, 2, ASCENDING)
CONV_AFFINE(conv_affine_64_s4_ascending, 64, 4, ASCENDING)
CONV_AFFINE(conv_affine_64_s2_ascending, 64, 2, ASCENDING)
CONV_AFFINE(conv_affine_64_s3_pieces, 64, 3, PIECES)
CONV_AFFINE(conv_affine_64_s2_pieces, 64, 2, PIECES)
