// Group normalisation of `[N, C, s..]`: the channels in groups of neighbours, each with all its places, any layout and tail.
//
// Halves have one order of sums, fixed by the shape of a sample (plan/tactic/group_normalise.rs): it does not matter whether the
// blocks of a cluster share a sample, one block has it alone, or a batch is cut. Channels are cut into slabs of whole groups, pixels
// into parts, and a pixel of a slab into pieces of 8 channels. A thread has every so manieth piece of a part and adds up each of
// its 8 channels; pieces of a thread hold the same channels unless the slab is one group. Then the sums of neighbouring channels of a
// group are added in order, those of a group by the lanes of a warp in turns and folded in halves, and at last those of the parts in
// order. The mean comes of the sum, the deviation of the squared differences from it, as in normalise_order.cuh.
//
// What fits into shared memory is read only once; each thread reads back what it has put there itself.
//
//     group_normalise_shares    a cluster has a slab, a block a part
//     group_normalise_alone     a block has a slab, part after part
//     .._pieces                 pieces lie on 16 bytes, scale and shift are constants, and at most a relu follows; what of these has
//                               several parts is group_spread.cu's
//     group_normalise_floats    of f32 as on the CPU: sixteen partial sums by the position modulo sixteen, folded in halves
#include "cluster.cuh"
#include "group_normalise.cuh"
#include "mma.cuh"
#include "parameters.cuh"

constexpr u32 MAX_PARTS = 8;
constexpr u32 TOGETHER = 4;         // pieces that a thread reads at once where they are not kept
constexpr u32 FLOAT_THREADS = 256;
constexpr u32 LANES = 16;           // that sum a group of f32
constexpr u32 BUFFERED = 4096;      // its values in shared memory

// A block's shared memory, in front of the pieces that its threads keep: by part, by a thread's piece of it, by thread.
struct Exchange {
    float values[VALUES];
    float sums[2][MAX_PARTS][MAX_GROUPS];  // of sums and of squares, by part
    float found[2][MAX_GROUPS];            // means and factors
};

static_assert(sizeof(Exchange) == 19200, "mirrored in bind/group_normalise.rs");

extern __shared__ uint4 shared_memory[];

// SHARED: by the blocks of a cluster, one a part.
template <bool SHARED, bool PIECES>
__device__ __forceinline__ void group_normalise(const GroupNormalise& p) {
    Exchange& exchange = *reinterpret_cast<Exchange*>(shared_memory);
    uint4* const all_kept = shared_memory + sizeof(Exchange) / 16 + threadIdx.x;
    const u32 blocks = SHARED ? p.parts : 1;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 rank = 0;
    if constexpr (SHARED) rank = cluster_rank();
    const u32 row = divide(threadIdx.x, p.pieces), piece = threadIdx.x - row * p.pieces.divisor;
    if constexpr (SHARED) cluster_arrive_relaxed();
    bring_around(p, p.tail);
    wait_for_predecessors();
    release_successors();
    bool begun = false;
    for (u32 tile = blockIdx.x / blocks; tile < p.tiles; tile += gridDim.x / blocks) {
        const Slab slab = slab_of(p, tile);
        const u32 groups = divide(slab.channels, p.group);
        const bool active = threadIdx.x < p.threads && piece * EACH < slab.channels;
        // A thread's first piece of a part, the pixel behind the part, and where the thread keeps its pieces.
        const auto first_of = [&](u32 part) { return Spot{part * p.share + row, piece}; };
        const auto end_of = [&](u32 part) {
            const u32 end = (part + 1) * p.share;
            return !active ? 0 : end < p.pixels.divisor ? end : p.pixels.divisor;
        };
        const auto kept_of = [&](u32 part) { return all_kept + (SHARED ? 0 : part * p.kept) * THREADS; };
        for (u32 part = rank; part < p.parts; part += blocks) {
            Spot s = first_of(part);
            uint4* const kept = kept_of(part);
            const u32 end = end_of(part);
#pragma unroll 1
            for (u32 i = 0; i < p.kept && s.pixel < end; ++i) {
                if constexpr (PIECES) {
                    copy_16(shared_address(kept + i * THREADS), piece_at(p, slab, s), 16);
                } else {
                    kept[i * THREADS] = load_piece<PIECES>(p, slab, s);
                }
                advance(p, s);
            }
        }
        // A thread's pieces have the same channels where it steps over whole pixels.
        Constants by = {};
        if constexpr (PIECES) {
            by = constants_of(p, slab.front + piece * EACH);
            commit_copies();
            wait_copies<0>();
        }
        // Every piece of a part that is this thread's: its place, its halves.
        const auto every = [&](u32 part, auto take) {
            Spot s = first_of(part);
            const uint4* const kept = kept_of(part);
            const u32 end = end_of(part);
#pragma unroll 2
            for (u32 i = 0; i < p.kept && s.pixel < end; ++i) {
                take(s, kept[i * THREADS]);
                advance(p, s);
            }
#pragma unroll 1
            while (s.pixel < end) {
                constexpr u32 COUNT = PIECES ? TOGETHER : 1;
                uint4 bits[COUNT];
                Spot ahead = s;
#pragma unroll
                for (u32 i = 0; i < COUNT; ++i) {
                    if (ahead.pixel < end) bits[i] = load_piece<PIECES>(p, slab, ahead);
                    advance(p, ahead);
                }
#pragma unroll
                for (u32 i = 0; i < COUNT; ++i) {
                    if (s.pixel < end) take(s, bits[i]);
                    advance(p, s);
                }
            }
        };
        // First the means, then the factors, of this thread's channels.
        Moments moments = {};
#pragma unroll 1
        for (u32 squares = 0; squares < 2; ++squares) {
#pragma unroll 1
            for (u32 part = rank; part < p.parts; part += blocks) {
                float each[EACH] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
                every(part, [&](Spot s, uint4 bits) {
                    add_piece(squares, moments.mean, bits, channels_of<PIECES>(slab, s.piece), each);
                });
                put_bins(p, each, exchange.values);
                __syncthreads();
                if constexpr (SHARED) {
                    // Before the first write into another block it must run.
                    if (!begun) cluster_wait();
                    begun = true;
                }
                for (u32 group = warp; group < groups; group += WARPS) {
                    const float sum = group_sum(p, exchange.values, group);
                    float* const to = &exchange.sums[squares][part][group];
                    if constexpr (SHARED) {
                        if (lane < blocks) store_remote(remote_address(shared_address(to), lane), sum);
                    } else {
                        if (lane == 0) *to = sum;
                    }
                }
                if constexpr (!SHARED) __syncthreads();
            }
            if constexpr (SHARED) cluster_meet();
            if (threadIdx.x < groups) {
                float sum = exchange.sums[squares][0][threadIdx.x];
                for (u32 part = 1; part < p.parts; ++part) sum = __fadd_rn(sum, exchange.sums[squares][part][threadIdx.x]);
                exchange.found[squares][threadIdx.x] = squares ? reciprocal_deviation(sum, p.count, p.epsilon) : __fmul_rn(sum, p.count);
            }
            __syncthreads();
            of_channels(p, exchange.found[squares], groups, piece, moments.factor);
            if (!squares) {
#pragma unroll
                for (u32 k = 0; k < EACH; ++k) moments.mean[k] = moments.factor[k];
            }
        }
#pragma unroll 1
        for (u32 part = rank; part < p.parts; part += blocks) {
            every(part, [&](Spot s, uint4 bits) {
                if (PIECES && p.step_pieces != 0) by = constants_of(p, slab.front + s.piece * EACH);
                store_piece<PIECES>(p, slab, s, bits, moments, by);
            });
        }
    }
}

