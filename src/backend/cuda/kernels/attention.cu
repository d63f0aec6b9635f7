// Attention: for every query the mean of the values, weighed by how well their keys answer it. Scores never leave the block.
//
// A block takes up to 32 queries of one matrix, four a warp, and walks the keys 32 at a time, a key a lane: once for the
// greatest score, and once more for the weights, their sum and the weighed values. As the greatest score is known before the
// first weight, no sum is ever rescaled (unlike Dao et al. 2022), and results do not depend on how the keys are cut: scores
// take one fused multiply-add for each d, weights go into sixteen partial sums by the key's number modulo sixteen, which are
// folded in halves, values one fused multiply-add for each key. Where all keys fit into one step, they are walked once.
//
// Narrow heads over few keys have a kernel of their own with the same sums: a query a lane, so that nothing passes between
// lanes, and a block of one warp, so that heads spread over the multiprocessors.
#include "attention.cuh"
#include "chain.cuh"
#include "math.cuh"
#include "run.cuh"

constexpr u32 ATTENTION_THREADS = 256;
constexpr u32 WARPS = ATTENTION_THREADS / 32;
constexpr u32 QUERIES = 32;                      // of a block
constexpr u32 PER_WARP = QUERIES / WARPS;
constexpr u32 KEYS = 32;                         // of a step
constexpr u32 KEY_PITCH = KEYS + 1;              // keeps neighbouring d of a key in different banks
constexpr u32 MAX_WIDTH = 96;                    // of a value
constexpr u32 COLUMNS = MAX_WIDTH / 32;          // of a value, in a lane

struct Attention {
    View y;                    // [..,M,E]; as the other tensors from the chunk's first leading coordinates on
    View queries;              // [..,M,D]
    View keys;                 // [..,D,K]
    View values;               // [..,K,E]
    Divisor leading[LEADING];  // extents of the chunk's leading axes
    Divisor steps;             // tiles of a matrix
    u32 first_row;             // rows of the chunk
    u32 rows;
    u32 row_axis;
    u32 depth;
    u32 count;                 // of keys
    u32 width;
    u32 tiles;
    float scale;
    u32 padding;
};

static_assert(sizeof(Attention) == 4 * 88 + 60 + 36, "mirrored in bind/attention/plain.rs");

// The queries [QUERIES][depth], then a step's keys [depth][KEY_PITCH] and values [KEYS][width].
extern __shared__ float shared_floats[];

extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS) attention(const __grid_constant__ Attention p) {
    wait_for_predecessors();
    release_successors();
    float* const query = shared_floats;
    float* const key = query + QUERIES * p.depth;
    float* const value = key + p.depth * KEY_PITCH;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 row_axis = p.row_axis, column_axis = p.row_axis + 1;
    const float lowest = __uint_as_float(0xff800000u);
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 matrix = divide(tile, p.steps);
        const u32 first = (tile - matrix * p.steps.divisor) * QUERIES;
        const View* const views[] = {&p.y, &p.queries, &p.keys, &p.values};
        const Matrices<4> from = matrices_of<4>(matrix, p.leading, views);
        const i64 k_at = from.at[2], v_at = from.at[3];
        const u32 rows = p.rows - first < QUERIES ? p.rows - first : QUERIES;
        const i64 y_at = from.at[0] + static_cast<i64>(p.first_row + first) * p.y.strides[row_axis];
        const i64 q_at = from.at[1] + static_cast<i64>(p.first_row + first) * p.queries.strides[row_axis];
        // A matrix of `lines` by `run` elements into rows of shared memory, `pitch` apart.
        const auto fetch = [&](const View& from, i64 at, i64 line_step, i64 run_step, u32 lines, u32 run, auto place) {
            for (u32 i = threadIdx.x; i < lines * run; i += ATTENTION_THREADS) {
                const u32 line = i / run, j = i - line * run;
                place(line, j, load_float(from.address, from.dtype, at + line * line_step + j * run_step));
            }
        };
        const auto fetch_keys = [&](u32 begin, u32 keys) {
            const i64 step = p.keys.strides[column_axis];
            fetch(p.keys, k_at + begin * step, step, p.keys.strides[row_axis], keys, p.depth,
                  [&](u32 k, u32 d, float x) { key[d * KEY_PITCH + k] = x; });
        };
        const auto scores = [&](u32 keys, float(&s)[PER_WARP]) {
#pragma unroll
            for (u32 r = 0; r < PER_WARP; ++r) s[r] = 0.0f;
            for (u32 d = 0; d < p.depth; ++d) {
                const float k = key[d * KEY_PITCH + lane];
#pragma unroll
                for (u32 r = 0; r < PER_WARP; ++r) s[r] = __fmaf_rn(query[(warp + r * WARPS) * p.depth + d], k, s[r]);
            }
#pragma unroll
            for (u32 r = 0; r < PER_WARP; ++r) s[r] = lane < keys ? __fmul_rn(s[r], p.scale) : lowest;
        };
        const auto keys_from = [&](u32 begin) { return p.count - begin < KEYS ? p.count - begin : KEYS; };

        __syncthreads();
        fetch(p.queries, q_at, p.queries.strides[row_axis], p.queries.strides[column_axis], rows, p.depth,
              [&](u32 r, u32 d, float x) { query[r * p.depth + d] = x; });
        float greatest[PER_WARP], s[PER_WARP];
#pragma unroll
        for (u32 r = 0; r < PER_WARP; ++r) greatest[r] = lowest;
        const bool once = p.count <= KEYS;
        for (u32 begin = 0; begin < p.count; begin += KEYS) {
            const u32 keys = keys_from(begin);
            if (begin > 0) __syncthreads();
            fetch_keys(begin, keys);
            if (once) {
                fetch(p.values, v_at, p.values.strides[row_axis], p.values.strides[column_axis], keys, p.width,
                      [&](u32 k, u32 e, float x) { value[k * p.width + e] = x; });
            }
            __syncthreads();
            scores(keys, s);
#pragma unroll
            for (u32 r = 0; r < PER_WARP; ++r) greatest[r] = greater(s[r], greatest[r]);
        }
#pragma unroll
        for (u32 r = 0; r < PER_WARP; ++r) {
#pragma unroll
            for (u32 other = 16; other > 0; other /= 2) greatest[r] = greater(__shfl_xor_sync(0xffffffffu, greatest[r], other), greatest[r]);
        }
        float sum[PER_WARP], total[PER_WARP][COLUMNS];
#pragma unroll
        for (u32 r = 0; r < PER_WARP; ++r) {
            sum[r] = 0.0f;
#pragma unroll
            for (u32 c = 0; c < COLUMNS; ++c) total[r][c] = 0.0f;
        }
        for (u32 begin = 0; begin < p.count; begin += KEYS) {
            const u32 keys = keys_from(begin);
            if (!once) {
                __syncthreads();
                fetch_keys(begin, keys);
                const i64 step = p.values.strides[row_axis];
                fetch(p.values, v_at + begin * step, step, p.values.strides[column_axis], keys, p.width,
                      [&](u32 k, u32 e, float x) { value[k * p.width + e] = x; });
                __syncthreads();
                scores(keys, s);
            }
            float weight[PER_WARP];
#pragma unroll
            for (u32 r = 0; r < PER_WARP; ++r) {
                weight[r] = lane < keys ? exponential(__fsub_rn(s[r], greatest[r])) : 0.0f;
                // Lanes 0 to 15 hold the partial sums.
                const float later = __shfl_down_sync(0xffffffffu, weight[r], 16);
                sum[r] = __fadd_rn(__fadd_rn(sum[r], weight[r]), later);
            }
            for (u32 k = 0; k < keys; ++k) {
                float v[COLUMNS];
#pragma unroll
                for (u32 c = 0; c < COLUMNS; ++c) v[c] = lane + 32 * c < p.width ? value[k * p.width + lane + 32 * c] : 0.0f;
#pragma unroll
                for (u32 r = 0; r < PER_WARP; ++r) {
                    const float w = __shfl_sync(0xffffffffu, weight[r], k);
#pragma unroll
                    for (u32 c = 0; c < COLUMNS; ++c) total[r][c] = __fmaf_rn(w, v[c], total[r][c]);
                }
            }
        }
#pragma unroll
        for (u32 r = 0; r < PER_WARP; ++r) {
#pragma unroll
            for (u32 half = 8; half > 0; half /= 2) sum[r] = __fadd_rn(sum[r], __shfl_down_sync(0xffffffffu, sum[r], half, 16));
            const float all = __shfl_sync(0xffffffffu, sum[r], 0);
            const u32 row = warp + r * WARPS;
            if (row >= rows) continue;
#pragma unroll
            for (u32 c = 0; c < COLUMNS; ++c) {
                const u32 e = lane + 32 * c;
                if (e >= p.width) continue;
                const i64 to = y_at + static_cast<i64>(row) * p.y.strides[row_axis] + static_cast<i64>(e) * p.y.strides[column_axis];
                const float result = __fdiv_rn(total[r][c], all);
                if (p.y.dtype == F16) {
                    *(reinterpret_cast<u16*>(p.y.address) + to) = float_to_half(result);
                } else {
                    *(reinterpret_cast<float*>(p.y.address) + to) = result;
                }
            }
        }
    }
}

