// Non-maximum suppression per class, and the way back to pixels of the source picture; the CPU backend's rules.
//
// nms_cover compares every candidate with all better ones, in parallel: a bit says that one covers the other. nms_pick, one
// block, decides in their order, a word of candidates at a time: one is kept unless a kept one covers it. A word's candidates
// are first held against all words decided before, and then among themselves, in rounds: one that no undecided candidate
// covers is kept, one that a kept one covers is not.
#include "boxes.cuh"
#include "chain.cuh"
#include "placement.cuh"

constexpr u32 COVER_THREADS = 256;
// Words of a candidate that a block makes in a turn.
constexpr u32 COVER_WORDS = COVER_THREADS / WORD;
constexpr u32 PICK_THREADS = 1024;
// Threads that hold one candidate against the words decided before, and words of each at most.
constexpr u32 PARTS = PICK_THREADS / WORD;
constexpr u32 PART_WORDS = CHOSEN / WORD / PARTS;
// Blocks of candidates whose words are on their way while one is decided.
constexpr u32 AHEAD = 4;
constexpr u32 VALUES = 6;

// True if the boxes' intersection over union, rounded to f32, is above the bound; boxes without area in common have none.
__device__ __forceinline__ bool covers(const Bounds& a, const Bounds& b, float bound) {
    const float width = __fsub_rn(fminf(a.edge[2], b.edge[2]), fmaxf(a.edge[0], b.edge[0]));
    const float height = __fsub_rn(fminf(a.edge[3], b.edge[3]), fmaxf(a.edge[1], b.edge[1]));
    if (width <= 0.0f || height <= 0.0f) return 0.0f > bound;
    const float area_a = __fmul_rn(__fsub_rn(a.edge[2], a.edge[0]), __fsub_rn(a.edge[3], a.edge[1]));
    const float area_b = __fmul_rn(__fsub_rn(b.edge[2], b.edge[0]), __fsub_rn(b.edge[3], b.edge[1]));
    const float both = __fmul_rn(width, height);
    return __fdiv_rn(both, __fsub_rn(__fadd_rn(area_a, area_b), both)) > bound;
}

extern "C" __global__ void __launch_bounds__(COVER_THREADS) nms_cover(const __grid_constant__ NmsParams p) {
    __shared__ Candidate better[COVER_THREADS];
    wait_for_predecessors();
    release_successors();
    const u32 count = candidates_in_order(p);
    const u32 blocks = (count + WORD - 1) / WORD;
    const u32 own = threadIdx.x % WORD, part = threadIdx.x / WORD;
    // Blocks of candidates come in fours, of which each has as many turns as the last one needs.
    for (u32 tile = blockIdx.x;; tile += gridDim.x) {
        u32 four = 0;
        while (2 * (four + 1) * (four + 2) <= tile) ++four;
        const u32 rest = tile - 2 * four * (four + 1);
        const u32 block = 4 * four + rest / (four + 1);
        if (4 * four >= blocks) return;
        if (block >= blocks) continue;
        const u32 word = rest % (four + 1) * COVER_WORDS + part;
        __syncthreads();
        const u32 place = word * WORD + own;
        if (place < count) better[threadIdx.x] = p.sorted[place];
        const u32 at = block * WORD + own;
        Candidate candidate = {};
        if (at < count) candidate = p.sorted[at];
        __syncthreads();
        if (word > block) continue;
        const u32 end = word < block ? WORD : min(own, count - block * WORD);
        u64 bits = 0;
#pragma unroll 4
        for (u32 i = 0; i < WORD; ++i) {
            const Candidate& other = better[part * WORD + i];
            if (i < end && other.label == candidate.label && covers(other.bounds, candidate.bounds, p.iou)) bits |= 1ull << i;
        }
        word_of(p, block, word)[own] = bits;
    }
}

// An edge in pixels of the source picture, cut to it.
__device__ __forceinline__ float to_source(float edge, u32 offset, float scale, u32 extent) {
    const float value = __fdiv_rn(__fsub_rn(edge, __uint2float_rn(offset)), scale);
    const float most = __uint2float_rn(extent);
    return value < 0.0f ? 0.0f : value > most ? most : value;
}

// What is known of the candidates while they are decided.
struct Decisions {
    u64 own[CHOSEN];             // words of the candidates' own blocks
    u32 alive[CHOSEN / 32];      // finite, and so far not covered
    u64 kept[CHOSEN / WORD];
    u32 before[CHOSEN / WORD];   // candidates kept in earlier blocks
    u32 all;                     // kept in all blocks so far
};

// The words of a candidate of `block` that a thread holds against those decided before; zeros for what is not there.
__device__ __forceinline__ void read_words(const NmsParams& p, u32 block, u32 blocks, u64 (&words)[PART_WORDS]) {
#pragma unroll
    for (u32 k = 0; k < PART_WORDS; ++k) {
        const u32 word = threadIdx.x / WORD + k * PARTS;
        words[k] = block < blocks && word < block ? word_of(p, block, word)[threadIdx.x % WORD] : 0;
    }
}

