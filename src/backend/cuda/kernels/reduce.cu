// Mean, sum, maximum and Euclidean norm over one axis or several, of floats in any layout, in the order of reduce.cuh.
#include "copy_single.cuh"
#include "mma.cuh"
#include "reduce.cuh"

constexpr u32 REDUCE_GROUPS = 8;                    // of neighbours in a block
constexpr u32 REDUCE_THREADS = MAX_SPLITS * REDUCE_GROUPS;
constexpr u32 MANY_SPLITS = REDUCE_THREADS;         // of one group of neighbours in a block, or of one row
constexpr u32 MANY_RUNS = MANY_SPLITS / MAX_SPLITS;
constexpr u32 RUN_PITCH = MAX_SPLITS + 1;           // of a run of ranges in shared memory: the same range of others lies in other banks
constexpr u32 REDUCE_BYTES = 128;                   // that a thread has in flight
constexpr u32 REDUCE_ROWS = REDUCE_THREADS / 32;    // of up to MAX_SPLITS ranges in a block
constexpr u32 ORDERED = 32;                         // outputs of a block whose elements are taken in one range
constexpr u32 ORDERED_STEP = 64;                    // elements of each that come at once
constexpr u32 ORDERED_STAGES = 4;                   // steps in shared memory

// The reduced elements one after another, from a given one on.
struct Steps {
    u64 address;
    u32 inner, middle;  // places along the two innermost parts

    __device__ __forceinline__ Steps(const Reduce& p, u64 from, u32 index) {
        const u32 rows = divide(index, p.inner), planes = divide(rows, p.middle);
        inner = index - rows * p.inner.divisor, middle = rows - planes * p.middle.divisor;
        address = from + 2 * static_cast<u64>(inner * p.steps[0] + middle * p.steps[1] + planes * p.steps[2]);
    }

    __device__ __forceinline__ void next(const Reduce& p) {
        address += 2 * static_cast<u64>(p.steps[0]);
        if (++inner < p.inner.divisor) return;
        inner = 0;
        address += 2 * static_cast<u64>(p.steps[1] - p.inner.divisor * p.steps[0]);
        if (++middle < p.middle.divisor) return;
        middle = 0;
        address += 2 * static_cast<u64>(p.steps[2] - p.middle.divisor * p.steps[1]);
    }
};

// N halves side by side, as they come from memory.
template <u32 N>
struct Piece {
    u32 words[N / 2];

    __device__ __forceinline__ void load(u64 address) {
        if constexpr (N == 8) {
            const uint4 bits = *reinterpret_cast<const uint4*>(address);
            words[0] = bits.x, words[1] = bits.y, words[2] = bits.z, words[3] = bits.w;
        } else {
            words[0] = *reinterpret_cast<const u32*>(address);
        }
    }
    __device__ __forceinline__ float at(u32 k) const { return half_to_float(static_cast<u16>(words[k / 2] >> k % 2 * 16)); }
};

// Takes the elements of a range in order, for N neighbours of f16 on 2 * N bytes: `take` takes one.
template <u32 N, typename Take>
__device__ __forceinline__ void take_range(const Reduce& p, u64 from, u32 first, u32 end, float (&v)[N], Take take) {
    constexpr u32 BATCH = REDUCE_BYTES / (2 * N) < 16 ? REDUCE_BYTES / (2 * N) : 16;
    Steps steps(p, from, first);
    // All threads alike stop behind the longest range.
    for (u32 begin = 0; begin < p.share; begin += BATCH) {
        Piece<N> pieces[BATCH];
#pragma unroll
        for (u32 j = 0; j < BATCH; ++j) {
            if (begin + j >= p.share) break;
            if (first + begin + j < end) pieces[j].load(steps.address);
            steps.next(p);
        }
#pragma unroll
        for (u32 j = 0; j < BATCH; ++j) {
            if (begin + j >= p.share) break;
            if (first + begin + j >= end) continue;
#pragma unroll
            for (u32 k = 0; k < N; ++k) v[k] = take(v[k], pieces[j].at(k));
        }
    }
}

template <u32 N>
__device__ __forceinline__ void reduce_range(const Reduce& p, i64 from, u32 present, u32 first, u32 end, float (&v)[N]) {
    if (N == GROUP && !p.whole) {
        for (u32 i = first; i < end; ++i) {
            float x[N];
            load_run(p.x.address, p.x.dtype, from + reduced_element(p, i), 1, present, x);
#pragma unroll
            for (u32 k = 0; k < N; ++k) v[k] = taken(p.kind, v[k], x[k]);
        }
        return;
    }
    const u64 address = p.x.address + 2 * static_cast<u64>(from);
    if (p.kind == REDUCE_MAX) {
        take_range(p, address, first, end, v, [](float best, float x) { return larger(best, x); });
    } else {
        // A sum is one of products by 1, of the same bits.
        const bool squares = p.kind == REDUCE_NORM;
        take_range(p, address, first, end, v, [=](float sum, float x) { return __fmaf_rn(x, squares ? x : 1.0f, sum); });
    }
}

