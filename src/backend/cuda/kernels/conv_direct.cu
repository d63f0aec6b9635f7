// Convolutions of few channels by mma.sync, whose pixels come straight into registers.
//
// A warp makes two tiles of 16 pixels at a time, all channels of the output or as many as its registers have room for. A lane's words of
// the pixels under a tap are the fragment that the product wants; nothing is laid out in shared memory, nothing waits for a barrier, and
// what taps have in common the first cache has. The weights lie in shared memory in the order in which lanes want them. Such launches wait
// for their instructions to issue before they wait for memory, so where pixels follow each other lanes only walk on.
//
// Every element is one chain of m16n8k16 instructions in the order (tap row, tap column, 16 channels): the bits of conv_mma.cu where steps
// of 16 along K do not reach from tap to tap, and of conv_wgmma.cu.
#include "bounds.cuh"
#include "chain.cuh"
#include "conv_params.cuh"
#include "mma.cuh"
#include "quads.cuh"

struct ConvDirect {
    Convolution product;  // weights: [16 output channels][tap][step][lane][4 words]; `tiles` are those of 32 pixels
    u32 rounds;           // in which a warp makes its output channels
    u32 taps;
};

static_assert(sizeof(ConvDirect) == sizeof(Convolution) + 8, "mirrored in bind/conv_direct.rs");

constexpr u32 WARP = 32, STEP = 16;      // channels of a product
constexpr u32 TILES = 2, TILE = 16;      // of a warp, and pixels of each
constexpr u32 CHANNELS = 16;             // of the output, of two products side by side
constexpr u32 FRAGMENT_BYTES = WARP * 16;

// Where a lane's pixels of the output begin in a tensor: elements.
struct Begins {
    i64 element[TILES][2];

    __device__ __forceinline__ Begins(const Convolution& c, const ChannelsLast& tensor, u32 first) {
        const bool flat = c.epilogue.flags & EPILOGUE_FLAT;
#pragma unroll
        for (u32 i = 0; i < TILES; ++i) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const u32 index = first + i * TILE + half * 8;
                if (flat) {
                    element[i][half] = static_cast<i64>(c.first_pixel + index) * tensor.pixel;
                } else {
                    const Place place = place_of(c, index);
                    element[i][half] = place.batch * tensor.batch + place.row * tensor.row + place.pixel * tensor.pixel;
                }
            }
        }
    }
};

// Where a lane's sums lie behind any tail: from tile to tile.
struct Others {
    const Convolution& c;
    u32 first;
    u32 channel;

    struct Walk {
        const Convolution& c;
        u32 index;
        Place place;

        __device__ __forceinline__ bool live(u32) const { return index < c.m; }
        __device__ __forceinline__ void next() {
            const u32 channel = place.channel;
            index += TILE;
            place = place_of(c, index);
            place.channel = channel;
        }
    };

    __device__ __forceinline__ Walk walk(u32 half) const {
        Walk walk = {c, first + half * 8, place_of(c, first + half * 8)};
        walk.place.channel = channel;
        return walk;
    }
};

// A lane's pixels of the input under the first tap: of each tile one, and the one 8 further on.
struct Corners {
    i32 element[TILES][2];
    i32 row[TILES][2], pixel[TILES][2];

    __device__ __forceinline__ Corners(const Convolution& c, u32 first) {
#pragma unroll
        for (u32 i = 0; i < TILES; ++i) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                // Behind the last pixel lanes read the last again.
                const Place at = place_of(c, min(first + i * TILE + half * 8, c.m - 1));
                row[i][half] = static_cast<i32>(at.row * c.stride_rows) - static_cast<i32>(c.pad_rows);
                pixel[i][half] = static_cast<i32>(at.pixel * c.stride_pixels) - static_cast<i32>(c.pad_pixels);
                element[i][half] = static_cast<i32>(at.batch) * c.x_batch + row[i][half] * c.x_row + pixel[i][half] * c.x_pixel;
            }
        }
    }
};

// A tap, and its distance from the first.
struct Tap {
    u32 row = 0, column = 0;

    __device__ __forceinline__ void next(const Convolution& c) {
        if (++column == c.kernel_columns.divisor) {
            column = 0;
            ++row;
        }
    }
};

