// Convolutions of few channels whose taps share a patch of pixels: the bits of conv_mma.cu where it does not split K.
//
// A block keeps all weights in shared memory and makes one tile of the output after another: PIXELS neighbours of a row, as many
// rows as its warps take. While it multiplies the patch of pixels under one tile, the patch under the next comes. So each
// pixel is copied once, and not once a tap, as it is where pixels are laid out for each step along K; and steps of 16 along K hold
// nothing but products, where `wgmma` takes 64 channels of a tap at a time.
//
// K is cut into pieces of 8 channels under a tap, two to an instruction, in the order (tap row, tap column, channel). A piece
// lies at the same distance from every pixel's first: a table has them all.
#include "chain.cuh"
#include "conv_params.cuh"
#include "mma.cuh"
#include "quads.cuh"

struct ConvNarrow {
    Convolution product;  // `tiles` are those of this kernel
    Divisor pieces;       // of a pixel
    Divisor pitch;        // pixels of a row of the patch
    Divisor strips;       // tiles side by side
    Divisor bands;        // tiles one below the other in a sample
    Divisor row_pieces;   // of K, padded to whole steps
    u32 lines;            // rows of the patch
    u32 pixel_bytes;      // from pixel to pixel of the patch; of an odd number of pieces, so that banks do not conflict
    u32 patch_bytes;
    u32 table;            // where what is behind the weights lies in shared memory
    u32 patches;
};

static_assert(sizeof(ConvNarrow) == sizeof(Convolution) + 80, "mirrored in bind/conv_narrow.rs");

constexpr u32 WARP = 32, PIECE = 8, PIECE_BYTES = 16, STEP_BYTES = 2 * PIECE_BYTES;
constexpr u32 PIXELS = 16, ROWS = 4;    // that a warp makes: neighbours of so many rows
constexpr u32 CHANNELS = 16;            // at a time

// The tile of an index: pixels of the chunk.
struct Tile {
    u32 sample, row, pixel;

    __device__ __forceinline__ Tile(const ConvNarrow& p, u32 index, u32 rows) {
        const u32 above = divide(index, p.strips);
        pixel = (index - above * p.strips.divisor) * PIXELS;
        sample = divide(above, p.bands);
        row = (above - sample * p.bands.divisor) * rows;
    }
};

// Copies the pixels under a tile, zeros outside the image.
__device__ __forceinline__ void load_patch(const ConvNarrow& p, const Tile& tile, u32 patch) {
    const Convolution& c = p.product;
    const i32 top = static_cast<i32>((c.first_row + tile.row) * c.stride_rows) - static_cast<i32>(c.pad_rows);
    const i32 left = static_cast<i32>(tile.pixel * c.stride_pixels) - static_cast<i32>(c.pad_pixels);
    const u64 from = c.x + 2 * static_cast<i64>(static_cast<i32>(c.first_batch + tile.sample) * c.x_batch);
    const u32 count = p.lines * p.pitch.divisor * p.pieces.divisor;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        const u32 pixel = divide(i, p.pieces), piece = i - pixel * p.pieces.divisor;
        const u32 line = divide(pixel, p.pitch);
        const i32 y = top + static_cast<i32>(line), x = left + static_cast<i32>(pixel - line * p.pitch.divisor);
        const bool inside = static_cast<u32>(y) < c.height && static_cast<u32>(x) < c.width;
        const u64 address = inside ? from + 2 * static_cast<i64>(y * c.x_row + x * c.x_pixel + static_cast<i32>(piece * PIECE)) : c.x;
        copy_16(patch + pixel * p.pixel_bytes + piece * PIECE_BYTES, address, inside ? 16 : 0);
    }
}

// Copies the weights of `count` channels, zeros behind the last. Of each 16, they lie as the columns of two instructions do whose
// results then give a lane four neighbouring channels: column 2q + e of instruction j is channel 4q + 2j + e. An odd number of pieces
// from column to column keeps banks from conflicting.
__device__ __forceinline__ void load_weights(const ConvNarrow& p, u32 count, u32 shared) {
    const Convolution& c = p.product;
    const u32 pieces = count * p.row_pieces.divisor;
    for (u32 i = threadIdx.x; i < pieces; i += blockDim.x) {
        const u32 column = divide(i, p.row_pieces), piece = i - column * p.row_pieces.divisor;
        const u32 channel = (column & ~15u) + column % 8 / 2 * LANE_CHANNELS + column % 16 / 8 * 2 + column % 2;
        const bool inside = channel < c.n;
        const u64 address = inside ? c.weights + 2 * (static_cast<u64>(channel) * c.k_padded + piece * PIECE) : c.weights;
        copy_16(shared + (i + column) * PIECE_BYTES, address, inside ? 16 : 0);
    }
}

// Where the pieces of K lie, from a pixel's first on. Behind the last piece it is the first: its weights are zeros.
__device__ __forceinline__ void make_table(const ConvNarrow& p, u32 shared) {
    const Convolution& c = p.product;
    for (u32 i = threadIdx.x; i < p.row_pieces.divisor + 2; i += blockDim.x) {
        const u32 tap = divide(i, p.pieces), row = divide(tap, c.kernel_columns), column = tap - row * c.kernel_columns.divisor;
        const u32 pixel = row * c.dilation_rows.divisor * p.pitch.divisor + column * c.dilation_pixels.divisor;
        const u32 offset = row < c.kernel_rows ? pixel * p.pixel_bytes + (i - tap * p.pieces.divisor) * PIECE_BYTES : 0;
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared + i * 4), "r"(offset) : "memory");
    }
}

// What a step multiplies.
struct Fragments {
    u32 a[ROWS][4];
    u32 b[4];

