// The candidates of non-maximum suppression in falling score; the CPU backend's rules.
//
// nms_filter lists the scores above the bound, in any order, and counts them by steps of the score. Where there are more than
// take part, nms_narrow reads the scores again and lists those from the best step to the one in which the last of them
// stands. nms_rank gives each its place: the number of keys below its own. Keys are unique, so none of this depends on the
// order in which blocks come.
#include "boxes.cuh"
#include "chain.cuh"

constexpr u32 FILTER_THREADS = 1024;
constexpr u32 RANK_THREADS = 512;
// Scores of a thread and turn.
constexpr u32 SCORES = 4;
// Keys that a block ranks in a turn, one a lane, and keys that it holds to compare them with.
constexpr u32 RANK_TILE = 32;
constexpr u32 COMPARED = 1024;

// The keys that a block found in a turn, before it knows where they go.
template <u32 CAPACITY>
struct Found {
    u64 keys[CAPACITY];
    u32 count;
    u32 first;
};

// SCORES neighbouring scores from `index` on, at most `all` in total; NaN behind the end, which is above no bound.
__device__ __forceinline__ void read_scores(const NmsParams& p, u32 index, u32 all, bool dense, float (&scores)[SCORES]) {
    const u32 classes = p.scores.columns;
    if (dense && index + SCORES <= all) {
        const float4 four = *reinterpret_cast<const float4*>(p.scores.data + index);
        scores[0] = four.x, scores[1] = four.y, scores[2] = four.z, scores[3] = four.w;
        return;
    }
    u32 row = index / classes, column = index - row * classes;
#pragma unroll
    for (u32 i = 0; i < SCORES; ++i) {
        scores[i] = index + i < all ? p.scores.at(row, column) : __uint_as_float(0x7fc00000);
        if (++column == classes) column = 0, ++row;
    }
}

// True if the scores lie side by side on 16 bytes.
__device__ __forceinline__ bool are_dense(const Matrix<const float>& scores) {
    return scores.column_stride == 1 && scores.row_stride == scores.columns && reinterpret_cast<u64>(scores.data) % 16 == 0;
}

// Appends the keys of those lanes that take part; all of a warp call it.
template <u32 CAPACITY>
__device__ __forceinline__ void append(Found<CAPACITY>& found, bool taken, u64 key) {
    const u32 taking = __ballot_sync(FULL_WARP, taken);
    if (taking == 0) return;
    const u32 lane = threadIdx.x % 32;
    u32 first = 0;
    if (lane == 0) first = atomicAdd(&found.count, __popc(taking));
    first = __shfl_sync(FULL_WARP, first, 0);
    if (taken) found.keys[first + __popc(taking & ((1u << lane) - 1))] = key;
}

// Moves what a block found behind what the others did, as far as there is room, and empties it; true if there was any.
template <u32 CAPACITY>
__device__ __forceinline__ bool hand_over(Found<CAPACITY>& found, u32* counter, u64* list, u32 room) {
    __syncthreads();
    const u32 count = found.count;
    if (threadIdx.x == 0 && count > 0) found.first = atomicAdd(counter, count);
    __syncthreads();
    if (count == 0) return false;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        if (found.first + i < room) list[found.first + i] = found.keys[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) found.count = 0;
    __syncthreads();
    return true;
}

