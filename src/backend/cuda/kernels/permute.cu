// Copies between tensors of which each has its neighbours along another axis, such as planes to channels side by side, and
// transposed matrices. Both sides move whole lines.
//
//     permute_*      boxes of any extents at any places through shared memory, element by element; a block a box
//     pieces_*       what lies in pieces of 16 bytes on both sides: a thread turns a square of elements in its registers
//     interleave_*   a few planes in such pieces: a thread puts the elements of one piece of each between each other
//
// The host joins the axes that lie behind each other in both tensors, and puts the chunk's first element into the addresses. Two
// axes are left by name: the one that is innermost in the source is read along, the output's innermost is written along. Bits
// are moved as they are unless the types differ.
#include "chain.cuh"
#include "divide.cuh"
#include "parameters.cuh"
#include "view.cuh"

constexpr u32 PERMUTE_THREADS = 256;
constexpr u32 PERMUTE_WARPS = PERMUTE_THREADS / 32;
constexpr u32 PERMUTE_TILE = 64 * 66;  // elements of a box in shared memory
constexpr u32 PERMUTE_OTHERS = MAX_RANK - 2;

struct Permute {
    u64 from;
    u64 to;
    i64 from_step;                    // elements of the source along the axis that is written along
    i64 to_step;                      // elements of the output along the axis that is read along
    i64 from_others[PERMUTE_OTHERS];  // elements along the other axes
    i64 to_others[PERMUTE_OTHERS];
    Divisor others[PERMUTE_OTHERS];
    Divisor boxes[2];                 // along the axes that are read and written along
    u32 extents[2];
    u32 box[2];
    u32 lanes[2];                     // permute: log2 of threads along a box; pieces: of a warp's
    u32 pitch;                        // elements of shared memory along the axis that is read along
    u32 count;                        // boxes
    u32 tiles;                        // boxes, or as many as a block has warps
    u32 used;                         // other axes of more than one position
};

static_assert(sizeof(Permute) == 32 + 64 + 72 + 40, "mirrored in bind/permute.rs");

// Where a box begins, and how far it reaches.
struct Box {
    i64 from;
    i64 to;
    u32 read;
    u32 written;
};

__device__ __forceinline__ Box box_of(const Permute& p, u32 index) {
    u32 rest = divide(index, p.boxes[0]);
    const u32 read = (index - rest * p.boxes[0].divisor) * p.box[0];
    u32 above = divide(rest, p.boxes[1]);
    const u32 written = (rest - above * p.boxes[1].divisor) * p.box[1];
    Box box;
    box.from = read + written * p.from_step;
    box.to = read * p.to_step + written;
#pragma unroll 1
    for (u32 axis = 0; axis < p.used; ++axis) {
        rest = above, above = divide(rest, p.others[axis]);
        const u32 at = rest - above * p.others[axis].divisor;
        box.from += at * p.from_others[axis];
        box.to += at * p.to_others[axis];
    }
    box.read = min(p.extents[0] - read, p.box[0]);
    box.written = min(p.extents[1] - written, p.box[1]);
    return box;
}

// Halves are carried by their bits.
template <typename To, typename From>
__device__ __forceinline__ To converted(From value) {
    if constexpr (sizeof(To) == sizeof(From)) {
        return value;
    } else if constexpr (sizeof(From) == 2) {
        return half_to_float(value);
    } else {
        return float_to_half(value);
    }
}

// Moves the elements of rows and columns, neighbouring threads along the columns, 2^lanes of them a row. A row and a column further
// is `step` and `beside` elements further; several loads are on their way at once.
template <typename From, typename To, typename FromStep, typename ToStep>
__device__ __forceinline__ void move(u32 rows, u32 columns, u32 lanes, const From* from, FromStep from_step, u32 from_beside, To* to,
                                     ToStep to_step, u32 to_beside) {
    constexpr u32 BATCH = 8;
    const u32 across = 1u << lanes, down = PERMUTE_THREADS >> lanes, top = threadIdx.x >> lanes;
#pragma unroll 1
    for (u32 column = threadIdx.x & (across - 1); column < columns; column += across) {
        const From* x = from + (top * from_step + column * from_beside);
        To* y = to + (top * to_step + column * to_beside);
#pragma unroll 1
        for (u32 row = top; row < rows; row += BATCH * down) {
            From values[BATCH];
#pragma unroll
            for (u32 k = 0; k < BATCH; ++k) {
                if (row + k * down < rows) values[k] = *x;
                x += down * from_step;
            }
#pragma unroll
            for (u32 k = 0; k < BATCH; ++k) {
                if (row + k * down < rows) *y = converted<To>(values[k]);
                y += down * to_step;
            }
        }
    }
}

template <typename From, typename To>
__device__ __forceinline__ void permute(const Permute& p) {
    __shared__ To tile[PERMUTE_TILE];
    bring_more(p, 0, sizeof(p));
    wait_for_predecessors();
    release_successors();
    for (u32 index = blockIdx.x; index < p.tiles; index += gridDim.x) {
        const Box box = box_of(p, index);
        const From* from = pointer_to<From>(p.from, box.from);
        To* to = reinterpret_cast<To*>(p.to) + box.to;
        __syncthreads();  // the box before has left
        move(box.written, box.read, p.lanes[0], from, p.from_step, 1, tile, 1u, p.pitch);
        __syncthreads();
        move(box.read, box.written, p.lanes[1], tile, p.pitch, 1, to, p.to_step, 1);
    }
}

__device__ __forceinline__ u32 word_of(const uint4& piece, u32 index) {
    return index == 0 ? piece.x : index == 1 ? piece.y : index == 2 ? piece.z : piece.w;
}

