// First layers on Hopper: convolutions of pictures of up to 4 channels, whose patches are no matrix that a copy engine makes.
//
// Input rows stay in a ring while outputs below need them. A block makes a run of items (a segment, a row, 64 channels), whose
// rows follow each other downwards. Some warps load and convert input rows; two warpgroups multiply and store, item by item in
// turn.

#include "stem_tile.cuh"

constexpr u32 GROUPS = 2;                       // warpgroups that multiply
constexpr u32 LOADERS = 8;                      // warps that load
constexpr u32 THREADS = GROUPS * WARPGROUP + LOADERS * WARP;
constexpr u32 MAX_AHEAD = 8, STAGES = 2 * MAX_AHEAD;   // a barrier is met again when both sides have passed it
// Shared memory: barriers, weights, the places where segments are turned round, the ring.
constexpr u32 FULL = 0, DONE = STAGES * 8, WEIGHTS_FULL = 2 * STAGES * 8;

static_assert(WEIGHTS_FULL + 8 <= WEIGHTS, "barriers fit");

// An item, and the input rows it adds to the ring.
struct Item {
    u32 batch, row, segment;  // of the chunk
    u32 channel_block;
    u32 top;    // place in the ring of its first input row
    u32 fresh;  // the last `fresh` of its input rows are not there yet

    __device__ __forceinline__ Item(const Stem& p, u32 index) {
        const u32 line = index / p.blocks_across;
        channel_block = index - line * p.blocks_across;
        const u32 strip = divide(line, p.rows);
        row = line - strip * p.rows.divisor;
        batch = divide(strip, p.segments);
        segment = strip - batch * p.segments.divisor;
        top = 0;
        fresh = p.kernel_rows;
    }

    __device__ __forceinline__ void advance(const Stem& p) {
        u32 kept = p.kernel_rows;
        if (++channel_block == p.blocks_across) {
            channel_block = 0;
            kept = p.kernel_rows > p.stride_rows ? p.kernel_rows - p.stride_rows : 0;
            if (++row == p.rows.divisor) {
                row = 0;
                kept = 0;
                if (++segment == p.segments.divisor) {
                    segment = 0;
                    ++batch;
                }
            }
        }
        fresh = p.kernel_rows - kept;
        top = wrapped(p, top + fresh);
    }

    static __device__ __forceinline__ u32 wrapped(const Stem& p, u32 place) { return place < p.ring_rows ? place : place - p.ring_rows; }
};

// The items of this block.
struct Share {
    u32 begin, count;

    __device__ __forceinline__ explicit Share(const Stem& p) {
        const u32 each = p.items / gridDim.x, more = p.items - each * gridDim.x;
        begin = blockIdx.x * each + min(blockIdx.x, more);
        count = each + (blockIdx.x < more);
    }
};

// --- loading ---

template <bool SINGLE>
__device__ __forceinline__ u32 load_half(u64 address) {
    if constexpr (SINGLE) {
        float value;
        asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
        return float_to_half(value);
    } else {
        u16 bits;
        asm volatile("ld.global.u16 %0, [%1];" : "=h"(bits) : "l"(address) : "memory");
        return bits;
    }
}

