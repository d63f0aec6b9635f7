// Non-maximum suppression per class, and the way back to pixels of the source picture; the CPU backend's rules.
//
// nms_filter lists the scores above the bound, in any order. nms_pick, one block, takes the best of them in falling score and
// keeps each unless a kept box of its class covers it: 64 candidates at a time are compared with all kept boxes and with each
// other in parallel, and one thread then decides on bit sets in their order.
#include "chain.cuh"
#include "matrix.cuh"
#include "placement.cuh"
#include "select.cuh"
#include "slot.cuh"

constexpr u32 FILTER_THREADS = 256;
constexpr u32 FILTER_TILE = 1024;
constexpr u32 BATCH = 64;
// Threads that compare one candidate of a batch.
constexpr u32 LANES = SELECT_THREADS / BATCH;
constexpr u32 VALUES = 6;

// A box in input pixels: left, top, right, bottom.
struct alignas(16) Bounds {
    float edge[4];
};

// A box that was kept.
struct alignas(16) Kept {
    Bounds bounds;
    u32 label;
    u32 padding[3];
};

static_assert(sizeof(Kept) == 32, "sized in bind/vision/boxes.rs");

struct NmsParams {
    Matrix<const float> boxes;
    Matrix<const float> scores;
    Matrix<float> detections;
    i32* count;
    const Camera* camera;
    u32* found;       // workspace: number of candidates, zero between launches
    Kept* kept;       // workspace: SELECT_CAPACITY entries
    u32* candidates;  // workspace: one entry a score
    u32 input[2];     // width and height of the network's input
    u32 fit;
    float score;
    float iou;
    u32 tiles;
};

static_assert(sizeof(NmsParams) == 160, "mirrored in bind/vision/boxes.rs");

__device__ __forceinline__ bool has_picture(const Camera& camera) {
    return camera.format >= 1 && camera.format <= 4 && camera.width > 0 && camera.height > 0;
}

extern "C" __global__ void __launch_bounds__(FILTER_THREADS) nms_filter(const __grid_constant__ NmsParams p) {
    wait_for_predecessors();
    release_successors();
    if (!has_picture(*p.camera)) return;
    const u32 classes = p.scores.columns;
    const u32 all = p.scores.rows * classes;
    const bool dense = p.scores.column_stride == 1 && p.scores.row_stride == classes;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        for (u32 i = threadIdx.x; i < FILTER_TILE; i += FILTER_THREADS) {
            const u32 index = tile * FILTER_TILE + i;
            bool taken = false;
            if (index < all) {
                taken = (dense ? p.scores.data[index] : p.scores.at(index / classes, index % classes)) >= p.score;
            }
            const u32 taking = __ballot_sync(FULL_WARP, taken);
            if (taking == 0) continue;
            const u32 lane = threadIdx.x % 32;
            u32 first = 0;
            if (lane == 0) first = atomicAdd(p.found, __popc(taking));
            first = __shfl_sync(FULL_WARP, first, 0);
            if (taken) p.candidates[first + __popc(taking & ((1u << lane) - 1))] = index;
        }
    }
}

// Intersection over union; 0 for boxes without area.
__device__ __forceinline__ float overlap(const Bounds& a, const Bounds& b) {
    const float width = __fsub_rn(fminf(a.edge[2], b.edge[2]), fmaxf(a.edge[0], b.edge[0]));
    const float height = __fsub_rn(fminf(a.edge[3], b.edge[3]), fmaxf(a.edge[1], b.edge[1]));
    if (width <= 0.0f || height <= 0.0f) return 0.0f;
    const float area_a = __fmul_rn(__fsub_rn(a.edge[2], a.edge[0]), __fsub_rn(a.edge[3], a.edge[1]));
    const float area_b = __fmul_rn(__fsub_rn(b.edge[2], b.edge[0]), __fsub_rn(b.edge[3], b.edge[1]));
    const float both = __fmul_rn(width, height);
    return __fdiv_rn(both, __fsub_rn(__fadd_rn(area_a, area_b), both));
}

__device__ __forceinline__ bool is_finite(const Bounds& bounds) {
    bool finite = true;
    for (u32 i = 0; i < 4; ++i) finite = finite && fabsf(bounds.edge[i]) < __int_as_float(0x7f800000);
    return finite;
}

// An edge in pixels of the source picture, cut to it.
__device__ __forceinline__ float to_source(float edge, u32 offset, float scale, u32 extent) {
    const float value = __fdiv_rn(__fsub_rn(edge, __uint2float_rn(offset)), scale);
    const float most = __uint2float_rn(extent);
    return value < 0.0f ? 0.0f : value > most ? most : value;
}

// The candidates that are looked at together.
struct Batch {
    Bounds bounds[BATCH];
    u32 label[BATCH];
    u64 covers[BATCH];  // later candidates of the batch that this one suppresses
    u32 alive[2];       // bit set: finite, and no box kept before the batch covers it
    u64 keep;           // bit set: kept
    u32 kept;           // boxes kept before the batch
};

