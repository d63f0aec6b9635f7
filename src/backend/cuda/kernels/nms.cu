// Non-maximum suppression per class, and the way back to pixels of the source picture; the CPU backend's rules.
//
// nms_cover compares every candidate with all better ones, in parallel: a bit says that one covers the other. nms_pick, one
// block, decides in their order, a word of candidates at a time: one is kept unless a kept one covers it. Of a word's
// candidates most threads hold the next against all words that were decided, while one warp decides them among themselves,
// in rounds: one that no undecided candidate covers is kept, one that a kept one covers is not.
#include "boxes.cuh"
#include "chain.cuh"
#include "mma.cuh"
#include "placement.cuh"

constexpr u32 COVER_THREADS = 256;
// Candidates that a warp compares with those of a word.
constexpr u32 COVER_EACH = WORD / (COVER_THREADS / 32);
constexpr u32 PICK_THREADS = 1024;
// The warps that decide and fetch; the others hold a candidate each against words, so many parts to a candidate.
constexpr u32 DECIDING = 0, FETCHING = 1, HOLDING = 2;
constexpr u32 PARTS = (PICK_THREADS - HOLDING * 32) / WORD;
constexpr u32 PART_WORDS = (CHOSEN / WORD + PARTS - 1) / PARTS;
// Words of candidates that are on their way while one is decided.
constexpr u32 AHEAD = 3;
constexpr u32 SLOTS = 8;
constexpr u32 VALUES = 6;

__device__ __forceinline__ float area_of(const Bounds& a) {
    return __fmul_rn(__fsub_rn(a.edge[2], a.edge[0]), __fsub_rn(a.edge[3], a.edge[1]));
}

// True if the boxes' intersection over union, rounded to f32, is above the bound; boxes without area in common have none.
__device__ __forceinline__ bool covers(const Bounds& a, float area_a, const Bounds& b, float area_b, float bound) {
    const float width = __fsub_rn(fminf(a.edge[2], b.edge[2]), fmaxf(a.edge[0], b.edge[0]));
    const float height = __fsub_rn(fminf(a.edge[3], b.edge[3]), fmaxf(a.edge[1], b.edge[1]));
    if (width <= 0.0f || height <= 0.0f) return 0.0f > bound;
    const float both = __fmul_rn(width, height);
    const float either = __fsub_rn(__fadd_rn(area_a, area_b), both);
    // Far from the bound, more than any rounding reaches, the quotient need not be known.
    const float border = __fmul_rn(bound, either);
    if (bound > 1e-6f && border > 1e-18f && border < 1e30f) {
        if (both > border * 1.00001f) return true;
        if (both < border * 0.99999f) return false;
    }
    return __fdiv_rn(both, either) > bound;
}

// Block and word of a place in the covering matrix.
__device__ __forceinline__ void place_of(u32 tile, u32& block, u32& word) {
    block = static_cast<u32>((sqrtf(static_cast<float>(8 * tile + 1)) - 1.0f) * 0.5f);
    while (block * (block + 1) / 2 > tile) --block;
    while ((block + 1) * (block + 2) / 2 <= tile) ++block;
    word = tile - block * (block + 1) / 2;
}

extern "C" __global__ void __launch_bounds__(COVER_THREADS) nms_cover(const __grid_constant__ NmsParams p) {
    __shared__ Candidate own[WORD];
    wait_for_predecessors();
    release_successors();
    const u32 count = candidates_in_order(p);
    const u32 blocks = (count + WORD - 1) / WORD;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (u32 tile = blockIdx.x; tile < blocks * (blocks + 1) / 2; tile += gridDim.x) {
        u32 block, word;
        place_of(tile, block, word);
        __syncthreads();
        if (threadIdx.x < WORD) own[threadIdx.x] = p.sorted[min(block * WORD + threadIdx.x, count - 1)];
        Candidate better[2];
        float areas[2];
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            better[i] = p.sorted[min(word * WORD + i * 32 + lane, count - 1)];
            areas[i] = area_of(better[i].bounds);
        }
        __syncthreads();
        u64 mine = 0;
#pragma unroll
        for (u32 k = 0; k < COVER_EACH; ++k) {
            const u32 at = warp * COVER_EACH + k;
            const Candidate& candidate = own[at];
            const float area = area_of(candidate.bounds);
            u32 bits[2];
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                const bool earlier = word < block || i * 32 + lane < at;
                const bool same = earlier && better[i].label == candidate.label;
                bits[i] = __ballot_sync(FULL_WARP, same && covers(better[i].bounds, areas[i], candidate.bounds, area, p.iou));
            }
            if (lane == k) mine = u64(bits[1]) << 32 | bits[0];
        }
        if (lane < COVER_EACH) word_of(p, block, word)[warp * COVER_EACH + lane] = mine;
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
    alignas(16) u64 own[SLOTS][WORD];   // words of a block's candidates of its own block
    alignas(16) u64 last[SLOTS][WORD];  // and of the block before
    u32 alive[CHOSEN / 32];             // finite, and not covered by what they were held against
    u64 kept[CHOSEN / WORD];
    u32 before[CHOSEN / WORD];          // candidates kept in earlier blocks
    u32 all;                            // kept in all blocks so far
};

// The words of one candidate of every block that a thread holds against what was decided two blocks before and earlier; it
// goes from block to block.
struct Held {
    const u64* row;  // its first word of the next block
    u32 block;
    u32 first;       // its first word; the others lie PARTS apart

    __device__ __forceinline__ explicit Held(const NmsParams& p) {
        const u32 holder = threadIdx.x - HOLDING * 32;
        block = 1;
        first = holder / WORD;
        row = word_of(p, 1, first) + holder % WORD;
    }

