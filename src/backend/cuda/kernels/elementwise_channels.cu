// Chains of short functions of pixels and of what every pixel has the same of, such as scales, shifts and slopes by channel: a thread has
// the same eight channels of RUNS pixels, so that what belongs to channels is loaded once for all of them, and what a call is is looked
// up once.
//
// The struct is that of elementwise.cu, and tensors lie as for elementwise_runs.cu, whose results these are. Axis 0 is that of the
// channels, axis 1 that of all pixels; the first `length` threads of a block, whole pixels of them, have neighbouring runs, and their
// next ones follow the block's.
// No value is read later than by the call behind it, and no call but the head reads nothing but tensors: the host sees to that.
#include "chain.cuh"
#include "divide.cuh"
#include "elementwise.cuh"
#include "parameters.cuh"

// Where a thread's runs lie; those behind the last lie on it, and nothing of them is stored.
struct Spots {
    u32 channel;   // first of eight
    u32 first;     // pixel of the first run
    u32 together;  // pixels of a block, from run to run
    u32 last;      // pixel
};

__device__ __forceinline__ i32 place_of(const i64 (&strides)[MAX_RANK], const Spots& s, u32 run) {
    const u32 pixel = min(s.first + run * s.together, s.last);
    return static_cast<i32>(pixel * static_cast<u32>(strides[1]) + (strides[0] == 0 ? 0 : s.channel));
}

// True of what all pixels have the same of.
__device__ __forceinline__ bool is_shared(const TailOperand& o) { return o.strides[1] == 0; }

// Runs of eight, or of one value.
template <u32 RUNS>
__device__ __forceinline__ void load_spots(const TailOperand& o, const Spots& spots, float (&v)[8 * RUNS]) {
    if (o.strides[0] == 0) {
#pragma unroll
        for (u32 r = 0; r < RUNS; ++r) {
            const i32 element = place_of(o.strides, spots, r);
            const float one = o.dtype == F16 ? half_to_float(*pointer_to<u16>(o.address, element)) : *pointer_to<float>(o.address, element);
#pragma unroll
            for (u32 i = 0; i < 8; ++i) v[8 * r + i] = one;
        }
    } else if (o.dtype == F16) {
        uint4 bits[RUNS];
#pragma unroll
        for (u32 r = 0; r < RUNS; ++r) bits[r] = *reinterpret_cast<const uint4*>(pointer_to<u16>(o.address, place_of(o.strides, spots, r)));
#pragma unroll
        for (u32 r = 0; r < RUNS; ++r) {
            float wide[8];
            widen(bits[r], wide);
#pragma unroll
            for (u32 i = 0; i < 8; ++i) v[8 * r + i] = wide[i];
        }
    } else {
#pragma unroll
        for (u32 r = 0; r < 2 * RUNS; ++r) {
            const float4 four = reinterpret_cast<const float4*>(pointer_to<float>(o.address, place_of(o.strides, spots, r / 2)))[r % 2];
            v[4 * r] = four.x, v[4 * r + 1] = four.y, v[4 * r + 2] = four.z, v[4 * r + 3] = four.w;
        }
    }
}

// `turned`: the chain's value is the second one.
template <u32 N, u32 M>
__device__ __forceinline__ void apply_binary(u32 function, bool turned, float (&a)[N], const float (&b)[M]) {
    const auto each = [&](auto f) {
#pragma unroll
        for (u32 i = 0; i < N; ++i) a[i] = f(a[i], b[i % M]);
    };
    switch (function) {
        case TAIL_ADD: return each([](float x, float y) { return __fadd_rn(x, y); });
        case TAIL_MUL: return each([](float x, float y) { return __fmul_rn(x, y); });
        case TAIL_PRELU: return each([](float x, float y) { return x < 0.0f ? __fmul_rn(x, y) : x; });
        default:
            if (turned) return each([](float x, float y) { return __fsub_rn(y, x); });
            return each([](float x, float y) { return __fsub_rn(x, y); });
    }
}

