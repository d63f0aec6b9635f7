// What the kernels of non-maximum suppression share: their parameters, and where they leave what they found.
#pragma once

#include "matrix.cuh"
#include "select.cuh"
#include "slot.cuh"

// Candidates that take part: as on the CPU, what lies below the best of them has no part in the result.
constexpr u32 CHOSEN = SELECT_CAPACITY;
// Most candidates that are ranked: of more than CHOSEN those whose scores may be among the best.
constexpr u32 RANKED = 2 * CHOSEN;
// Steps that scores are counted by.
constexpr u32 STEP_BITS = 10, STEPS = 1 << STEP_BITS;
// Bits of a word of the covering matrix: candidates that are decided together.
constexpr u32 WORD = 64;

// A box in input pixels: left, top, right, bottom.
struct alignas(16) Bounds {
    float edge[4];
};

// A candidate at its place in the order of falling scores.
struct alignas(16) Candidate {
    Bounds bounds;
    u32 label;
    u32 index;   // anchor * classes + label
    u32 finite;  // 1 for a box that can be kept
    u32 padding;
};

// Counters between the launches, zero before the first and after the last.
struct BoxCounters {
    u32 found;  // scores above the bound
    u32 taken;  // of more than CHOSEN, those that are ranked
    u32 padding[14];
    u32 histogram[STEPS];  // candidates by step of their score, the best first
};

static_assert(sizeof(Candidate) == 32 && sizeof(BoxCounters) == 64 + 4 * 1024, "sized in bind/vision/boxes.rs");

struct NmsParams {
    Matrix<const float> boxes;
    Matrix<const float> scores;
    Matrix<float> detections;
    i32* count;
    const Camera* camera;
    BoxCounters* counters;
    u64* listed;        // keys of the candidates, CHOSEN of them at most, in any order
    u64* taken;         // of more than CHOSEN, those that are ranked
    Candidate* sorted;  // the best, best first
    u64* covers;        // a bit for each earlier candidate that covers one: word_of says where
    u32 input[2];       // width and height of the network's input
    u32 fit;
    float score;
    float iou;
    u32 scores_tiles;  // of the kernels that read the scores
};

static_assert(sizeof(NmsParams) == 176, "mirrored in bind/vision/boxes.rs");

__device__ __forceinline__ bool has_picture(const Camera& camera) {
    return camera.format >= 1 && camera.format <= 4 && camera.width > 0 && camera.height > 0;
}

// The step of the histogram that a key stands in, growing with the key: even steps of the score's bits from the bound to 1,
// and one for all scores above.
__device__ __forceinline__ u32 step_of(u64 key, float bound) {
    const u32 least = falling(bound);
    const u32 span = least - min(falling(1.0f), least);
    const u32 bits = 32 - __clz(span);
    const u32 shift = bits > STEP_BITS ? bits - STEP_BITS : 0;
    const u32 above = (least - u32(key >> 32)) >> shift;
    return STEPS - 1 - min(above, STEPS - 1);
}

// Candidates in the order, once they are ranked.
__device__ __forceinline__ u32 candidates_in_order(const NmsParams& p) {
    return min(p.counters->found, CHOSEN);
}

// Of the matrix: WORD candidates from `block * WORD` on have a word each of the candidates from `word * WORD` on, and only
// words of earlier candidates, or of the same, are there.
__device__ __forceinline__ u64* word_of(const NmsParams& p, u32 block, u32 word) {
    return p.covers + u64(block * (block + 1) / 2 + word) * WORD;
}