    // The pieces of a step: `pixels` and `weights` are this lane's first, `table` its place in the table.
    __device__ __forceinline__ void load(u32 pixels, u32 row_bytes, u32 weights, u32 table, u32 step) {
        u32 offset;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(offset) : "r"(table + step * 8) : "memory");
        load_matrices(b, weights + step * STEP_BYTES);
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) load_matrices(a[i], pixels + i * row_bytes + offset);
    }
};

// Where a lane's sums lie: its first pixel of the warp's first row, and its first channel.
struct Spots {
    const Convolution& c;
    Place place;
    u32 rows;  // of the warp that the chunk has
    u32 channel;

    // Addresses of a lane's four channels in a tensor.
    struct Steps {
        u64 first, row, half;

        __device__ __forceinline__ Steps(const ChannelsLast& tensor, const Place& place)
            : first(group_address(tensor, place)), row(static_cast<u64>(tensor.row * 2)), half(static_cast<u64>(tensor.pixel * 16)) {}
        __device__ __forceinline__ u64 at(u32 i, u32 upper) const { return first + i * row + (upper ? half : 0); }
    };

    // From row to row.
    struct Walk {
        const Convolution& c;
        Place place;
        u32 rows;

        __device__ __forceinline__ bool live(u32 i) const { return i < rows && place.pixel < c.row.divisor; }
        __device__ __forceinline__ void next() { ++place.row; }
    };

    __device__ __forceinline__ bool live(u32 i, u32 half) const { return i < rows && place.pixel + half * 8 < c.row.divisor; }
    __device__ __forceinline__ Walk walk(u32 half) const {
        Walk walk = {c, place, rows};
        walk.place.pixel += half ? 8 : 0;
        return walk;
    }
    __device__ __forceinline__ Steps output() const { return Steps(c.epilogue.output, place); }
    __device__ __forceinline__ Steps joined() const { return Steps(c.epilogue.joined, place); }
};

// Makes 16 channels from `first` on of the warp's rows of a tile.
__device__ __forceinline__ void make_channels(const ConvNarrow& p, const Tile& tile, u32 patch, u32 weights, u32 first, u32 rows) {
    const Convolution& c = p.product;
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const u32 row_bytes = c.stride_rows * p.pitch.divisor * p.pixel_bytes, column_bytes = (p.row_pieces.divisor + 1) * PIECE_BYTES;
    // ldmatrix: 16 pixels x 2 pieces; 2 x 8 columns x 2 pieces.
    const u32 pixels = patch + warp * ROWS * row_bytes + lane % 16 * c.stride_pixels * p.pixel_bytes;
    const u32 mine = weights + (first + lane % 8 + lane / 16 * 8) * column_bytes + lane / 8 % 2 * PIECE_BYTES;
    const u32 table = weights + p.table + lane / 16 * 4;
    float parts[ROWS][2][4];
#pragma unroll
    for (u32 i = 0; i < ROWS; ++i) {
#pragma unroll
        for (u32 j = 0; j < 2; ++j) parts[i][j][0] = parts[i][j][1] = parts[i][j][2] = parts[i][j][3] = 0.0f;
    }
    Fragments now, next;
    now.load(pixels, row_bytes, mine, table, 0);
    const u32 steps = p.row_pieces.divisor / 2;
#pragma unroll 2
    for (u32 step = 0; step < steps; ++step) {
        // Behind the last step this reads what nothing uses: the table has two entries more.
        next.load(pixels, row_bytes, mine, table, step + 1);
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) {
#pragma unroll
            for (u32 j = 0; j < 2; ++j) multiply(parts[i][j], now.a[i], now.b[j * 2], now.b[j * 2 + 1]);
        }
        now = next;
    }
    Quads<ROWS> sums;
    take_quads<ROWS>(sums, [&](u32 i, u32 j, u32 k) { return parts[i][j][k]; });
    const u32 above = tile.row + warp * ROWS, channel = first + lane % 4 * LANE_CHANNELS;
    const Place place = {c.first_batch + tile.sample, c.first_row + above, tile.pixel + lane / 4, channel};
    finish_quads<ROWS>(sums, c, Spots{c, place, above < rows ? rows - above : 0, channel}, lane);
}

__device__ __forceinline__ void convolve(const ConvNarrow& p) {
    extern __shared__ __align__(128) u8 memory[];
    const Convolution& c = p.product;
    const u32 weights = shared_address(memory), patches = weights + p.patches, high = blockDim.x / WARP * ROWS;
    load_weights(p, (c.n + CHANNELS - 1) / CHANNELS * CHANNELS, weights);
    make_table(p, weights + p.table);
    wait_for_predecessors();
    release_successors();
    const u32 rows = divide(c.sample.divisor, c.row);
    u32 index = blockIdx.x, patch = 0;
    if (index < c.tiles) load_patch(p, Tile(p, index, high), patches);
    commit_copies();
    for (; index < c.tiles; index += gridDim.x, patch ^= p.patch_bytes) {
        if (index + gridDim.x < c.tiles) load_patch(p, Tile(p, index + gridDim.x, high), patches + (patch ^ p.patch_bytes));
        commit_copies();
        wait_copies<1>();
        __syncthreads();
        const Tile tile(p, index, high);
#pragma unroll 1
        for (u32 first = 0; first < c.n; first += CHANNELS) make_channels(p, tile, patches + patch, weights, first, rows);
        __syncthreads();
    }
    wait_copies<0>();
}

// Blocks of one to eight warps.
extern "C" __global__ void __launch_bounds__(8 * WARP, 2) conv_narrow_16(const __grid_constant__ ConvNarrow p) {
    convolve(p);
}