template <u32 N>
__device__ __forceinline__ void apply_unary(const TailCall& call, float (&a)[N]) {
    const auto each = [&](auto f) {
#pragma unroll
        for (u32 i = 0; i < N; ++i) a[i] = f(a[i]);
    };
    switch (call.function) {
        case TAIL_RELU: return each([](float x) { return greater(0.0f, x); });
        case TAIL_LEAKY_RELU: return each([&](float x) { return x < 0.0f ? __fmul_rn(x, call.first) : x; });
        case TAIL_HARD_SWISH: return each([](float x) { return __fmul_rn(x, hard_sigmoid(x, 1.0f / 6.0f, 0.5f)); });
        default: return each([&](float x) { return clip(x, call.first, call.second); });
    }
}

// By pairs: values that have been stored as f16 and read back.
template <u32 N>
__device__ __forceinline__ void round_pairs(u32 rounded, float (&v)[N]) {
    if (!rounded) return;
#pragma unroll
    for (u32 i = 0; i < N; i += 2) {
        const u32 bits = two_rounded(v[i], v[i + 1]);
        v[i] = half_to_float(static_cast<u16>(bits)), v[i + 1] = half_to_float(static_cast<u16>(bits >> 16));
    }
}

template <u32 RUNS>
__device__ __forceinline__ void elementwise_channels(const Elementwise& p) {
    const u32 along = divide(threadIdx.x, p.extents[0]);
    Spots spots;
    spots.channel = (threadIdx.x - along * p.extents[0].divisor) * 8;
    spots.together = divide(p.length, p.extents[0]), spots.last = p.extents[1].divisor - 1;
    bring_around(p, p.tail);
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        spots.first = tile * RUNS * spots.together + along;
        if (spots.first > spots.last || threadIdx.x >= p.length) continue;
        const auto ask = [&](const TailOperand& o, auto touch_at) {
#pragma unroll
            for (u32 r = 0; r < RUNS; ++r) {
                if (r == 0 || !is_shared(o)) touch_at(place_of(o.strides, spots, r));
            }
        };
        touch_operands(p.tail, ask);
        float values[8 * RUNS];
        load_spots<RUNS>(p.head.a, spots, values);
        const u32 calls = p.tail.calls;
#pragma unroll 1
        for (u32 step = p.copy; step <= calls; ++step) {
            const TailCall& call = step == 0 ? p.head : p.tail.call[step - 1];
            // Of a copy there is nothing to do but to round it.
            if (step == 1 && p.copy) round_pairs(p.tail.head_rounded, values);
            if (call.function < TAIL_ADD) {
                apply_unary(call, values);
            } else {
                const bool turned = step > 0 && call.a.source == FROM_MEMORY;
                const TailOperand& o = turned ? call.a : call.b;
                if (is_shared(o)) {
                    float one[8];
                    load_spots<1>(o, spots, one);
                    apply_binary(call.function, turned, values, one);
                } else {
                    float other[8 * RUNS];
                    load_spots<RUNS>(o, spots, other);
                    apply_binary(call.function, turned, values, other);
                }
            }
            if (step < calls) round_pairs(step == 0 ? p.tail.head_rounded : call.rounded, values);
        }
#pragma unroll
        for (u32 r = 0; r < RUNS; ++r) {
            if (spots.first + r * spots.together > spots.last) break;
            const i32 element = place_of(p.y.strides, spots, r);
            const float* const v = values + 8 * r;
            if (p.y.dtype == F16) {
                *reinterpret_cast<uint4*>(reinterpret_cast<u16*>(p.y.address) + element) =
                    make_uint4(two_rounded(v[0], v[1]), two_rounded(v[2], v[3]), two_rounded(v[4], v[5]), two_rounded(v[6], v[7]));
            } else {
                float4* const to = reinterpret_cast<float4*>(reinterpret_cast<float*>(p.y.address) + element);
                to[0] = make_float4(v[0], v[1], v[2], v[3]), to[1] = make_float4(v[4], v[5], v[6], v[7]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(ELEMENTWISE_THREADS, 4) elementwise_channels_pairs(const __grid_constant__ Elementwise p) {
    elementwise_channels<2>(p);
}

extern "C" __global__ void __launch_bounds__(ELEMENTWISE_THREADS, 3) elementwise_channels_fours(const __grid_constant__ Elementwise p) {
    elementwise_channels<4>(p);
}