// Where neighbours that are kept lie side by side: a thread reduces a range of N.
template <u32 N>
__device__ __forceinline__ void reduce_columns(const Reduce& p) {
    __shared__ float partials[REDUCE_GROUPS * N * RUN_PITCH];
    const Generic& g = p.common;
    const bool many = p.splits == MANY_SPLITS;
    const u32 groups = many ? 1 : REDUCE_GROUPS, runs = many ? MANY_RUNS : 1;
    const u32 group = threadIdx.x % groups, split = threadIdx.x / groups;
    const auto find = [&](u32 tile, u32(&at)[MAX_RANK], u32& front, i64& from) {
        const u32 place = divide(tile, p.groups);
        coordinates(g.box, place, at);
        front = (tile - place * p.groups.divisor) * groups * N;  // of the block, in the chunk
        from = element_of(p.x.strides, at) + p.first + front + group * N;
    };
    u32 at[MAX_RANK], front;
    bring_around(p, p.common.tail);
    i64 from;
    find(blockIdx.x, at, front, from);
    settle(static_cast<u32>(from));
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        if (tile != blockIdx.x) find(tile, at, front, from);
        const u32 own = front + group * N;
        const u32 present = own >= p.neighbours ? 0 : p.neighbours - own < N ? p.neighbours - own : N;
        float v[N];
#pragma unroll
        for (u32 k = 0; k < N; ++k) v[k] = start_of(p.kind);
        if (present > 0 && split < p.splits) {
            const u32 first = split * p.share, end = first + p.share < p.count ? first + p.share : p.count;
            reduce_range(p, from, present, first, end, v);
        }
        // A run of ranges for each neighbour lies side by side.
#pragma unroll
        for (u32 k = 0; k < N; ++k) {
            if (split < MAX_SPLITS * runs) partials[((group * N + k) * runs + split / MAX_SPLITS) * RUN_PITCH + split % MAX_SPLITS] = v[k];
        }
        __syncthreads();
        // A thread adds a run for one neighbour. Ranges behind the last element are left out.
        if (threadIdx.x < REDUCE_GROUPS * N) {
            const u32 neighbour = threadIdx.x / runs, run = threadIdx.x % runs;
            const float* const line = &partials[threadIdx.x * RUN_PITCH];
            float total = in_order(p.kind, line[0], used_of(p, run * MAX_SPLITS), [&](u32 i) { return line[i]; });
            if (many) {
                const u32 lanes = REDUCE_GROUPS * N < 32 ? (1u << REDUCE_GROUPS * N % 32) - 1 : 0xffffffffu;
                const float own_run = total;
#pragma unroll
                for (u32 other = 1; other < MANY_RUNS; ++other) {
                    const float more = __shfl_sync(lanes, own_run, other, MANY_RUNS);
                    if (other * MAX_SPLITS < p.used) total = joined(p.kind, total, more);
                }
            }
            if (run == 0 && front + neighbour < p.neighbours) {
                at[p.axis] = p.first + front + neighbour;
                finish(p, total, at);
            }
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(REDUCE_THREADS, 2) reduce_columns_eights(const __grid_constant__ Reduce p) { reduce_columns<8>(p); }
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS, 3) reduce_columns_twos(const __grid_constant__ Reduce p) { reduce_columns<2>(p); }

// Reduces a range of the row that begins at element `from`.
__device__ __forceinline__ float reduce_row(const Reduce& p, i64 from, u32 first, u32 end) {
    float sum = start_of(p.kind);
    u32 i = first;
    if (!p.whole) {
#pragma unroll 4
        for (; i < end; ++i) sum = taken(p.kind, sum, load_float(p.x.address, p.x.dtype, from + reduced_element(p, i)));
        return sum;
    }
    if (p.x.dtype == F16) {
        const u16* const row = pointer_to<u16>(p.x.address, from);
        const auto single = [&] { sum = taken(p.kind, sum, half_to_float(row[i])), ++i; };
        while (i < end && reinterpret_cast<u64>(row + i) % 16 != 0) single();
#pragma unroll 4
        for (; i + GROUP <= end; i += GROUP) {
            float x[GROUP];
            widen(*reinterpret_cast<const uint4*>(row + i), x);
#pragma unroll
            for (u32 k = 0; k < GROUP; ++k) sum = taken(p.kind, sum, x[k]);
        }
        while (i < end) single();
        return sum;
    }
    const float* const row = pointer_to<float>(p.x.address, from);
#pragma unroll 8
    for (; i < end; ++i) sum = taken(p.kind, sum, row[i]);
    return sum;
}

// Anything else: a thread reduces a range of a row of elements, a warp a row, or the block one of many ranges.
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS) reduce_rows(const __grid_constant__ Reduce p) {
    __shared__ float partials[REDUCE_ROWS][MAX_SPLITS + 1];
    const Generic& g = p.common;
    const bool many = p.splits == MANY_SPLITS;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 range = many ? threadIdx.x : lane;
    const auto place = [&](u32 row, u32(&at)[MAX_RANK]) { coordinates(g.box, row < g.box.count ? row : 0, at); };
    bring_around(p, p.common.tail);
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        u32 at[MAX_RANK];
        place(many ? tile : tile * REDUCE_ROWS + warp, at);
        const u32 first = range * p.share, end = first + p.share < p.count ? first + p.share : p.count;
        if (range < p.splits) partials[warp][lane] = reduce_row(p, element_of(p.x.strides, at), first, end);
        __syncthreads();
        // A thread for each row, or for each run of ranges.
        const u32 row = many ? tile : tile * REDUCE_ROWS + threadIdx.x, front = many ? threadIdx.x * MAX_SPLITS : 0;
        if (threadIdx.x < REDUCE_ROWS) {
            const float* const line = partials[threadIdx.x];
            float total = in_order(p.kind, line[0], used_of(p, front), [&](u32 i) { return line[i]; });
            if (many) {
                partials[threadIdx.x][0] = total;
                __syncwarp((1u << REDUCE_ROWS) - 1);
                for (u32 run = 1; run * MAX_SPLITS < p.used; ++run) total = joined(p.kind, total, partials[run][0]);
            }
            if (row < g.box.count && (threadIdx.x == 0 || !many)) {
                place(row, at);
                finish(p, total, at);
            }
        }
        __syncthreads();
    }
}