// Reads up to BATCH candidates, `count` of them, from sorted keys.
__device__ __forceinline__ void read_batch(const NmsParams& p, Batch& batch, const u64* keys, u32 count) {
    if (threadIdx.x >= BATCH) return;
    bool alive = false;
    if (threadIdx.x < count) {
        const u32 index = u32(keys[threadIdx.x]);
        const u32 anchor = index / p.scores.columns;
        Bounds bounds;
        for (u32 i = 0; i < 4; ++i) bounds.edge[i] = p.boxes.at(anchor, i);
        batch.bounds[threadIdx.x] = bounds;
        batch.label[threadIdx.x] = index % p.scores.columns;
        alive = is_finite(bounds);
    }
    const u32 word = __ballot_sync(FULL_WARP, alive);
    if (threadIdx.x % 32 == 0) batch.alive[threadIdx.x / 32] = word;
}

// Compares each candidate with the kept boxes and with the later candidates of its batch; LANES threads a candidate.
__device__ __forceinline__ void compare_batch(const NmsParams& p, Batch& batch, u32 count) {
    const u32 own = threadIdx.x / LANES;
    const u32 lane = threadIdx.x % LANES;
    const u32 shift = threadIdx.x % 32 / LANES * LANES;
    const Bounds bounds = batch.bounds[own];
    const u32 label = batch.label[own];
    bool covered = false;
    for (u32 k = lane; k < batch.kept && own < count; k += LANES) {
        const Kept kept = p.kept[k];
        if (kept.label == label && overlap(kept.bounds, bounds) > p.iou) covered = true;
    }
    const u32 any = __ballot_sync(FULL_WARP, covered) >> shift & ((1u << LANES) - 1);
    u64 covers = 0;
    for (u32 from = 0; from < BATCH; from += LANES) {
        const u32 other = from + lane;
        const bool later = other > own && other < count && batch.label[other] == label;
        const bool bit = later && overlap(bounds, batch.bounds[other]) > p.iou;
        const u64 bits = __ballot_sync(FULL_WARP, bit) >> shift & ((1u << LANES) - 1);
        covers |= bits << from;
    }
    if (lane == 0) {
        batch.covers[own] = covers;
        if (any != 0) atomicAnd(&batch.alive[own / 32], ~(1u << own % 32));
    }
}

// Decides in order: at most `room` candidates are kept.
__device__ __forceinline__ u64 decide(const Batch& batch, u32 room) {
    u64 alive = u64(batch.alive[1]) << 32 | batch.alive[0];
    u64 keep = 0;
    for (; alive != 0 && room > 0; --room) {
        const u32 next = u32(__ffsll(i64(alive))) - 1;
        keep |= 1ull << next;
        alive &= ~(batch.covers[next] | 1ull << next);
    }
    return keep;
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) nms_pick(const __grid_constant__ NmsParams p) {
    wait_for_predecessors();
    release_successors();
    __shared__ Selection selection;
    __shared__ Batch batch;
    const Camera camera = *p.camera;
    const u32 classes = p.scores.columns;
    const u32 most = p.detections.rows;
    const bool shown = has_picture(camera);
    const u32 candidates = shown ? min(*p.found, p.scores.rows * classes) : 0;
    const u32 found = select_smallest(selection, candidates, SELECT_CAPACITY, 0, [&](u32 i) {
        const u32 index = p.candidates[i];
        return key_of(falling(p.scores.at(index / classes, index % classes)), index);
    });
    const Placement placement = place(p.fit, camera.width, camera.height, p.input[0], p.input[1]);
    u32 kept = 0;
    for (u32 first = 0; first < found && kept < most; first += BATCH) {
        const u32 count = min(BATCH, found - first);
        if (threadIdx.x == 0) batch.kept = kept;
        read_batch(p, batch, selection.keys + first, count);
        __syncthreads();
        compare_batch(p, batch, count);
        __syncthreads();
        if (threadIdx.x == 0) batch.keep = decide(batch, most - kept);
        __syncthreads();
        const u64 keep = batch.keep;
        if (threadIdx.x < BATCH && (keep >> threadIdx.x & 1) != 0) {
            const u32 row = kept + __popcll(keep & ((1ull << threadIdx.x) - 1));
            const Bounds bounds = batch.bounds[threadIdx.x];
            const u32 index = u32(selection.keys[first + threadIdx.x]);
            p.kept[row] = {bounds, batch.label[threadIdx.x], {}};
            p.detections.at(row, 0) = to_source(bounds.edge[0], placement.x, placement.scale_x, camera.width);
            p.detections.at(row, 1) = to_source(bounds.edge[1], placement.y, placement.scale_y, camera.height);
            p.detections.at(row, 2) = to_source(bounds.edge[2], placement.x, placement.scale_x, camera.width);
            p.detections.at(row, 3) = to_source(bounds.edge[3], placement.y, placement.scale_y, camera.height);
            p.detections.at(row, 4) = p.scores.at(index / classes, index % classes);
            p.detections.at(row, 5) = __uint2float_rn(index % classes);
        }
        kept += __popcll(keep);
        __syncthreads();
    }
    for (u32 row = kept + threadIdx.x; row < most; row += SELECT_THREADS) {
        for (u32 i = 0; i < VALUES; ++i) p.detections.at(row, i) = 0.0f;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *p.count = i32(kept);
        *p.found = 0;
    }
}
