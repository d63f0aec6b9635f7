// First layers on Hopper, a band of output rows at a time: the products of stem.cu by many small blocks.
//
// A block is one warpgroup, or two that share weights. It loads the input rows under its band, then makes the band row by row:
// while one block of a multiprocessor waits for memory, others multiply and store. So it needs neither a ring nor warps of two
// kinds. It stores by the copy engine alone; what that cannot store is left to stem.cu,
// and so are functions but those that are usual in networks.

#include "stem_tile.cuh"

constexpr u32 CHANNELS = 4;  // of a pixel in shared memory

// A value of a picture, as it lies there in the lower half or in all bits; 0 where it is not `wanted`, and nothing is read.
template <bool SINGLE>
__device__ __forceinline__ u32 load_value(u64 address, bool wanted) {
    u32 bits;
    if constexpr (SINGLE) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.b32 %0, [%1];\n}"
                     : "=r"(bits)
                     : "l"(address), "r"(static_cast<u32>(wanted))
                     : "memory");
    } else {
        asm volatile(
            "{\n.reg .pred p;\n.reg .b16 h;\nsetp.ne.u32 p, %2, 0;\nmov.b16 h, 0;\n@p ld.global.b16 h, [%1];\ncvt.u32.u16 %0, h;\n}"
            : "=r"(bits)
            : "l"(address), "r"(static_cast<u32>(wanted))
            : "memory");
    }
    return bits;
}

// Two values as halves.
template <bool SINGLE>
__device__ __forceinline__ u32 as_halves(u32 a, u32 b) {
    if constexpr (SINGLE) return two_halves(__uint_as_float(a), __uint_as_float(b));
    return a | b << 16;
}

// A band: output rows of a segment.
struct Band {
    u32 batch, row, segment;

    __device__ __forceinline__ Band(const Stem& p, u32 index) {
        const u32 strip = divide(index, p.rows);
        row = p.first_row + (index - strip * p.rows.divisor) * p.ahead;
        batch = divide(strip, p.segments);
        segment = strip - batch * p.segments.divisor;
        batch += p.first_batch;
    }
};

// Copies the input rows under a band to `rows` in shared memory: each warp LINES rows at once, AT_ONCE pixels a lane. DENSE
// pictures have neighbouring pixels of a channel side by side.
template <bool SINGLE, bool DENSE, u32 LINES, u32 AT_ONCE, u32 WARPS>
__device__ __forceinline__ void load_rows(const Stem& p, const Band& band, u32 rows, u32 warp, u32 lane) {
    constexpr u32 SIZE = SINGLE ? 4 : 2;
    const u32 segment_pixels = p.row_pixels - p.quads * 4 + p.stride_pixels;
    const i32 left = static_cast<i32>(band.segment * segment_pixels) - static_cast<i32>(p.pad_pixels);
    const i32 top = static_cast<i32>(band.row * p.stride_rows) - static_cast<i32>(p.pad_rows);
    // From a pixel of a lane to its next.
    const u32 step = (DENSE ? 1 : p.x_pixel) * WARP * SIZE;
    const u32 pitch = (p.stride_pixels == 1 ? PAIR_BYTES : p.stride_pixels == 2 ? PIXEL_BYTES : PIXEL_BYTES / 2) * WARP;
    const u32 place = rows + pixel_offset(p, lane);
    const bool twice = p.stride_pixels == 1;
#pragma unroll 1
    for (u32 line = warp; line < p.ring_rows; line += LINES * WARPS) {
#pragma unroll 1
        for (u32 first = lane; first < p.row_pixels; first += AT_ONCE * WARP) {
            const i32 column = left + static_cast<i32>(first);
            u32 values[LINES][AT_ONCE][CHANNELS];
#pragma unroll
            for (u32 l = 0; l < LINES; ++l) {
                const i32 y = top + static_cast<i32>(line + l * WARPS);
                const u32 width = static_cast<u32>(y) < p.height && line + l * WARPS < p.ring_rows ? p.width : 0;
                const i64 element = band.batch * p.x_batch + y * p.x_row + static_cast<i64>(column) * p.x_pixel;
                u64 from[CHANNELS];
#pragma unroll
                for (u32 c = 0; c < CHANNELS; ++c) from[c] = p.x + static_cast<u64>((element + static_cast<i64>(c) * p.x_channel) * SIZE);
#pragma unroll
                for (u32 i = 0; i < AT_ONCE; ++i) {
                    const bool inside = static_cast<u32>(column + static_cast<i32>(i * WARP)) < width;
#pragma unroll
                    for (u32 c = 0; c < CHANNELS; ++c) values[l][i][c] = load_value<SINGLE>(from[c] + i * step, inside && c < p.x_channels);
                }
            }
#pragma unroll
            for (u32 l = 0; l < LINES; ++l) {
                if (line + l * WARPS >= p.ring_rows) break;
                u32 to = place + (line + l * WARPS) * p.row_bytes + (first - lane) / WARP * pitch;
#pragma unroll
                for (u32 i = 0; i < AT_ONCE; ++i, to += pitch) {
                    const u32 (&v)[CHANNELS] = values[l][i];
                    const uint2 pixel = make_uint2(as_halves<SINGLE>(v[0], v[1]), as_halves<SINGLE>(v[2], v[3]));
                    const u32 x = first + i * WARP;
                    if (x < p.row_pixels) store_pixel(to, pixel);
                    // The pair before ends with the pixel, too.
                    if (twice && x > 0 && x < p.row_pixels) store_pixel(to - PIXEL_BYTES, pixel);
                }
            }
        }
    }
}