// Decides a block's candidates among themselves, one warp, and keeps at most `room`.
__device__ __forceinline__ void decide(Decisions& d, u32 block, u32 room) {
    const u32 lane = threadIdx.x % 32;
    const u64 low = d.own[block * WORD + lane], high = d.own[block * WORD + 32 + lane];
    u64 open = u64(d.alive[2 * block + 1]) << 32 | d.alive[2 * block];
    u64 kept = 0;
    while (open != 0) {
        const bool low_open = open >> lane & 1, high_open = open >> (lane + 32) & 1;
        const u64 free = u64(__ballot_sync(FULL_WARP, high_open && (high & open) == 0)) << 32 |
                         __ballot_sync(FULL_WARP, low_open && (low & open) == 0);
        kept |= free;
        const u64 covered = u64(__ballot_sync(FULL_WARP, (high & kept) != 0)) << 32 | __ballot_sync(FULL_WARP, (low & kept) != 0);
        open &= ~(free | covered);
    }
    u32 count = __popcll(kept);
    for (; count > room; --count) kept &= ~(1ull << (63 - __clzll(i64(kept))));
    if (lane == 0) {
        d.kept[block] = kept;
        d.before[block] = d.all;
        d.all += count;
    }
}

// Writes the detections that were kept in the first `blocks` blocks, in their order.
__device__ __forceinline__ void write_detections(const NmsParams& p, const Decisions& d, u32 blocks, const Camera& camera) {
    const Placement placement = place(p.fit, camera.width, camera.height, p.input[0], p.input[1]);
    for (u32 at = threadIdx.x; at < blocks * WORD; at += PICK_THREADS) {
        const u64 kept = d.kept[at / WORD];
        if ((kept >> at % WORD & 1) == 0) continue;
        const u32 row = d.before[at / WORD] + __popcll(kept & ((1ull << at % WORD) - 1));
        const Candidate c = p.sorted[at];
        p.detections.at(row, 0) = to_source(c.bounds.edge[0], placement.x, placement.scale_x, camera.width);
        p.detections.at(row, 1) = to_source(c.bounds.edge[1], placement.y, placement.scale_y, camera.height);
        p.detections.at(row, 2) = to_source(c.bounds.edge[2], placement.x, placement.scale_x, camera.width);
        p.detections.at(row, 3) = to_source(c.bounds.edge[3], placement.y, placement.scale_y, camera.height);
        p.detections.at(row, 4) = p.scores.at(c.index / p.scores.columns, c.label);
        p.detections.at(row, 5) = __uint2float_rn(c.label);
    }
}

extern "C" __global__ void __launch_bounds__(PICK_THREADS) nms_pick(const __grid_constant__ NmsParams p) {
    __shared__ Decisions d;
    wait_for_predecessors();
    release_successors();
    const Camera camera = *p.camera;
    const u32 most = p.detections.rows;
    const u32 count = candidates_in_order(p);
    const u32 blocks = (count + WORD - 1) / WORD;
    u64 ahead[AHEAD][PART_WORDS];
#pragma unroll
    for (u32 i = 0; i < AHEAD; ++i) read_words(p, i, blocks, ahead[i]);
    for (u32 at = threadIdx.x; at < blocks * WORD; at += PICK_THREADS) {
        const u32 alive = __ballot_sync(FULL_WARP, at < count && p.sorted[min(at, count - 1)].finite != 0);
        if (at % 32 == 0) d.alive[at / 32] = alive;
        d.own[at] = word_of(p, at / WORD, at / WORD)[at % WORD];
    }
    if (threadIdx.x == 0) d.all = 0;
    __syncthreads();
    u32 decided = 0;
    for (u32 first = 0; decided < blocks && d.all < most; first += AHEAD) {
#pragma unroll
        for (u32 i = 0; i < AHEAD; ++i) {
            const u32 block = first + i;
            if (block >= blocks || d.all >= most) break;
            u64 covered = 0;
#pragma unroll
            for (u32 k = 0; k < PART_WORDS; ++k) {
                const u32 word = threadIdx.x / WORD + k * PARTS;
                if (word < block) covered |= ahead[i][k] & d.kept[word];
            }
            read_words(p, block + AHEAD, blocks, ahead[i]);
            const u32 lost = __ballot_sync(FULL_WARP, covered != 0);
            if (lost != 0 && threadIdx.x % 32 == 0) atomicAnd(&d.alive[2 * block + threadIdx.x / 32 % 2], ~lost);
            __syncthreads();
            if (threadIdx.x < 32) decide(d, block, most - d.all);
            __syncthreads();
            decided = block + 1;
        }
    }
    const u32 all = d.all;
    write_detections(p, d, decided, camera);
    for (u32 row = all + threadIdx.x; row < most; row += PICK_THREADS) {
        for (u32 i = 0; i < VALUES; ++i) p.detections.at(row, i) = 0.0f;
    }
    // The next frame begins with empty counters.
    for (u32 i = threadIdx.x; i < DIGITS; i += PICK_THREADS) p.counters->histogram[i] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        *p.count = i32(all);
        p.counters->found = 0;
        p.counters->taken = 0;
    }
}