// What a tap's products multiply.
template <u32 STEPS>
struct Pixels {
    u32 words[STEPS][TILES][4];

    // The words of a pixel: `own` channels of the last step's begin at the lane's first word.
    __device__ __forceinline__ void load(u32 i, u32 half, const u16* from, bool there, u32 own) {
        const u32* const pixel = reinterpret_cast<const u32*>(from);
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) {
            words[step][i][half] = there && (step + 1 < STEPS || own > 0) ? pixel[step * STEP / 2] : 0;
            words[step][i][half + 2] = there && (step + 1 < STEPS || own > 8) ? pixel[step * STEP / 2 + 4] : 0;
        }
    }

    // Those under a tap, zeros outside the image.
    __device__ __forceinline__ void load(const Convolution& c, const Corners& corners, const Tap& tap, const u16* from, u32 own) {
        const u32 down = tap.row * c.dilation_rows.divisor, across = tap.column * c.dilation_pixels.divisor;
        const i32 distance = static_cast<i32>(tap.row) * c.tap_row + static_cast<i32>(tap.column) * c.tap_column;
#pragma unroll
        for (u32 i = 0; i < TILES; ++i) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const bool inside = corners.row[i][half] + down < c.height && corners.pixel[i][half] + across < c.width;
                load(i, half, from + corners.element[i][half] + distance, inside, own);
            }
        }
    }
};

__device__ __forceinline__ uint4 load_fragment(u32 shared) {
    uint4 words;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "r"(shared) : "memory");
    return words;
}

// Bounds and a joined tensor: what most launches have behind their sums.
struct Brief {
    Bounds bounds;
    bool joins, relu;

    __device__ __forceinline__ explicit Brief(const Epilogue& e) : bounds(e), joins(is_join(e)), relu(e.flags & EPILOGUE_JOINS_RELU) {}

    __device__ __forceinline__ uint2 halves(const float* sums, const float4& bias) const {
        return make_uint2(bounds.halves(__fadd_rn(sums[0], bias.x), __fadd_rn(sums[1], bias.y)),
                          bounds.halves(__fadd_rn(sums[2], bias.z), __fadd_rn(sums[3], bias.w)));
    }

    __device__ __forceinline__ uint2 join(uint2 bits, uint2 other) const {
        bits = make_uint2(add_halves(bits.x, other.x), add_halves(bits.y, other.y));
        return relu ? make_uint2(relu_halves(bits.x), relu_halves(bits.y)) : bits;
    }
};

// Sums of so many times 16 channels.
template <u32 GROUPS>
struct Sums {
    float parts[GROUPS][TILES][2][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) {
#pragma unroll
            for (u32 i = 0; i < TILES; ++i) {
#pragma unroll
                for (u32 k = 0; k < 8; ++k) parts[g][i][k / 4][k % 4] = 0.0f;
            }
        }
    }

    __device__ __forceinline__ void add(u32 g, const u32 (&words)[TILES][4], const uint4& weights) {
#pragma unroll
        for (u32 i = 0; i < TILES; ++i) {
            multiply(parts[g][i][0], words[i], weights.x, weights.y);
            multiply(parts[g][i][1], words[i], weights.z, weights.w);
        }
    }

    __device__ __forceinline__ void take(Quads<TILES>& sums, u32 g) const {
        take_quads<TILES>(sums, [&](u32 i, u32 j, u32 k) { return parts[g][i][j][k]; });
    }

    // Stores them behind what is brief. `first` is the lane's first pixel and `channel` its first channel; of a group of channels `bias(g)`
    // are its biases, of a pixel of it `joined(g, i, half)` is what is joined if anything is, and `output(g, i, half)` where it is stored.
    template <class Bias, class Joined, class Output>
    __device__ __forceinline__ void store(const Convolution& c, const Brief& brief, bool joins, u32 first, u32 channel, const Bias& bias,
                                          const Joined& joined, const Output& output) const {
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) {
            Quads<TILES> quads;
            take(quads, g);
            const float4 biases = bias(g);
            const bool has = channel + g * CHANNELS < c.n;
#pragma unroll
            for (u32 i = 0; i < TILES; ++i) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    if (!has || first + i * TILE + half * 8 >= c.m) continue;
                    uint2 bits = brief.halves(&quads[i][half * LANE_CHANNELS], biases);
                    if (joins) bits = brief.join(bits, joined(g, i, half));
                    *output(g, i, half) = bits;
                }
            }
        }
    }
};

