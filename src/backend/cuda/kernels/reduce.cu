// Mean, sum, maximum and Euclidean norm over one axis or several, of floats in any layout, in the order of reduce.cuh.
#include "copy_single.cuh"
#include "reduce.cuh"

constexpr u32 REDUCE_GROUPS = 8;                    // of neighbours in a block
constexpr u32 REDUCE_THREADS = MAX_SPLITS * REDUCE_GROUPS;
constexpr u32 MANY_SPLITS = REDUCE_THREADS;         // of one group of neighbours in a block, or of one row
constexpr u32 REDUCE_BATCH = 8;                     // loads that a thread has in flight
constexpr u32 REDUCE_ROWS = REDUCE_THREADS / 32;    // of up to MAX_SPLITS ranges in a block
constexpr u32 ORDERED = 32;                         // outputs of a block whose elements are taken in one range
constexpr u32 ORDERED_STEP = 64;                    // elements of each that come at once
constexpr u32 ORDERED_STAGES = 4;                   // steps in shared memory

// Takes the elements of a range in order, for `present` neighbours.
__device__ __forceinline__ void reduce_range(const Reduce& p, i64 from, u32 present, u32 first, u32 end, float (&v)[GROUP]) {
    const auto take = [&](const float(&x)[GROUP]) {
#pragma unroll
        for (u32 k = 0; k < GROUP; ++k) v[k] = taken(p.kind, v[k], x[k]);
    };
    if (!p.whole) {
        for (u32 i = first; i < end; ++i) {
            float x[GROUP];
            load_run(p.x.address, p.x.dtype, from + reduced_element(p, i), 1, present, x);
            take(x);
        }
        return;
    }
    for (u32 begin = first; begin < end; begin += REDUCE_BATCH) {
        uint4 bits[REDUCE_BATCH];
#pragma unroll
        for (u32 j = 0; j < REDUCE_BATCH; ++j) {
            // All threads alike stop behind the longest range.
            if (begin - first + j >= p.share) break;
            const u16* element = pointer_to<u16>(p.x.address, from + reduced_element(p, begin + j));
            bits[j] = begin + j < end ? *reinterpret_cast<const uint4*>(element) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (u32 j = 0; j < REDUCE_BATCH; ++j) {
            if (begin - first + j >= p.share) break;
            float x[GROUP];
            widen(bits[j], x);
            if (begin + j < end) take(x);
        }
    }
}

// Where neighbours that are kept lie side by side: a thread reduces a range of eight.
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS, 3) reduce_columns(const __grid_constant__ Reduce p) {
    __shared__ float partials[REDUCE_THREADS][GROUP];
    const Generic& g = p.common;
    const u32 groups = p.splits == MANY_SPLITS ? 1 : REDUCE_GROUPS;
    const u32 group = threadIdx.x % groups, split = threadIdx.x / groups;
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
        const u32 place = divide(tile, p.groups);
        u32 at[MAX_RANK];
        coordinates(g.box, place, at);
        const u32 front = (tile - place * p.groups.divisor) * groups * GROUP;  // of the block, in the chunk
        const u32 own = front + group * GROUP;
        const u32 present = own >= p.neighbours ? 0 : p.neighbours - own < GROUP ? p.neighbours - own : GROUP;
        float v[GROUP];
#pragma unroll
        for (u32 k = 0; k < GROUP; ++k) v[k] = start_of(p.kind);
        if (present > 0 && split < p.splits) {
            const u32 first = split * p.share, end = first + p.share < p.count ? first + p.share : p.count;
            reduce_range(p, element_of(p.x.strides, at) + p.first + own, present, first, end, v);
        }
#pragma unroll
        for (u32 k = 0; k < GROUP; ++k) partials[threadIdx.x][k] = v[k];
        __syncthreads();
        // Ranges behind the last element are left out. A thread adds the ranges of a run for one neighbour.
        const u32 neighbour = threadIdx.x % GROUP, run = threadIdx.x / GROUP;
        float total = 0.0f;
        if (threadIdx.x < REDUCE_GROUPS * GROUP) {
            const u32 first = groups == 1 ? run * MAX_SPLITS : 0, line = groups == 1 ? first : run;
            const float* const column = &partials[line][neighbour];
            total = in_order(p.kind, column[0], used_of(p, first), [&](u32 i) { return column[i * groups * GROUP]; });
            partials[line][neighbour] = total;
        }
        __syncthreads();
        if (groups == 1 && run == 0) {
            for (u32 other = MAX_SPLITS; other < p.used; other += MAX_SPLITS) total = joined(p.kind, total, partials[other][neighbour]);
        }
        if (run < groups && front + threadIdx.x < p.neighbours) {
            at[p.axis] = p.first + front + threadIdx.x;
            finish(p, total, at);
        }
        __syncthreads();
    }
}

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