    // Zeros for what is not there.
    __device__ __forceinline__ void read_next(u64 (&words)[PART_WORDS], u32 blocks) {
#pragma unroll
        for (u32 k = 0; k < PART_WORDS; ++k) {
            words[k] = 0;
            if (block < blocks && first + k * PARTS + 1 < block) words[k] = row[k * PARTS * WORD];
        }
        ++block;
        row += block * WORD;
    }
};

// Has a block's own words and those of the block before fetched, by one warp.
__device__ __forceinline__ void fetch_words(const NmsParams& p, Decisions& d, u32 block, u32 blocks) {
    const u32 lane = threadIdx.x % 32;
    if (block < blocks) {
        copy_16(shared_address(&d.own[block % SLOTS][lane * 2]), reinterpret_cast<u64>(word_of(p, block, block) + lane * 2), 16);
        const u64 last = reinterpret_cast<u64>(word_of(p, block, block > 0 ? block - 1 : 0) + lane * 2);
        copy_16(shared_address(&d.last[block % SLOTS][lane * 2]), last, block > 0 ? 16 : 0);
    }
    commit_copies();
}

// Decides a block's candidates among themselves, one warp, and keeps at most `room`; `last` are those kept in the block before.
__device__ __forceinline__ u64 decide(const Decisions& d, u32 block, u64 last, u32 room) {
    const u32 lane = threadIdx.x % 32, slot = block % SLOTS;
    const u64 low = d.own[slot][lane], high = d.own[slot][32 + lane];
    const auto among = [](bool low, bool high) { return u64(__ballot_sync(FULL_WARP, high)) << 32 | __ballot_sync(FULL_WARP, low); };
    u64 open = u64(d.alive[2 * block + 1]) << 32 | d.alive[2 * block];
    open &= ~among((d.last[slot][lane] & last) != 0, (d.last[slot][32 + lane] & last) != 0);
    u64 kept = 0;
    while (open != 0) {
        const u64 free = among((low & open) == 0, (high & open) == 0) & open;
        kept |= free;
        open &= ~(free | among((low & kept) != 0, (high & kept) != 0));
    }
    for (u32 count = __popcll(kept); count > room; --count) kept &= ~(1ull << (63 - __clzll(i64(kept))));
    return kept;
}

// Writes the detections that were kept in the first `blocks` blocks, in their order.
__device__ __forceinline__ void write_detections(const NmsParams& p, const Decisions& d, u32 blocks, const Camera& camera,
                                                 const Placement& placement) {
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
    const u32 warp = threadIdx.x / 32;
    const u32 most = p.detections.rows;
    const u32 count = candidates_in_order(p);
    const u32 blocks = (count + WORD - 1) / WORD;
    u64 ahead[AHEAD][PART_WORDS] = {};
    Held held(p);
    if (warp >= HOLDING) {
#pragma unroll
        for (u32 i = 0; i < AHEAD; ++i) held.read_next(ahead[i], blocks);
    } else if (warp == FETCHING) {
#pragma unroll
        for (u32 i = 0; i < AHEAD; ++i) fetch_words(p, d, i, blocks);
    }
    for (u32 at = threadIdx.x; at < blocks * WORD; at += PICK_THREADS) {
        const u32 alive = __ballot_sync(FULL_WARP, at < count && p.sorted[min(at, count - 1)].finite != 0);
        if (at % 32 == 0) d.alive[at / 32] = alive;
    }
    const Camera camera = *p.camera;
    const Placement placement = place(p.fit, camera.width, camera.height, p.input[0], p.input[1]);
    if (threadIdx.x == 0) d.all = 0;
    if (warp == FETCHING) wait_copies<AHEAD - 1>();
    __syncthreads();
    u32 decided = 0, all = 0;
    u64 last = 0;
    for (u32 first = 0; decided < blocks && all < most; first += AHEAD) {
#pragma unroll
        for (u32 i = 0; i < AHEAD; ++i) {
            const u32 block = first + i;
            if (block >= blocks || all >= most) break;
            if (warp == DECIDING) {
                last = decide(d, block, last, most - all);
                if (threadIdx.x == 0) {
                    d.kept[block] = last;
                    d.before[block] = all;
                    d.all = all + __popcll(last);
                }
            } else if (warp == FETCHING) {
                fetch_words(p, d, block + AHEAD, blocks);
                wait_copies<AHEAD - 1>();
            } else {
                // The next block, against what was decided before this one.
                u64 covered = 0;
#pragma unroll
                for (u32 k = 0; k < PART_WORDS; ++k) {
                    const u32 word = held.first + k * PARTS;
                    if (word < block) covered |= ahead[i][k] & d.kept[word];
                }
                held.read_next(ahead[i], blocks);
                const u32 lost = __ballot_sync(FULL_WARP, covered != 0);
                if (lost != 0 && threadIdx.x % 32 == 0) atomicAnd(&d.alive[2 * (block + 1) + warp % 2], ~lost);
            }
            __syncthreads();
            all = d.all;
            decided = block + 1;
            __syncthreads();
        }
    }
    if (warp == FETCHING) wait_copies<0>();
    write_detections(p, d, decided, camera, placement);
    for (u32 row = all + threadIdx.x; row < most; row += PICK_THREADS) {
        for (u32 i = 0; i < VALUES; ++i) p.detections.at(row, i) = 0.0f;
    }
    // The next frame begins with empty counters.
    for (u32 i = threadIdx.x; i < STEPS; i += PICK_THREADS) p.counters->histogram[i] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        *p.count = i32(all);
        p.counters->found = 0;
        p.counters->taken = 0;
    }
}