// Copies the weights of all rounds.
__device__ __forceinline__ void load_weights(const ConvDirect& p, u32 weights, u32 fragments) {
    for (u32 i = threadIdx.x; i < fragments * WARP; i += blockDim.x) copy_16(weights + i * 16, p.product.weights + i * 16ull, 16);
    commit_copies();
}

__device__ __forceinline__ float4 bias_of(const Convolution& c, u32 channel) {
    const bool has = c.epilogue.bias != 0 && channel < c.n;
    return has ? *reinterpret_cast<const float4*>(c.epilogue.bias + 4ull * channel) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// Single taps of pixels that follow each other, in the input, in the output and in what is joined: STEPS of 16 channels, so many times 16
// channels of the output in a round.
template <u32 STEPS, u32 GROUPS, bool JOINS>
__device__ __forceinline__ void convolve_flat(const ConvDirect& p) {
    extern __shared__ __align__(128) u8 memory[];
    // Where they are few, weights stay in registers.
    constexpr bool KEPT = STEPS * GROUPS <= 4;
    constexpr u32 PIXELS = TILES * TILE;
    const Convolution& c = p.product;
    const Epilogue& e = c.epilogue;
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = blockDim.x / WARP, step = gridDim.x * warps;
    const u32 weights = shared_address(memory);
    load_weights(p, weights, p.rounds * GROUPS * STEPS);
    wait_for_predecessors();
    release_successors();
    wait_copies<0>();
    __syncthreads();
    const u32 word = lane % 4 * 2, begin = (STEPS - 1) * STEP + word, channels = c.channels.divisor;
    const u32 own = begin < channels ? channels - begin : 0, start = (blockIdx.x * warps + warp) * PIXELS + lane / 4;
    const i64 x_pixel = c.x_pixel, y_pixel = e.output.pixel, other_pixel = e.joined.pixel;
    const Brief brief(e);
#pragma unroll 1
    for (u32 round = 0; round < p.rounds; ++round) {
        const u32 mine = weights + round * GROUPS * STEPS * FRAGMENT_BYTES + lane * 16, channel = round * GROUPS * CHANNELS + lane % 4 * LANE_CHANNELS;
        const u16* x = reinterpret_cast<const u16*>(c.x) + (c.first_pixel + start) * x_pixel + word;
        u16* y = reinterpret_cast<u16*>(e.output.address) + (c.first_pixel + start) * y_pixel + channel;
        const u16* other = reinterpret_cast<const u16*>(e.joined.address) + (c.first_pixel + start) * other_pixel + channel;
        float4 bias[GROUPS];
        uint4 kept[KEPT ? STEPS : 1][KEPT ? GROUPS : 1];
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) {
            bias[g] = bias_of(c, channel + g * CHANNELS);
#pragma unroll
            for (u32 s = 0; KEPT && s < STEPS; ++s) kept[s][g] = load_fragment(mine + (g * STEPS + s) * FRAGMENT_BYTES);
        }
        // The next tile's pixels come while this one's are multiplied.
        Pixels<STEPS> now, next;
        const auto load = [&](Pixels<STEPS>& pixels, const u16* from, u32 first) {
#pragma unroll
            for (u32 i = 0; i < TILES; ++i) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const u32 further = i * TILE + half * 8;
                    pixels.load(i, half, from + further * x_pixel, first + further < c.m, own);
                }
            }
        };
        if (start - lane / 4 < c.m) load(now, x, start);