// Copies row `y` of the segment to `row` in shared memory, by one warp: `AT_ONCE` pixels a lane are under way together. All
// addresses are of elements that are there, whether they are wanted or not, so that no load waits for a branch.
template <bool SINGLE, u32 CHANNELS, u32 AT_ONCE>
__device__ __forceinline__ void load_row(const Stem& p, const Item& item, i32 y, u32 row, u32 lane) {
    constexpr u32 SIZE = SINGLE ? 4 : 2;
    const bool inside = static_cast<u32>(y) < p.height;
    const u64 line = p.x + static_cast<u64>((p.first_batch + item.batch) * p.x_batch + (inside ? y : 0) * p.x_row) * SIZE;
    u64 plane[CHANNELS];
#pragma unroll
    for (u32 c = 0; c < CHANNELS; ++c) plane[c] = line + static_cast<u64>(min(c, p.x_channels - 1)) * p.x_channel * SIZE;
    const u32 step = p.x_pixel * SIZE;
    const u32 segment_pixels = p.row_pixels - p.quads * 4 + p.stride_pixels;
    const i32 begin = static_cast<i32>(item.segment * segment_pixels) - static_cast<i32>(p.pad_pixels);
#pragma unroll 1
    for (u32 first = lane; first < p.row_pixels; first += AT_ONCE * WARP) {
        u32 halves[AT_ONCE][CHANNELS];
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i) {
            const i32 from = begin + static_cast<i32>(first + i * WARP);
            const u32 near = min(max(from, 0), static_cast<i32>(p.width) - 1);
#pragma unroll
            for (u32 c = 0; c < CHANNELS; ++c) halves[i][c] = load_half<SINGLE>(plane[c] + static_cast<u64>(near) * step);
        }
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i) {
            const u32 x = first + i * WARP;
            const bool live = inside && static_cast<u32>(begin + static_cast<i32>(x)) < p.width;
            u32 words[2] = {};
#pragma unroll
            for (u32 c = 0; c < CHANNELS; ++c) words[c / 2] |= live && c < p.x_channels ? halves[i][c] << c % 2 * 16 : 0;
            if (x >= p.row_pixels) break;
            const u32 to = row + pixel_offset(p, x);
            store_pixel(to, make_uint2(words[0], words[1]));
            // The pair before ends with the pixel, too.
            if (p.stride_pixels == 1 && x > 0) store_pixel(to - PIXEL_BYTES, make_uint2(words[0], words[1]));
        }
    }
}

template <bool SINGLE, u32 CHANNELS>
__device__ __forceinline__ void load_row(const Stem& p, const Item& item, i32 y, u32 row, u32 lane) {
    if (p.row_pixels <= 4 * WARP) {
        load_row<SINGLE, CHANNELS, 4>(p, item, y, row, lane);
    } else {
        load_row<SINGLE, CHANNELS, 8>(p, item, y, row, lane);
    }
}

// Keeps the ring full: each warp loads every `LOADERS`-th row of the block.
template <bool SINGLE, u32 CHANNELS>
__device__ __forceinline__ void load_items(const Stem& p, const Share& share, u32 base, u32 ring, u32 loader, u32 lane) {
    Item item(p, share.begin);
    u32 turn = 0;
    wait_for_predecessors();
    release_successors();
    for (u32 i = 0; i < share.count; ++i, item.advance(p)) {
        if (i >= p.ahead) {
            const u32 before = i - p.ahead;
            barrier_wait(base + DONE + before % STAGES * 8, before / STAGES % 2);
        }
        const u32 kept = p.kernel_rows - item.fresh;
        const i32 y = static_cast<i32>((p.first_row + item.row) * p.stride_rows) - static_cast<i32>(p.pad_rows);
#pragma unroll 1
        for (u32 k = kept; k < p.kernel_rows; ++k) {
            const u32 row = ring + Item::wrapped(p, item.top + k) * p.row_bytes;
            if (turn == loader) {
                load_row<SINGLE, CHANNELS>(p, item, y + static_cast<i32>(k), row, lane);
            }
            if (++turn == LOADERS) turn = 0;
        }
        copy_fence();
        __syncwarp();
        if (lane == 0) barrier_arrive(base + FULL + i % STAGES * 8);
    }
}

// --- multiplying ---

// --- storing ---

__device__ __forceinline__ void meet(u32 group) { asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(WARPGROUP) : "memory"); }

// Finishes a turned segment with functions that are not applied to the sums, and tails of several.
template <u32 N>
__device__ __forceinline__ void finish_long(const Stem& p, const Place& place, u32 live, u32 turned, u32 thread) {
    finish_turned<N>(p, place, live, turned, thread, [&](float(&v)[GROUP], u32 pixel, u32 piece) {
        const auto all = [&](const auto& f) {
#pragma unroll
            for (u32 k = 0; k < GROUP; ++k) v[k] = f(v[k]);
        };
        if (p.epilogue.function < EPILOGUE_SIGMOID) {
            with_usual(p.epilogue, all);
        } else {
            const Place first = {place.batch, place.row, place.pixel + pixel, place.channel + piece * GROUP};
            finish_unusual(v, p.epilogue, first, GROUP);
        }
    });
}

