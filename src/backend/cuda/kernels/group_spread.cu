// Group normalisation of pictures of halves that are shared out among many blocks, by two launches.
//
//     group_moments        a block has a part of a slab: of each group the mean, and the squared differences from it
//     group_moments_whole  the same of slabs that are one group, in one go
//     group_spread         a block has such a part again, joins what was found of all (Chan, Golub and LeVeque 1983), and normalises it
//
// Parts are of a sample's shape alone (plan/tactic/group_normalise.rs), and so are the bits. A launch begins in less time than blocks of a
// cluster take to meet twice, and it takes no room that others must leave.

#include "group_normalise.cuh"
#include "parameters.cuh"

constexpr u32 HELD = 2;          // pieces of a part that a thread reads at once, and keeps
constexpr u32 MAX_SPREAD = 128;  // parts of a sample
constexpr u32 PARTS_A_LANE = MAX_SPREAD / 32;

// A block's part of a slab, and this thread's pieces of it.
struct Part {
    Slab slab;
    u32 tile, part, groups;
    Spot first;
    u32 end;  // the pixel behind the part

    __device__ __forceinline__ Part(const GroupNormalise& p, u32 index) {
        tile = index / p.parts, part = index - tile * p.parts;
        slab = slab_of(p, tile);
        groups = divide(slab.channels, p.group);
        const u32 row = divide(threadIdx.x, p.pieces), piece = threadIdx.x - row * p.pieces.divisor;
        first = Spot{part * p.share + row, piece};
        end = threadIdx.x < p.threads && piece * EACH < slab.channels ? end_of(p, part) : 0;
    }

    static __device__ __forceinline__ u32 end_of(const GroupNormalise& p, u32 part) {
        return min((part + 1) * p.share, p.pixels.divisor);
    }

    static __device__ __forceinline__ u32 pixels_of(const GroupNormalise& p, u32 part) {
        return end_of(p, part) - min(part * p.share, p.pixels.divisor);
    }

    // Where what was found of a part's group lies.
    static __device__ __forceinline__ float2* found(const GroupNormalise& p, u32 tile, u32 part, u32 group) {
        return reinterpret_cast<float2*>(p.partials) + (tile * p.parts + part) * divide(p.span, p.group) + group;
    }
};

// Pieces that a thread has read, from a place on.
struct Pieces {
    uint4 bits[HELD];

    __device__ __forceinline__ Spot load(const GroupNormalise& p, const Part& part, Spot s) {
#pragma unroll
        for (u32 i = 0; i < HELD; ++i) {
            if (s.pixel < part.end) bits[i] = load_piece<true>(p, part.slab, s);
            advance(p, s);
        }
        return s;
    }

    template <class Take>
    __device__ __forceinline__ void each(const GroupNormalise& p, const Part& part, Spot s, const Take& take) const {
#pragma unroll
        for (u32 i = 0; i < HELD; ++i) {
            if (s.pixel < part.end) take(s, bits[i]);
            advance(p, s);
        }
    }
};