#pragma unroll 1
        for (u32 first = start; first - lane / 4 < c.m; first += step * PIXELS) {
            x += step * PIXELS * x_pixel;
            uint2 joined[JOINS ? GROUPS : 1][TILES][2];
#pragma unroll
            for (u32 g = 0; JOINS && g < GROUPS; ++g) {
                const bool has = channel + g * CHANNELS < c.n;
#pragma unroll
                for (u32 i = 0; i < TILES; ++i) {
#pragma unroll
                    for (u32 half = 0; half < 2; ++half) {
                        const u32 further = i * TILE + half * 8;
                        const uint2* const from = reinterpret_cast<const uint2*>(other + further * other_pixel + g * CHANNELS);
                        joined[g][i][half] = has && first + further < c.m ? *from : make_uint2(0, 0);
                    }
                }
            }
            if (first - lane / 4 + step * PIXELS < c.m) load(next, x, first + step * PIXELS);
            Sums<GROUPS> sums;
            sums.clear();
#pragma unroll
            for (u32 s = 0; s < STEPS; ++s) {
#pragma unroll
                for (u32 g = 0; g < GROUPS; ++g) {
                    if constexpr (KEPT) {
                        sums.add(g, now.words[s], kept[s][g]);
                    } else {
                        sums.add(g, now.words[s], load_fragment(mine + (g * STEPS + s) * FRAGMENT_BYTES));
                    }
                }
            }
            sums.store(
                c, brief, JOINS, first, channel, [&](u32 g) { return bias[g]; }, [&](u32 g, u32 i, u32 half) { return joined[JOINS ? g : 0][i][half]; },
                [&](u32 g, u32 i, u32 half) { return reinterpret_cast<uint2*>(y + (i * TILE + half * 8) * y_pixel + g * CHANNELS); });
            y += step * PIXELS * y_pixel;
            other += step * PIXELS * other_pixel;
            now = next;
        }
    }
}

// What is not brief stays out of line: one copy serves all channels.
__device__ __noinline__ void finish_others(Quads<TILES>& sums, const Convolution& c, u32 first, u32 channel, u32 lane) {
    finish_any<TILES>(sums, c, Others{c, first, channel}, lane);
}

// The same of any windows over pixels that lie anyhow, behind which is what most launches have, or anything.
template <u32 STEPS, u32 GROUPS, bool BRIEF>
__device__ __forceinline__ void convolve(const ConvDirect& p) {
    extern __shared__ __align__(128) u8 memory[];
    // Taps whose pixels come at once.
    constexpr u32 DEPTH = STEPS == 1 ? 3 : STEPS == 2 ? 2 : 1;
    const Convolution& c = p.product;
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    const u32 weights = shared_address(memory);
    load_weights(p, weights, p.rounds * GROUPS * p.taps * STEPS);
    wait_for_predecessors();
    release_successors();
    wait_copies<0>();
    __syncthreads();
    const u32 word = lane % 4 * 2, begin = (STEPS - 1) * STEP + word, channels = c.channels.divisor;
    const u32 own = begin < channels ? channels - begin : 0;
    const u16* const from = reinterpret_cast<const u16*>(c.x) + word;
#pragma unroll 1
    for (u32 tile = blockIdx.x * warps + warp; tile < c.tiles; tile += gridDim.x * warps) {
        const u32 first = tile * TILES * TILE + lane / 4;
        const Corners corners(c, first);
#pragma unroll 1
        for (u32 round = 0; round < p.rounds; ++round) {
            const u32 mine = weights + round * GROUPS * p.taps * STEPS * FRAGMENT_BYTES + lane * 16;
            Sums<GROUPS> sums;
            sums.clear();
            Tap tap;
#pragma unroll 1
            for (u32 index = 0; index < p.taps; index += DEPTH) {
                Pixels<STEPS> pixels[DEPTH];
#pragma unroll
                for (u32 d = 0; d < DEPTH; ++d) {
                    if (d > 0 && index + d >= p.taps) continue;
                    pixels[d].load(c, corners, tap, from, own);
                    tap.next(c);
                }
#pragma unroll
                for (u32 d = 0; d < DEPTH; ++d) {
                    if (d > 0 && index + d >= p.taps) continue;
#pragma unroll
                    for (u32 s = 0; s < STEPS; ++s) {
#pragma unroll
                        for (u32 g = 0; g < GROUPS; ++g) {
                            sums.add(g, pixels[d].words[s], load_fragment(mine + ((g * p.taps + index + d) * STEPS + s) * FRAGMENT_BYTES));
                        }
                    }
                }
            }
            const u32 channel = round * GROUPS * CHANNELS + lane % 4 * LANE_CHANNELS;
            if constexpr (BRIEF) {
                const Brief brief(c.epilogue);
                const Begins outputs(c, c.epilogue.output, first);
                Begins others = outputs;
                if (brief.joins) others = Begins(c, c.epilogue.joined, first);
                u16* const y = reinterpret_cast<u16*>(c.epilogue.output.address) + channel;
                const u16* const other = reinterpret_cast<const u16*>(c.epilogue.joined.address) + channel;
                sums.store(
                    c, brief, brief.joins, first, channel, [&](u32 g) { return bias_of(c, channel + g * CHANNELS); },
                    [&](u32 g, u32 i, u32 half) { return *reinterpret_cast<const uint2*>(other + others.element[i][half] + g * CHANNELS); },
                    [&](u32 g, u32 i, u32 half) { return reinterpret_cast<uint2*>(y + outputs.element[i][half] + g * CHANNELS); });
            } else {
#pragma unroll
                for (u32 g = 0; g < GROUPS; ++g) {
                    Quads<TILES> quads;
                    sums.take(quads, g);
                    finish_others(quads, c, first, channel + g * CHANNELS, lane);
                }
            }
        }
    }
}

