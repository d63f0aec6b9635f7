// A recurrent layer (LSTM, GRU): all steps of a sequence in one launch. A block owns a row of the batch and walks its steps.
//
// The arithmetic is the primitive's: every gate value takes one fused multiply-add for each k, ascending, from its
// pre-activation on; c stays in f32, h is rounded to the element type at every step.
#include "chain.cuh"
#include "generic.cuh"

constexpr u32 RECURRENT_THREADS = 256;

struct Recurrent {
    View gates;    // [T, B, 4H] pre-activations, gates in the order i, o, f, c, of GRUs z, r, n, x
    View weights;  // [4H, H], any strides; packed ones have the gates of a k side by side
    View first_h;  // [B, H], address 0 for zeros
    View first_c;
    View y;        // [T, B, H]
    View last_c;   // [B, H], address 0 if it is not asked for
    u32 steps;
    u32 hidden;
    u32 reverse;
    u32 first_row;
    u32 tiles;     // rows of the chunk
    u32 gated;     // 1 for GRUs
};

static_assert(sizeof(Recurrent) == 6 * 88 + 24, "mirrored in bind/recurrent.rs");

// Shared memory: h and c of the row, and its 4H gate values.
extern __shared__ float shared[];

extern "C" __global__ void __launch_bounds__(RECURRENT_THREADS) recurrent_rows(const __grid_constant__ Recurrent p) {
    wait_for_predecessors();
    release_successors();
    const u32 n = p.hidden;
    float* h = shared;
    float* c = shared + n;
    float* z = shared + 2 * n;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const i64 row = p.first_row + tile;
        const auto state = [&](const View& view, u32 j) {
            return view.address == 0 ? 0.0f : load_float(view.address, view.dtype, row * view.strides[0] + j * view.strides[1]);
        };
        for (u32 j = threadIdx.x; j < n; j += RECURRENT_THREADS) {
            h[j] = state(p.first_h, j);
            c[j] = state(p.first_c, j);
        }
        __syncthreads();
        for (u32 step = 0; step < p.steps; ++step) {
            const i64 t = p.reverse ? p.steps - 1 - step : step;
            const i64 from = t * p.gates.strides[0] + row * p.gates.strides[1];
            // Eight neighbouring gate values a thread: of packed weights it reads 16 bytes at once, and a warp 512 side by side.
            for (u32 first = threadIdx.x * 8; first < 4 * n; first += RECURRENT_THREADS * 8) {
                const u32 count = 4 * n - first < 8 ? 4 * n - first : 8;
                float sums[8];
                load_run(p.gates.address, p.gates.dtype, from + first * p.gates.strides[2], p.gates.strides[2], count, sums);
                const i64 weight = first * p.weights.strides[0];
#pragma unroll 8
                for (u32 k = 0; k < n; ++k) {
                    float w[8];
                    load_run(p.weights.address, p.weights.dtype, weight + k * p.weights.strides[1], p.weights.strides[0], count, w);
#pragma unroll
                    for (u32 i = 0; i < 8; ++i) sums[i] = __fmaf_rn(h[k], w[i], sums[i]);
                }
#pragma unroll
                for (u32 i = 0; i < 8; ++i) {
                    if (i >= count) continue;
                    const u32 gate = first + i;
                    if (gate < 2 * n || (!p.gated && gate < 3 * n)) {
                        z[gate] = sigmoid(sums[i]);
                    } else {
                        z[gate] = p.gated ? sums[i] : hyperbolic_tangent(sums[i]);
                    }
                }
            }
            __syncthreads();
            const i64 to = t * p.y.strides[0] + row * p.y.strides[1];
            for (u32 j = threadIdx.x; j < n; j += RECURRENT_THREADS) {
                float value;
                if (p.gated) {
                    const float fresh = hyperbolic_tangent(__fmaf_rn(z[n + j], z[2 * n + j], z[3 * n + j]));
                    value = __fmaf_rn(z[j], __fsub_rn(h[j], fresh), fresh);
                } else {
                    const float i = z[j], o = z[n + j], f = z[2 * n + j], g = z[3 * n + j];
                    c[j] = __fmaf_rn(f, c[j], __fmul_rn(i, g));
                    value = __fmul_rn(hyperbolic_tangent(c[j]), o);
                }
                h[j] = p.y.dtype == F16 ? rounded_to_half(value) : value;
                store_scalar(p.y.address, p.y.dtype, to + j * p.y.strides[2], of_float(h[j]));
            }
            __syncthreads();
        }
        if (p.last_c.address == 0) continue;
        for (u32 j = threadIdx.x; j < n; j += RECURRENT_THREADS) {
            store_scalar(p.last_c.address, p.last_c.dtype, row * p.last_c.strides[0] + j * p.last_c.strides[1], of_float(c[j]));
        }
    }
}