// Takes all of a thread's pieces: those that are held, which end in front of `behind`, and those behind.
template <class Take>
__device__ __forceinline__ void every(const GroupNormalise& p, const Part& part, const Pieces& held, Spot behind, const Take& take) {
    held.each(p, part, part.first, take);
#pragma unroll 1
    while (behind.pixel < part.end) {
        Pieces more;
        const Spot next = more.load(p, part, behind);
        more.each(p, part, behind, take);
        behind = next;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) group_moments(const __grid_constant__ GroupNormalise p) {
    __shared__ float values[VALUES];
    __shared__ float means[MAX_GROUPS];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    bring_around(p, p.tail);
    wait_for_predecessors();
    release_successors();
#pragma unroll 1
    for (u32 index = blockIdx.x; index < p.tiles * p.parts; index += gridDim.x) {
        const Part part(p, index);
        Pieces held;
        const Spot behind = held.load(p, part, part.first);
        const float elements = static_cast<float>(Part::pixels_of(p, part.part) * p.group.divisor);
        float mean[EACH] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
        for (u32 squares = 0; squares < 2; ++squares) {
            float each[EACH] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
            every(p, part, held, behind, [&](Spot, uint4 bits) { add_piece(squares, mean, bits, EACH, each); });
            put_bins(p, each, values);
            __syncthreads();
            for (u32 group = warp; group < part.groups; group += WARPS) {
                const float sum = group_sum(p, values, group);
                if (lane != 0) continue;
                if (squares) {
                    *Part::found(p, part.tile, part.part, group) = make_float2(means[group], sum);
                } else {
                    means[group] = elements > 0.0f ? __fdiv_rn(sum, elements) : 0.0f;
                }
            }
            __syncthreads();
            if (!squares) of_channels(p, means, part.groups, part.first.piece, mean);
        }
    }
}

// Whatever a thread has belongs to the one group. Differences are taken from the mean of the part's first piece: from anything near the
// values, sums of squares lose nothing that the last step has to take from them.
extern "C" __global__ void __launch_bounds__(THREADS, 2) group_moments_whole(const __grid_constant__ GroupNormalise p) {
    __shared__ float sums[2][WARPS];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    bring_around(p, p.tail);
    wait_for_predecessors();
    release_successors();
#pragma unroll 1
    for (u32 index = blockIdx.x; index < p.tiles * p.parts; index += gridDim.x) {
        const Part part(p, index);
        const u32 pixels = Part::pixels_of(p, part.part);
        Pieces held;
        const Spot behind = held.load(p, part, part.first);
        float shift = 0.0f;
        if (pixels > 0) {
            float values[EACH];
            widen(load_piece<true>(p, part.slab, Spot{part.part * p.share, 0}), values);
            shift = __fmul_rn(in_order(values), 1.0f / EACH);
        }
        float sum = 0.0f, squares = 0.0f;
        every(p, part, held, behind, [&](Spot, uint4 bits) {
            float values[EACH];
            widen(bits, values);
#pragma unroll
            for (u32 k = 0; k < EACH; ++k) {
                const float difference = __fsub_rn(values[k], shift);
                sum = __fadd_rn(sum, difference);
                squares = __fmaf_rn(difference, difference, squares);
            }
        });
        sum = folded<32>(sum), squares = folded<32>(squares);
        if (lane == 0) sums[0][warp] = sum, sums[1][warp] = squares;
        __syncthreads();
        if (warp == 0) {
            sum = folded<WARPS>(sums[0][lane % WARPS]), squares = folded<WARPS>(sums[1][lane % WARPS]);
            const float mean = pixels > 0 ? __fdiv_rn(sum, static_cast<float>(pixels * p.group.divisor)) : 0.0f;
            const float apart = __fmaf_rn(-mean, sum, squares);
            if (lane == 0) *Part::found(p, part.tile, part.part, 0) = make_float2(__fadd_rn(shift, mean), apart < 0.0f ? 0.0f : apart);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) group_spread(const __grid_constant__ GroupNormalise p) {
    __shared__ float means[MAX_GROUPS], factors[MAX_GROUPS];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float pixels = __fdiv_rn(1.0f, static_cast<float>(p.pixels.divisor)), channels = static_cast<float>(p.group.divisor);
    bring_around(p, p.tail);
    wait_for_predecessors();
    release_successors();
#pragma unroll 1
    for (u32 index = blockIdx.x; index < p.tiles * p.parts; index += gridDim.x) {
        const Part part(p, index);
        Pieces held;
        const Spot behind = held.load(p, part, part.first);
        Constants by = constants_of(p, part.slab.front + part.first.piece * EACH);
        for (u32 group = warp; group < part.groups; group += WARPS) {
            // Of each part, weighed by its pixels.
            float2 of[PARTS_A_LANE];
            float weights[PARTS_A_LANE], sum = 0.0f, squares = 0.0f;
#pragma unroll
            for (u32 i = 0; i < PARTS_A_LANE; ++i) {
                const u32 other = lane + 32 * i;
                of[i] = make_float2(0.0f, 0.0f), weights[i] = 0.0f;
                if (other >= p.parts) continue;
                of[i] = *Part::found(p, part.tile, other, group);
                weights[i] = static_cast<float>(Part::pixels_of(p, other));
            }
#pragma unroll
            for (u32 i = 0; i < PARTS_A_LANE; ++i) sum = __fmaf_rn(weights[i], of[i].x, sum);
            const float mean = __fmul_rn(folded<32>(sum), pixels);
#pragma unroll
            for (u32 i = 0; i < PARTS_A_LANE; ++i) {
                const float apart = __fsub_rn(of[i].x, mean);
                squares = __fadd_rn(squares, __fmaf_rn(__fmul_rn(weights[i], channels), __fmul_rn(apart, apart), of[i].y));
            }
            const float factor = reciprocal_deviation(folded<32>(squares), p.count, p.epsilon);
            if (lane == 0) means[group] = mean, factors[group] = factor;
        }
        __syncthreads();
        Moments moments;
        of_channels(p, means, part.groups, part.first.piece, moments.mean);
        of_channels(p, factors, part.groups, part.first.piece, moments.factor);
        every(p, part, held, behind, [&](Spot s, uint4 bits) {
            // A thread's pieces have the same channels where it steps over whole pixels.
            if (p.step_pieces != 0) by = constants_of(p, part.slab.front + s.piece * EACH);
            store_piece<true>(p, part.slab, s, bits, moments, by);
        });
        __syncthreads();
    }
}