// Kernels of the menu (plan/tactic/conv_direct.rs): steps of a tap, times 16 output channels; of pixels that follow each other, or windows.
#define FLAT(STEPS, GROUPS, SUFFIX, JOINS)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(4 * WARP) conv_direct_k##STEPS##_n##GROUPS##SUFFIX(const __grid_constant__ ConvDirect p) { \
        convolve_flat<STEPS, GROUPS, JOINS>(p);                                                                                             \
    }
#define WINDOW(STEPS, GROUPS, SUFFIX, BRIEF)                                                                                                \
    extern "C" __global__ void __launch_bounds__(4 * WARP) conv_direct_k##STEPS##_n##GROUPS##SUFFIX(const __grid_constant__ ConvDirect p) { \
        convolve<STEPS, GROUPS, BRIEF>(p);                                                                                                  \
    }

FLAT(1, 1, _flat, false)
FLAT(1, 2, _flat, false)
FLAT(1, 3, _flat, false)
FLAT(1, 4, _flat, false)
FLAT(2, 1, _flat, false)
FLAT(2, 2, _flat, false)
FLAT(2, 3, _flat, false)
FLAT(2, 4, _flat, false)
FLAT(3, 1, _flat, false)
FLAT(3, 2, _flat, false)
FLAT(3, 3, _flat, false)
FLAT(3, 4, _flat, false)
FLAT(4, 1, _flat, false)
FLAT(4, 2, _flat, false)
FLAT(4, 3, _flat, false)
FLAT(4, 4, _flat, false)
FLAT(1, 1, _flat_joined, true)
FLAT(1, 2, _flat_joined, true)
FLAT(1, 3, _flat_joined, true)
FLAT(1, 4, _flat_joined, true)
FLAT(2, 1, _flat_joined, true)
FLAT(2, 2, _flat_joined, true)
FLAT(2, 3, _flat_joined, true)
FLAT(2, 4, _flat_joined, true)
FLAT(3, 1, _flat_joined, true)
FLAT(3, 2, _flat_joined, true)
FLAT(3, 3, _flat_joined, true)
FLAT(3, 4, _flat_joined, true)
FLAT(4, 1, _flat_joined, true)
FLAT(4, 2, _flat_joined, true)
FLAT(4, 3, _flat_joined, true)
FLAT(4, 4, _flat_joined, true)
WINDOW(1, 1, _plain, true)
WINDOW(1, 2, _plain, true)
WINDOW(1, 4, _plain, true)
WINDOW(2, 1, _plain, true)
WINDOW(2, 2, _plain, true)
WINDOW(2, 4, _plain, true)
WINDOW(3, 1, _plain, true)
WINDOW(3, 2, _plain, true)
WINDOW(3, 4, _plain, true)
WINDOW(4, 1, _plain, true)
WINDOW(4, 2, _plain, true)
WINDOW(4, 4, _plain, true)
WINDOW(1, 1, _any, false)
WINDOW(1, 2, _any, false)
WINDOW(1, 4, _any, false)
WINDOW(2, 1, _any, false)
WINDOW(2, 2, _any, false)
WINDOW(2, 4, _any, false)
WINDOW(3, 1, _any, false)
WINDOW(3, 2, _any, false)
WINDOW(3, 4, _any, false)
WINDOW(4, 1, _any, false)
WINDOW(4, 2, _any, false)
WINDOW(4, 4, _any, false)
