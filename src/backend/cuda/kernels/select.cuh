// The smallest keys of many, in ascending order, by one block.
//
// Keys are unique, so that what is found does not depend on the order in which threads come: integer atomics serve. Where
// there are more candidates than fit, a radix select over the keys' bits finds the largest key that is taken (Alabi et al.,
// "Fast k-selection algorithms for graphics processing units", 2012); the taken ones are sorted by a bitonic network
// (Batcher, "Sorting networks and their applications", 1968).
#pragma once

#include "types.cuh"

constexpr u32 SELECT_THREADS = 1024;
// Most keys that are selected at once.
constexpr u32 SELECT_CAPACITY = 4096;
// Keys that are sorted sooner than told apart: a thread has one of them.
constexpr u32 SELECT_FEW = SELECT_THREADS;
// What a candidate that does not take part has for a key.
constexpr u64 NO_KEY = ~0ull;

constexpr u32 DIGIT_BITS = 11;
constexpr u32 DIGITS = 1 << DIGIT_BITS;
constexpr u32 FULL_WARP = 0xffffffffu;

// Shared memory of a selection.
struct Selection {
    u64 keys[SELECT_CAPACITY];
    u32 histogram[DIGITS];
    u32 warps[SELECT_THREADS / 32];
    u32 found;
    u32 digit;
    u32 below;  // keys of smaller digits
    u32 within;  // keys of this digit
};

// A number that grows as `value` falls: equal for both zeros, largest for NaN.
__device__ __forceinline__ u32 falling(float value) {
    if (value != value) return ~0u;
    const u32 bits = __float_as_uint(__fadd_rn(value, 0.0f));
    const u32 rising = bits >> 31 == 0 ? bits | 1u << 31 : ~bits;
    return ~rising;
}

// The key of candidate `index` with this falling score: better candidates have smaller keys, equals go by lower index.
__device__ __forceinline__ u64 key_of(u32 score, u32 index) {
    return u64(score) << 32 | index;
}

// Finds the digit in which the `wanted`-th key stands, with the keys before and within it; `wanted` is at least 1. Where the
// histogram holds fewer, `within` becomes 0.
__device__ __forceinline__ void find_digit(Selection& s, u32 wanted) {
    constexpr u32 EACH = DIGITS / SELECT_THREADS;
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    if (threadIdx.x == 0) s.within = 0;
    u32 own[EACH];
    u32 sum = 0;
    for (u32 i = 0; i < EACH; ++i) {
        own[i] = s.histogram[threadIdx.x * EACH + i];
        sum += own[i];
    }
    u32 upto = sum;
    for (u32 step = 1; step < 32; step *= 2) {
        const u32 other = __shfl_up_sync(FULL_WARP, upto, step);
        if (lane >= step) upto += other;
    }
    if (lane == 31) s.warps[warp] = upto;
    __syncthreads();
    u32 warps = s.warps[lane];
    for (u32 step = 1; step < 32; step *= 2) {
        const u32 other = __shfl_up_sync(FULL_WARP, warps, step);
        if (lane >= step) warps += other;
    }
    const u32 others = __shfl_sync(FULL_WARP, warps, (warp + 31) % 32);
    u32 before = upto - sum + (warp == 0 ? 0 : others);
    for (u32 i = 0; i < EACH; ++i) {
        if (before < wanted && wanted - before <= own[i]) {
            s.digit = threadIdx.x * EACH + i;
            s.below = before;
            s.within = own[i];
        }
        before += own[i];
    }
    __syncthreads();
}

// The keys of a block's candidates that are not below `least`. Up to HELD of a thread are asked for together and stay in its registers,
// if these are all it has; else each look at them asks again.
template <u32 HELD, class Key>
struct Candidates {
    u32 count;
    u64 least;
    Key key;
    u64 held[HELD == 0 ? 1 : HELD];
    bool all_held;

    __device__ __forceinline__ Candidates(u32 count_, u64 least_, Key key_)
        : count(count_), least(least_), key(key_), all_held(HELD > 0 && count_ <= HELD * SELECT_THREADS) {
        if constexpr (HELD > 0) {
#pragma unroll
            for (u32 i = 0; i < HELD; ++i) {
                const u32 at = i * SELECT_THREADS + threadIdx.x;
                held[i] = all_held && at < count ? key(at) : NO_KEY;
            }
        }
    }

    // Calls `f` with every key of this thread that takes part.
    template <class F>
    __device__ __forceinline__ void each(F f) const {
        const auto take = [&](u64 k) {
            if (k != NO_KEY && k >= least) f(k);
        };
        if constexpr (HELD > 0) {
            if (all_held) {
#pragma unroll
                for (u32 i = 0; i < HELD; ++i) take(held[i]);
                return;
            }
        }
        for (u32 i = threadIdx.x; i < count; i += SELECT_THREADS) take(key(i));
    }
};