extern "C" __global__ void __launch_bounds__(FILTER_THREADS) nms_filter(const __grid_constant__ NmsParams p) {
    __shared__ Found<FILTER_THREADS * SCORES> found;
    __shared__ u32 histogram[STEPS];
    if (threadIdx.x == 0) found.count = 0;
    for (u32 i = threadIdx.x; i < STEPS; i += FILTER_THREADS) histogram[i] = 0;
    wait_for_predecessors();
    release_successors();
    if (!has_picture(*p.camera)) return;
    __syncthreads();
    const u32 all = p.scores.rows * p.scores.columns;
    const bool dense = are_dense(p.scores);
    bool any = false;
    for (u32 tile = blockIdx.x; tile < p.scores_tiles; tile += gridDim.x) {
        const u32 index = (tile * FILTER_THREADS + threadIdx.x) * SCORES;
        float scores[SCORES];
        read_scores(p, index, all, dense, scores);
#pragma unroll
        for (u32 i = 0; i < SCORES; ++i) {
            const bool taken = scores[i] >= p.score;
            const u64 key = key_of(falling(scores[i]), index + i);
            append(found, taken, key);
            if (taken) atomicAdd(&histogram[step_of(key, p.score)], 1u);
        }
        any = hand_over(found, &p.counters->found, p.listed, CHOSEN) || any;
    }
    if (!any) return;
    for (u32 i = threadIdx.x; i < STEPS; i += FILTER_THREADS) {
        if (histogram[i] != 0) atomicAdd(&p.counters->histogram[i], histogram[i]);
    }
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) nms_narrow(const __grid_constant__ NmsParams p) {
    __shared__ union {
        Selection selection;
        Found<SELECT_THREADS * SCORES> found;
    } shared;
    wait_for_predecessors();
    release_successors();
    if (p.counters->found <= CHOSEN) return;
    Selection& selection = shared.selection;
    for (u32 i = threadIdx.x; i < DIGITS; i += SELECT_THREADS) selection.histogram[i] = i < STEPS ? p.counters->histogram[i] : 0;
    __syncthreads();
    find_digit(selection, CHOSEN);
    const u32 last = selection.digit;
    const bool many = selection.below + selection.within > RANKED;
    __syncthreads();
    const u32 all = p.scores.rows * p.scores.columns;
    const bool dense = are_dense(p.scores);
    // Where too many scores are alike, one block looks for the last candidate bit by bit.
    u64 most = NO_KEY - 1;
    if (many) {
        if (blockIdx.x > 0) return;
        const auto key = [&](u32 i) {
            const float score = dense ? p.scores.data[i] : p.scores.at(i / p.scores.columns, i % p.scores.columns);
            return score >= p.score ? key_of(falling(score), i) : NO_KEY;
        };
        most = largest_taken(selection, Candidates<0, decltype(key)>(all, 0, key), CHOSEN);
        __syncthreads();
    }
    if (threadIdx.x == 0) shared.found.count = 0;
    __syncthreads();
    const u32 blocks = many ? 1 : gridDim.x;
    const u32 tiles = (all + SELECT_THREADS * SCORES - 1) / (SELECT_THREADS * SCORES);
    for (u32 tile = blockIdx.x; tile < tiles; tile += blocks) {
        const u32 index = (tile * SELECT_THREADS + threadIdx.x) * SCORES;
        float scores[SCORES];
        read_scores(p, index, all, dense, scores);
#pragma unroll
        for (u32 i = 0; i < SCORES; ++i) {
            const u64 key = key_of(falling(scores[i]), index + i);
            append(shared.found, scores[i] >= p.score && key <= most && step_of(key, p.score) <= last, key);
        }
        hand_over(shared.found, &p.counters->taken, p.taken, RANKED);
    }
}

extern "C" __global__ void __launch_bounds__(RANK_THREADS) nms_rank(const __grid_constant__ NmsParams p) {
    __shared__ alignas(16) u64 others[COMPARED];
    __shared__ u32 ranks[RANK_TILE];
    wait_for_predecessors();
    release_successors();
    const bool all = p.counters->found <= CHOSEN;
    const u32 count = all ? p.counters->found : min(p.counters->taken, RANKED);
    const u64* keys = all ? p.listed : p.taken;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 first = blockIdx.x * RANK_TILE; first < count; first += gridDim.x * RANK_TILE) {
        const u64 own = first + lane < count ? keys[first + lane] : NO_KEY;
        if (threadIdx.x < RANK_TILE) ranks[threadIdx.x] = 0;
        u32 below = 0;
        for (u32 from = 0; from < count; from += COMPARED) {
            __syncthreads();
            const u32 end = min(COMPARED, count - from);
            for (u32 i = threadIdx.x; i < (end + 1) / 2 * 2; i += RANK_THREADS) others[i] = i < end ? keys[from + i] : NO_KEY;
            __syncthreads();
#pragma unroll 4
            for (u32 i = warp * 2; i < end; i += RANK_THREADS / 32 * 2) {
                const ulonglong2 two = *reinterpret_cast<const ulonglong2*>(&others[i]);
                below += u32(two.x < own) + u32(two.y < own);
            }
        }
        atomicAdd(&ranks[lane], below);
        __syncthreads();
        if (warp == 0 && own != NO_KEY && ranks[lane] < CHOSEN) {
            Candidate candidate;
            candidate.index = u32(own);
            const u32 anchor = candidate.index / p.scores.columns;
            candidate.label = candidate.index - anchor * p.scores.columns;
            candidate.finite = 1;
            candidate.padding = 0;
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                candidate.bounds.edge[i] = p.boxes.at(anchor, i);
                if (!(fabsf(candidate.bounds.edge[i]) < __uint_as_float(0x7f800000))) candidate.finite = 0;
            }
            p.sorted[ranks[lane]] = candidate;
        }
        __syncthreads();
    }
}