template <bool SINGLE, bool DENSE, u32 WARPS>
__device__ __forceinline__ void load_rows(const Stem& p, const Band& band, u32 rows, u32 warp, u32 lane) {
    if (p.row_pixels <= 4 * WARP) {
        load_rows<SINGLE, DENSE, 2, 4, WARPS>(p, band, rows, warp, lane);
    } else {
        load_rows<SINGLE, DENSE, 1, 8, WARPS>(p, band, rows, warp, lane);
    }
}

template <u32 WARPS>
__device__ __forceinline__ void load_band(const Stem& p, const Band& band, u32 rows) {
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (!p.x_single) {
        load_rows<false, false, WARPS>(p, band, rows, warp, lane);
    } else if (p.x_pixel == 1) {
        load_rows<true, true, WARPS>(p, band, rows, warp, lane);
    } else {
        load_rows<true, false, WARPS>(p, band, rows, warp, lane);
    }
}

// Finishes a turned segment with SiLU or GELU: the choice stands before the turns.
template <u32 N>
__device__ __forceinline__ void finish_curved(const Stem& p, const Place& place, u32 turned, u32 thread) {
    const auto by = [&](const auto& f) {
        finish_turned<N>(p, place, p.columns - place.pixel, turned, thread, [&](float(&v)[GROUP], u32, u32) {
#pragma unroll
            for (u32 k = 0; k < GROUP; ++k) v[k] = f(v[k]);
        });
    };
    if (p.epilogue.function == EPILOGUE_GELU) {
        by([](float x) { return brief_gelu(x); });
    } else {
        by([](float x) { return brief_silu(x); });
    }
}

template <u32 N, u32 GROUPS, bool CURVED>
__device__ __forceinline__ void make_bands(const Stem& p) {
    extern __shared__ __align__(1024) u8 shared[];
    constexpr u32 THREADS = GROUPS * WARPGROUP;
    const u32 base = shared_address(shared), barrier = base;
    const u32 weight_bytes = p.blocks_across * p.kernel_rows * p.quads * MATRIX_BYTES;
    const u32 turns = base + WEIGHTS + weight_bytes, rows = turns + GROUPS * N * TURN_ROW_BYTES;
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        barrier_init_fence();
        barrier_arrive_expecting(barrier, weight_bytes);
        copy_run(base + WEIGHTS, reinterpret_cast<const void*>(p.weights), weight_bytes, barrier);
    }
    // Taken from one lane, so that the compiler knows it to be the same in all.
    const u32 group = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP, 0), thread = threadIdx.x % WARPGROUP;
    const u32 warp = __shfl_sync(0xffffffff, thread / WARP, 0), lane = thread % WARP;
    const auto meet = [&] {
        if (GROUPS == 1 || group == 0) {
            asm volatile("bar.sync 1, %0;" ::"n"(WARPGROUP) : "memory");
        } else {
            asm volatile("bar.sync 2, %0;" ::"n"(WARPGROUP) : "memory");
        }
    };
    const u32 turned = turns + group * N * TURN_ROW_BYTES, row = warp * 16 + lane / 4;
    u32 channel_block = ~0u;
    float low = 0.0f, high = 0.0f;  // biases of the two rows of a thread's sums
    bool fresh = true;
    wait_for_predecessors();
    release_successors();
    for (u32 index = blockIdx.x; index < p.items; index += gridDim.x) {
        const Band band(p, index);
        load_band<THREADS / WARP>(p, band, rows);
        copy_fence();
        __syncthreads();
        if (fresh) barrier_wait(barrier, 0);
        fresh = false;
        const u32 made = min(p.ahead, p.row_end - band.row);
        for (u32 r = group; r < made; r += GROUPS) {
            for (u32 c = 0; c < p.blocks_across; ++c) {
                float sums[N / 2];
                const u32 first = rows + r * p.stride_rows * p.row_bytes;
                const auto pixels = [&](u32 k) { return core_matrices(first + k * p.row_bytes, p.half_bytes, CORE_BYTES); };
                multiply<N>(p, c, sums, base + WEIGHTS, pixels);
                const Place place = {band.batch, band.row + r, band.segment * N, c * BLOCK_CHANNELS};
                if (c != channel_block) {
                    channel_block = c;
                    low = row_bias(p, place.channel + row);
                    high = row_bias(p, place.channel + row + 8);
                }
                if (warp == 0 && elected()) wait_stored();
                meet();
                // The copy engine leaves out channels behind the last: what lies there is no matter.
                if (place.channel + warp * 16 < p.channels) turn<N>(p.epilogue, sums, low, high, turned, warp, lane);
                if constexpr (CURVED) {
                    meet();
                    finish_curved<N>(p, place, turned, thread);
                }
                copy_fence();
                meet();
                if (warp == 0 && elected()) store_turned(p, place, turned);
            }
        }
        __syncthreads();
    }
    if (warp == 0 && elected()) wait_stored();
}

// Kernels of the menu (plan/tactic/stem.rs): output pixels of a segment, warpgroups, blocks of which a multiprocessor has
// registers. Each stands for functions that are applied to the sums, and for those that are not.
#define STEM_BAND_KERNEL(N, G, B, NAME, CURVED)                                                                          \
    extern "C" __global__ void __launch_bounds__(G * WARPGROUP, B) stem_band_##N##_g##G##NAME(const __grid_constant__ Stem p) { \
        make_bands<N, G, CURVED>(p);                                                                                     \
    }
#define STEM_BAND(N, G, B)                                                                                               \
    STEM_BAND_KERNEL(N, G, B, , false)                                                                                   \
    STEM_BAND_KERNEL(N, G, B, _curved, true)

STEM_BAND(56, 1, 6)
STEM_BAND(56, 2, 3)
STEM_BAND(112, 1, 5)
STEM_BAND(112, 2, 2)