// Sums and norms of floats that are taken in one range: the block brings the elements of 32 outputs ahead, and a warp takes them in
// order.
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS) reduce_ordered(const __grid_constant__ Reduce p) {
    // One more column than needed, so that elements of one output lie in different banks.
    __shared__ float ring[ORDERED_STAGES][ORDERED_STEP][ORDERED + 1];
    __shared__ i64 bases[ORDERED];
    const Generic& g = p.common;
    const u32 steps = (p.count + ORDERED_STEP - 1) / ORDERED_STEP;
    // Threads that are neighbours read neighbours in memory.
    const u32 side = p.whole ? ORDERED_STEP : ORDERED, along = threadIdx.x % side, across = threadIdx.x / side;
    bring_around(p, p.common.tail);
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 output = tile * ORDERED + threadIdx.x;
        u32 at[MAX_RANK];
        if (threadIdx.x < ORDERED) {
            coordinates(g.box, output < g.box.count ? output : g.box.count - 1, at);
            bases[threadIdx.x] = element_of(p.x.strides, at);
        }
        __syncthreads();
        float total = 0.0f;
#pragma unroll 1
        for (u32 next = 0; next < steps + ORDERED_STAGES - 1; ++next) {
            if (next >= ORDERED_STAGES - 1) {
                wait_copies<ORDERED_STAGES - 2>();
                __syncthreads();
            }
            if (next < steps) {
#pragma unroll
                for (u32 i = 0; i < ORDERED * ORDERED_STEP / REDUCE_THREADS; ++i) {
                    const u32 other = across + i * (REDUCE_THREADS / side);
                    const u32 k = p.whole ? along : other, o = p.whole ? other : along;
                    const u32 index = next * ORDERED_STEP + k;
                    const u64 from = p.x.address + static_cast<u64>(bases[o] + reduced_element(p, index)) * 4;
                    if (index < p.count) copy_4(shared_address(&ring[next % ORDERED_STAGES][k][o]), from, 4);
                }
            }
            commit_copies();
            if (next < ORDERED_STAGES - 1 || threadIdx.x >= ORDERED) continue;
            const u32 step = next - (ORDERED_STAGES - 1), left = p.count - step * ORDERED_STEP;
            const float(&stage)[ORDERED_STEP][ORDERED + 1] = ring[step % ORDERED_STAGES];
            const auto take = [&](auto join) {
                if (left >= ORDERED_STEP) {
#pragma unroll 32
                    for (u32 k = 0; k < ORDERED_STEP; ++k) total = join(total, stage[k][threadIdx.x]);
                } else {
                    for (u32 k = 0; k < left; ++k) total = join(total, stage[k][threadIdx.x]);
                }
            };
            if (p.kind == REDUCE_NORM) {
                take([](float sum, float x) { return __fmaf_rn(x, x, sum); });
            } else {
                take([](float sum, float x) { return __fadd_rn(sum, x); });
            }
        }
        if (threadIdx.x < ORDERED && output < g.box.count) finish(p, total, at);
        __syncthreads();
    }
}