// A key that at least the `wanted` smallest keys do not exceed: their largest, or one that not many exceed either, or the largest key
// there can be if there are fewer.
template <class C>
__device__ __forceinline__ u64 largest_taken(Selection& s, const C& candidates, u32 wanted) {
    u64 prefix = 0;
    u32 taken = 0;
    for (i32 top = 64; top > 0; top -= i32(DIGIT_BITS)) {
        const u32 shift = max(top - i32(DIGIT_BITS), 0);
        const u32 bits = u32(top) - shift;
        for (u32 i = threadIdx.x; i < DIGITS; i += SELECT_THREADS) s.histogram[i] = 0;
        __syncthreads();
        candidates.each([&](u64 k) {
            if (top == 64 || k >> top == prefix) atomicAdd(&s.histogram[(k >> shift) & ((1u << bits) - 1)], 1u);
        });
        __syncthreads();
        find_digit(s, wanted);
        const u32 within = s.within;
        if (within == 0) break;
        wanted -= s.below;
        taken += s.below;
        prefix = prefix << bits | s.digit;
        if (within == wanted || taken + within <= SELECT_FEW) return ((prefix + 1) << shift) - 1;
        __syncthreads();
    }
    return NO_KEY - 1;
}

// Sorts `count` keys in ascending order.
__device__ __forceinline__ void sort_keys(Selection& s, u32 count) {
    u32 size = 1;
    while (size < count) size *= 2;
    for (u32 i = count + threadIdx.x; i < size; i += SELECT_THREADS) s.keys[i] = NO_KEY;
    for (u32 run = 2; run <= size; run *= 2) {
        for (u32 step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < size / 2; i += SELECT_THREADS) {
                const u32 low = 2 * i - (i & (step - 1));
                const u32 high = low + step;
                const u64 a = s.keys[low];
                const u64 b = s.keys[high];
                const bool ascending = (low & run) == 0;
                if (a > b == ascending) {
                    s.keys[low] = b;
                    s.keys[high] = a;
                }
            }
        }
    }
    __syncthreads();
}

// The same of at most a key a thread: those of a warp change places among themselves.
__device__ __forceinline__ void sort_few(Selection& s, u32 count) {
    u32 size = 32;
    while (size < count) size *= 2;
    u64 own = threadIdx.x < count ? s.keys[threadIdx.x] : NO_KEY;
    for (u32 run = 2; run <= size; run *= 2) {
        for (u32 step = run / 2; step > 0; step /= 2) {
            u64 other;
            if (step < 32) {
                other = __shfl_xor_sync(FULL_WARP, own, step);
            } else {
                __syncthreads();
                s.keys[threadIdx.x] = own;
                __syncthreads();
                other = s.keys[threadIdx.x ^ step];
            }
            const bool lower = (threadIdx.x & step) == 0, ascending = (threadIdx.x & run) == 0;
            own = (own < other) == (lower == ascending) ? own : other;
        }
    }
    __syncthreads();
    s.keys[threadIdx.x] = own;
    __syncthreads();
}

// Leaves the smallest of the keys `key(0)..key(count - 1)` that are not below `least` at the front of `s.keys`, in
// ascending order, and gives their number: `wanted`, at most SELECT_CAPACITY, or all there are. The whole block calls it.
template <u32 HELD = 0, class Key>
__device__ __forceinline__ u32 select_smallest(Selection& s, u32 count, u32 wanted, u64 least, Key key) {
    if (wanted == 0 || count == 0) return 0;
    const Candidates<HELD, Key> candidates(count, least, key);
    const u64 most = count <= SELECT_FEW ? NO_KEY - 1 : largest_taken(s, candidates, wanted);
    __syncthreads();
    if (threadIdx.x == 0) s.found = 0;
    __syncthreads();
    // A warp finds room for all that its threads take at once.
    const u32 lane = threadIdx.x % 32;
    u32 own = 0;
    candidates.each([&](u64 k) { own += k <= most; });
    u32 upto = own;
    for (u32 step = 1; step < 32; step *= 2) {
        const u32 other = __shfl_up_sync(FULL_WARP, upto, step);
        if (lane >= step) upto += other;
    }
    u32 at = 0;
    if (lane == 31 && upto > 0) at = atomicAdd(&s.found, upto);
    at = __shfl_sync(FULL_WARP, at, 31) + upto - own;
    candidates.each([&](u64 k) {
        if (k > most) return;
        if (at < SELECT_CAPACITY) s.keys[at] = k;
        ++at;
    });
    __syncthreads();
    const u32 found = min(s.found, SELECT_CAPACITY);
    if (found <= SELECT_FEW) {
        sort_few(s, found);
    } else {
        sort_keys(s, found);
    }
    return min(found, wanted);
}