// Kernels by who has a slab and how pieces lie, with the fewest blocks that a multiprocessor should hold. Architectures from sm_90
// on have clusters.
#define GROUP_NORMALISE(NAME, BLOCKS, SHARED, PIECES)                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(const __grid_constant__ GroupNormalise p) { \
        group_normalise<SHARED, PIECES>(p);                                                                        \
    }

GROUP_NORMALISE(group_normalise_alone, 1, false, false)
GROUP_NORMALISE(group_normalise_alone_pieces, 2, false, true)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
GROUP_NORMALISE(group_normalise_shares, 1, true, false)
#endif

// A block has a group. All threads read its values, and sixteen sum them, so that their order is that of the CPU.
extern "C" __global__ void __launch_bounds__(FLOAT_THREADS) group_normalise_floats(const __grid_constant__ GroupNormalise p) {
    __shared__ float buffer[BUFFERED];
    __shared__ float found;
    static_assert(BUFFERED % LANES == 0, "a lane's positions go on from buffer to buffer");
    bring_around(p, p.tail);
    wait_for_predecessors();
    release_successors();
    const u32 elements = p.group.divisor * p.pixels.divisor;
    const float count = static_cast<float>(elements);
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 above = divide(tile, p.slabs), front = (tile - above * p.slabs.divisor) * p.group.divisor;
        // Coordinates of a position in C order.
        const auto place = [&](u32 position, u32(&at)[MAX_RANK]) {
            const u32 channel = divide(position, p.pixels);
            coordinates_of(p, p.first + above, front + channel, position - channel * p.pixels.divisor, at);
        };
        const auto difference = [&](u32 position, float mean) {
            u32 at[MAX_RANK];
            place(position, at);
            return __fsub_rn(*pointer_to<float>(p.x.address, element_of(p.x.strides, at)), mean);
        };
        // The sum of the values, or of the squares of what they have more than `mean`, over their number.
        const auto total = [&](bool squares, float mean) {
            float sum = 0.0f;
            for (u32 first = 0; first < elements; first += BUFFERED) {
                const u32 buffered = elements - first < BUFFERED ? elements - first : BUFFERED;
#pragma unroll 4
                for (u32 i = threadIdx.x; i < buffered; i += FLOAT_THREADS) buffer[i] = difference(first + i, mean);
                __syncthreads();
                if (threadIdx.x < LANES) {
#pragma unroll 8
                    for (u32 i = threadIdx.x; i < buffered; i += LANES) {
                        sum = squares ? __fmaf_rn(buffer[i], buffer[i], sum) : __fadd_rn(sum, buffer[i]);
                    }
                }
                __syncthreads();
            }
            if (threadIdx.x < 32) {
#pragma unroll
                for (u32 half = LANES / 2; half > 0; half /= 2) sum = __fadd_rn(sum, __shfl_down_sync(0xffffffffu, sum, half, LANES));
                if (threadIdx.x == 0) found = __fdiv_rn(sum, count);
            }
            __syncthreads();
            const float result = found;
            __syncthreads();
            return result;
        };
        const float mean = total(false, 0.0f);
        const float deviation = __fsqrt_rn(__fadd_rn(total(true, mean), p.epsilon));
        for (u32 i = threadIdx.x; i < elements; i += FLOAT_THREADS) {
            float v[1] = {__fdiv_rn(difference(i, mean), deviation)};
            u32 at[MAX_RANK];
            place(i, at);
            tail_run(p.tail, v, 1, at, 1);
            const i64 element = element_of(p.y.strides, at);
            if (p.y.dtype == F16) {
                *(reinterpret_cast<u16*>(p.y.address) + element) = float_to_half(v[0]);
            } else {
                *(reinterpret_cast<float*>(p.y.address) + element) = v[0];
            }
        }
    }
}