// Writes half of a segment's sums as they are, and finishes them group by group. `meet` waits for the warpgroup.
template <u32 N, u32 BEGIN, u32 END, class Meet>
__device__ __forceinline__ void store_general(const Stem& p, const Place& place, const float (&sums)[N / 2], u32 turned, u32 live,
                                              u32 thread, const Meet& meet) {
    const u32 lane = thread % WARP;
    const u32 to = turned + (lane % 4 * 2 * BLOCK_CHANNELS + thread / WARP * 16 + lane / 4) * 4;
#pragma unroll
    for (u32 j = BEGIN; j < END; ++j) {
#pragma unroll
        for (u32 e = 0; e < 4; ++e) {
            const u32 address = to + (((j - BEGIN) * 8 + e % 2) * BLOCK_CHANNELS + e / 2 * 8) * 4;
            asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(sums[4 * j + e]) : "memory");
        }
    }
    meet();
    constexpr u32 PIECES = BLOCK_CHANNELS / GROUP;
    const u32 piece = thread % PIECES, channel = place.channel + piece * GROUP;
#pragma unroll 1
    for (u32 pixel = thread / PIECES; pixel < (END - BEGIN) * 8; pixel += WARPGROUP / PIECES) {
        if (channel >= p.channels || pixel + BEGIN * 8 >= live) break;
        const u32 at = turned + (pixel * BLOCK_CHANNELS + piece * GROUP) * 4;
        const uint4 low = load_strip(at), high = load_strip(at + 16);
        float values[GROUP] = {__uint_as_float(low.x), __uint_as_float(low.y), __uint_as_float(low.z), __uint_as_float(low.w),
                               __uint_as_float(high.x), __uint_as_float(high.y), __uint_as_float(high.z), __uint_as_float(high.w)};
        finish(values, p.epilogue, Place{place.batch, place.row, place.pixel + BEGIN * 8 + pixel, channel}, min(GROUP, p.channels - channel));
    }
    meet();
}

// Turns a segment's sums round and stores them. `low` and `high` are the biases of the two rows of a thread's sums.
template <u32 N, class Meet>
__device__ __forceinline__ void store_segment(const Stem& p, const Place& place, const float (&sums)[N / 2], float low, float high, u32 turned,
                                              u32 thread, const Meet& meet) {
    const u32 warp = __shfl_sync(0xffffffff, thread / WARP, 0), live = p.columns - place.pixel;
    if (p.plain) {
        if (warp == 0 && elected()) wait_stored();
        meet();
        // The copy engine leaves out channels behind the last: what lies there is no matter.
        if (place.channel + warp * 16 < p.channels) turn<N>(p.epilogue, sums, low, high, turned, warp, thread % WARP);
        if (is_long(p.epilogue)) {
            meet();
            finish_long<N>(p, place, live, turned, thread);
        }
        copy_fence();
        meet();
        if (warp == 0 && elected()) store_turned(p, place, turned);
    } else {
        store_general<N, 0, N / 16>(p, place, sums, turned, live, thread, meet);
        store_general<N, N / 16, N / 16 * 2>(p, place, sums, turned, live, thread, meet);
        if constexpr (N % 16 != 0) store_general<N, N / 8 - 1, N / 8>(p, place, sums, turned, live, thread, meet);
    }
}