constexpr u32 NARROW_KEYS = 64;  // most keys of the kernels of narrow heads

// Eight halves a load, as floats.
template <u32 D>
__device__ __forceinline__ void load_head(u64 address, i64 element, float (&v)[D]) {
#pragma unroll
    for (u32 i = 0; i < D; i += 8) {
        float eight[8];
        widen(*reinterpret_cast<const uint4*>(address + 2 * (element + i)), eight);
#pragma unroll
        for (u32 j = 0; j < 8; ++j) v[i + j] = eight[j];
    }
}

template <u32 D>
__device__ __forceinline__ void keep_head(float* to, const float (&v)[D]) {
#pragma unroll
    for (u32 i = 0; i < D; i += 4) *reinterpret_cast<float4*>(to + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
}

template <u32 D>
__device__ __forceinline__ void kept_head(const float* from, float (&v)[D]) {
#pragma unroll
    for (u32 i = 0; i < D; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(from + i);
        v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
    }
}

// Keys and values of D halves side by side, from multiples of 16 bytes on.
template <u32 D>
__device__ __forceinline__ void attend(const Attention& p) {
    __shared__ alignas(16) float keys[NARROW_KEYS][D], values[NARROW_KEYS][D];
    __shared__ float weights[NARROW_KEYS][32];  // a column a lane; scores at first
    const u32 lane = threadIdx.x, row_axis = p.row_axis, column_axis = p.row_axis + 1;
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 matrix = divide(tile, p.steps);
        const u32 row = (tile - matrix * p.steps.divisor) * 32 + lane;
        const View* const views[] = {&p.y, &p.queries, &p.keys, &p.values};
        const Matrices<4> from = matrices_of<4>(matrix, p.leading, views);
        const i64 k_at = from.at[2], v_at = from.at[3];
        const i64 y_at = from.at[0] + static_cast<i64>(p.first_row + row) * p.y.strides[row_axis];
        const i64 q_at = from.at[1] + static_cast<i64>(p.first_row + row) * p.queries.strides[row_axis];
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        __syncwarp();
        const bool present = row < p.rows;
        float query[D] = {};
        if (present) load_head(p.queries.address, q_at, query);
        for (u32 k = lane; k < p.count; k += 32) {
            float key[D], value[D];
            load_head(p.keys.address, k_at + k * p.keys.strides[column_axis], key);
            load_head(p.values.address, v_at + k * p.values.strides[row_axis], value);
            keep_head(keys[k], key);
            keep_head(values[k], value);
        }
        __syncwarp();
        float greatest = __uint_as_float(0xff800000u);
#pragma unroll 4
        for (u32 k = 0; k < p.count; ++k) {
            float key[D], score = 0.0f;
            kept_head(keys[k], key);
#pragma unroll
            for (u32 d = 0; d < D; ++d) score = __fmaf_rn(query[d], key[d], score);
            score = __fmul_rn(score, p.scale);
            greatest = greater(score, greatest);
            weights[k][lane] = score;
        }
        float total[D] = {};
#pragma unroll 4
        for (u32 k = 0; k < p.count; ++k) {
            const float weight = exponential(__fsub_rn(weights[k][lane], greatest));
            weights[k][lane] = weight;
            float value[D];
            kept_head(values[k], value);
#pragma unroll
            for (u32 e = 0; e < D; ++e) total[e] = __fmaf_rn(weight, value[e], total[e]);
        }
        float sums[16];
#pragma unroll
        for (u32 i = 0; i < 16; ++i) sums[i] = i < p.count ? weights[i][lane] : 0.0f;
        for (u32 first = 16; first < p.count; first += 16) {
#pragma unroll
            for (u32 i = 0; i < 16; ++i) {
                if (first + i < p.count) sums[i] = __fadd_rn(sums[i], weights[first + i][lane]);
            }
        }
#pragma unroll
        for (u32 half = 8; half > 0; half /= 2) {
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                if (i < half) sums[i] = __fadd_rn(sums[i], sums[i + half]);
            }
        }
        if (!present) continue;
#pragma unroll
        for (u32 i = 0; i < D; i += 8) {
            float mean[8];
#pragma unroll
            for (u32 j = 0; j < 8; ++j) mean[j] = __fdiv_rn(total[i + j], sums[0]);
            store_run(p.y.address, F16, y_at + i, 8, mean);
        }
    }
}

extern "C" __global__ void __launch_bounds__(32) attention_narrow_8(const __grid_constant__ Attention p) { attend<8>(p); }
extern "C" __global__ void __launch_bounds__(32) attention_narrow_16(const __grid_constant__ Attention p) { attend<16>(p); }