// The word of elements `index` and on of what COUNT pieces have when their elements stand between each other.
template <typename T, u32 COUNT>
__device__ __forceinline__ u32 interleaved(const uint4 (&pieces)[COUNT], u32 index) {
    const u32 low = index % COUNT, at = index / COUNT;
    if constexpr (sizeof(T) == 4) {
        return word_of(pieces[low], at);
    } else {
        const u32 high = (index + 1) % COUNT, next = (index + 1) / COUNT;
        const u32 selector = (at % 2 ? 0x32 : 0x10) | (next % 2 ? 0x7600 : 0x5400);
        return __byte_perm(word_of(pieces[low], at / 2), word_of(pieces[high], next / 2), selector);
    }
}

// Piece `index` of what COUNT pieces have so.
template <typename T, u32 COUNT>
__device__ __forceinline__ uint4 interleaved_piece(const uint4 (&pieces)[COUNT], u32 index) {
    constexpr u32 EACH = 4 / sizeof(T);
    const u32 first = index * 4 * EACH;
    return make_uint4(interleaved<T>(pieces, first), interleaved<T>(pieces, first + EACH), interleaved<T>(pieces, first + 2 * EACH),
                      interleaved<T>(pieces, first + 3 * EACH));
}

// Left to itself the compiler takes some of these apart into words.
__device__ __forceinline__ void store_piece(void* to, uint4 piece) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(piece.x), "r"(piece.y), "r"(piece.z), "r"(piece.w) : "memory");
}

// A warp a box; extents are multiples of a piece's elements.
template <typename T>
__device__ __forceinline__ void permute_pieces(const Permute& p) {
    constexpr u32 N = 16 / sizeof(T);
    bring_more(p, 0, sizeof(p));
    wait_for_predecessors();
    release_successors();
    const u32 lane = threadIdx.x % 32;
    const u32 read = (lane >> p.lanes[1]) * N, written = (lane & ((1u << p.lanes[1]) - 1)) * N;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = tile * PERMUTE_WARPS + threadIdx.x / 32;
        if (index >= p.count) continue;
        const Box box = box_of(p, index);
        if (read >= box.read || written >= box.written) continue;
        const T* from = pointer_to<T>(p.from, box.from + written * p.from_step + read);
        T* to = reinterpret_cast<T*>(p.to) + (box.to + read * p.to_step + written);
        uint4 pieces[N];
#pragma unroll
        for (u32 i = 0; i < N; ++i) pieces[i] = *reinterpret_cast<const uint4*>(from + i * p.from_step);
#pragma unroll
        for (u32 i = 0; i < N; ++i) store_piece(to + i * p.to_step, interleaved_piece<T>(pieces, i));
    }
}

// A warp a box of 32 pieces of every plane. What a thread has of the output lies together, PLANES pieces; through shared memory the
// warp writes its lines in one go.
template <typename T, u32 PLANES>
__device__ __forceinline__ void permute_planes(const Permute& p) {
    constexpr u32 N = 16 / sizeof(T);
    __shared__ uint4 staged[PERMUTE_WARPS][32 * PLANES];
    bring_more(p, 0, sizeof(p));
    wait_for_predecessors();
    release_successors();
    const u32 lane = threadIdx.x % 32;
    uint4* own = staged[threadIdx.x / 32];
    // Eight lanes write at once, PLANES pieces apart: to all banks where that is odd, else after this permutation.
    const auto place = [](u32 piece) { return PLANES % 2 ? piece : piece ^ (piece / 8 % 8); };
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 index = tile * PERMUTE_WARPS + threadIdx.x / 32;
        if (index >= p.count) continue;
        const Box box = box_of(p, index);
        const T* from = pointer_to<T>(p.from, box.from + lane * N);
        uint4* to = reinterpret_cast<uint4*>(reinterpret_cast<T*>(p.to) + box.to);
        __syncwarp();  // the box before has left
        if (lane * N < box.read) {
            uint4 pieces[PLANES];
#pragma unroll
            for (u32 i = 0; i < PLANES; ++i) pieces[i] = *reinterpret_cast<const uint4*>(from + i * p.from_step);
#pragma unroll
            for (u32 i = 0; i < PLANES; ++i) own[place(lane * PLANES + i)] = interleaved_piece<T>(pieces, i);
        }
        __syncwarp();
#pragma unroll
        for (u32 i = 0; i < PLANES; ++i) {
            const u32 piece = i * 32 + lane;
            if (piece * N < box.read * PLANES) to[piece] = own[place(piece)];
        }
    }
}

#define PERMUTE(NAME, FROM, TO) \
    extern "C" __global__ void __launch_bounds__(PERMUTE_THREADS) NAME(const __grid_constant__ Permute p) { permute<FROM, TO>(p); }

PERMUTE(permute_halves, u16, u16)
PERMUTE(permute_floats, float, float)
PERMUTE(permute_to_halves, float, u16)
PERMUTE(permute_to_floats, u16, float)

#define PIECES(NAME, T) \
    extern "C" __global__ void __launch_bounds__(PERMUTE_THREADS) NAME(const __grid_constant__ Permute p) { permute_pieces<T>(p); }

PIECES(pieces_halves, u16)
PIECES(pieces_floats, float)

#define INTERLEAVE(NAME, T, PLANES)                                                                         \
    extern "C" __global__ void __launch_bounds__(PERMUTE_THREADS) NAME(const __grid_constant__ Permute p) { \
        permute_planes<T, PLANES>(p);                                                                       \
    }

INTERLEAVE(interleave_2_halves, u16, 2)
INTERLEAVE(interleave_3_halves, u16, 3)
INTERLEAVE(interleave_4_halves, u16, 4)
INTERLEAVE(interleave_2_floats, float, 2)
INTERLEAVE(interleave_3_floats, float, 3)
INTERLEAVE(interleave_4_floats, float, 4)