// Multiplies and stores every `GROUPS`-th item.
template <u32 N>
__device__ __forceinline__ void make_items(const Stem& p, const Share& share, u32 base, u32 turned, u32 ring, u32 group, u32 thread) {
    const u32 warp = __shfl_sync(0xffffffff, thread / WARP, 0), lane = thread % WARP;
    Item item(p, share.begin);
    barrier_wait(base + WEIGHTS_FULL, 0);
    wait_for_predecessors();  // what is joined may be theirs, and the output's place may still be read
    const u32 row = warp * 16 + lane / 4;
    u32 channel_block = ~0u;
    float low = 0.0f, high = 0.0f;  // biases of the two rows of a thread's sums
    for (u32 i = 0; i < share.count; ++i, item.advance(p)) {
        // All items are awaited: one may need rows that came for those before it.
        barrier_wait(base + FULL + i % STAGES * 8, i / STAGES % 2);
        if (i % GROUPS != group) continue;
        float sums[N / 2];
        u32 ring_row = item.top;
        multiply<N>(p, item.channel_block, sums, base + WEIGHTS, [&](u32) {
            const u64 pixels = core_matrices(ring + ring_row * p.row_bytes, p.half_bytes, CORE_BYTES);
            if (++ring_row == p.ring_rows) ring_row = 0;
            return pixels;
        });
        if (lane == 0) barrier_arrive(base + DONE + i % STAGES * 8);
        const u32 pixel = item.segment * N;
        const Place place = {p.first_batch + item.batch, p.first_row + item.row, pixel, item.channel_block * BLOCK_CHANNELS};
        if (item.channel_block != channel_block) {
            channel_block = item.channel_block;
            low = row_bias(p, place.channel + row);
            high = row_bias(p, place.channel + row + 8);
        }
        store_segment<N>(p, place, sums, low, high, turned, thread, [&] { meet(group); });
    }
    if (warp == 0 && elected()) wait_stored();
}

template <u32 N>
__device__ __forceinline__ void convolve(const Stem& p) {
    extern __shared__ __align__(1024) u8 shared[];
    const u32 base = shared_address(shared);
    const u32 weight_bytes = p.blocks_across * p.kernel_rows * p.quads * MATRIX_BYTES;
    const u32 turned = base + WEIGHTS + weight_bytes, ring = turned + GROUPS * N * TURN_ROW_BYTES;
    if (threadIdx.x == 0) {
        for (u32 i = 0; i < STAGES; ++i) {
            barrier_init(base + FULL + i * 8, LOADERS);
            barrier_init(base + DONE + i * 8, WARPGROUP / WARP);
        }
        barrier_init(base + WEIGHTS_FULL, 1);
        barrier_init_fence();
        barrier_arrive_expecting(base + WEIGHTS_FULL, weight_bytes);
        copy_run(base + WEIGHTS, reinterpret_cast<const void*>(p.weights), weight_bytes, base + WEIGHTS_FULL);
    }
    __syncthreads();
    const Share share(p);
    // Taken from one lane, so that the compiler knows it to be the same in all.
    const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0);
    if (warp >= GROUPS * WARPGROUP / WARP) {
        const u32 loader = warp - GROUPS * WARPGROUP / WARP, lane = threadIdx.x % WARP;
        // What is usual has loads of its own.
        if (p.x_channels == 4) {
            p.x_single ? load_items<true, 4>(p, share, base, ring, loader, lane) : load_items<false, 4>(p, share, base, ring, loader, lane);
        } else {
            p.x_single ? load_items<true, 3>(p, share, base, ring, loader, lane) : load_items<false, 3>(p, share, base, ring, loader, lane);
        }
    } else {
        const u32 group = warp / (WARPGROUP / WARP);
        make_items<N>(p, share, base, turned + group * N * TURN_ROW_BYTES, ring, group, threadIdx.x % WARPGROUP);
    }
}

// Kernels of the menu (plan/tactic/stem.rs): output pixels of a segment.
#define STEM_KERNEL(N) \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) stem_##N(const __grid_constant__ Stem p) { convolve<N>(p); }

STEM_KERNEL(32)
STEM_KERNEL(56)
STEM_KERNEL(64)
STEM_KERNEL(88)
STEM_KERNEL(104)
STEM_KERNEL(112)
STEM_KERNEL(128)
