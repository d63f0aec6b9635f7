// Attention of halves by warpgroup products: scores and weights never leave the registers.
//
// A warpgroup takes 64 queries and walks blocks of 64 keys with a running maximum, rescaling its sums when that grows (Milakov
// and Gimelshein 2018; Dao et al. 2022). While the tensor cores multiply the weights of a block by its values, they already
// compute the scores of the next (Shah et al. 2024). Blocks are shared out into as many segments as the class of the operator
// has splits, each with sums of its own, which are joined in ascending order: by one warpgroup that walks them all, or by
// `STRANDS` warpgroups with a segment each, with the same bits. Blocks and segments follow from the shape alone, and rows know
// nothing of each other: so results depend neither on tiles nor on chunks nor on the grid.
//
// Weights are rounded to f16 before they meet the values; everything else is f32.
#include "attention.cuh"
#include "chain.cuh"
#include "turned.cuh"
#include "wgmma.cuh"

struct AttentionWgmma {
    View y;                    // [..,M,E]; as the other tensors from the chunk's first leading coordinates on
    View queries;              // [..,M,D]
    View keys;                 // [..,D,K]
    View values;               // [..,K,E]
    View mask;                 // [..,M,K], added to the scores; address 0 for none
    Divisor leading[LEADING];  // extents of the chunk's leading axes
    Divisor matrices;          // their product
    Divisor slices;            // parts of a matrix along the elements of its values
    u32 first_row;             // rows of the chunk
    u32 rows;
    u32 row_axis;
    u32 depth;
    u32 count;    // of keys
    u32 width;
    u32 segment;  // blocks of keys
    u32 tiles;
    float scale;
    u32 wide;  // bits: queries, keys, values are runs from multiples of 16 bytes on
};

static_assert(sizeof(AttentionWgmma) == 5 * 88 + 72 + 40, "mirrored in bind/attention_wgmma.rs");

constexpr u32 BLOCK = 64;          // keys
constexpr u32 QUERIES = 64;        // of a warpgroup
constexpr u32 WARPGROUP = 128;     // threads
constexpr u32 PANEL = 64;          // halves of a row that lie together in shared memory
constexpr u32 ROW_BYTES = 2 * PANEL;
constexpr u32 PIECE = 16;          // bytes that are copied at once
constexpr u32 PIECES = ROW_BYTES / PIECE;
constexpr float LOG2_E = 1.44269504f;
constexpr u32 FRAGMENTS = BLOCK / 8;  // of a block's scores: eight keys each

__device__ __forceinline__ float lowest() { return __uint_as_float(0xff800000u); }

__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// What a maximum is subtracted as: a row whose keys are all masked so far has none.
__device__ __forceinline__ float finite(float greatest) { return greatest == lowest() ? 0.0f : greatest; }

// Makes what threads wrote to shared memory visible to the tensor cores.
__device__ __forceinline__ void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ float4 load_four(u32 address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// A number that all threads of a warp have, so that the compiler knows, too.
__device__ __forceinline__ u32 uniform(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }

template <u32 THREADS>
__device__ __forceinline__ void meet(u32 barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

// Keeps the compiler from moving reads of sums ahead of the end of the products.
template <u32 N>
__device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
    for (u32 i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// D = A * B, plus D if `more`, for 64 rows and 64 columns: A in registers, B in shared memory by its descriptor, its rows of K
// (K innermost) or of columns (TURNED).
template <u32 TURNED>
__device__ __forceinline__ void multiply_64(float* d, const u32 (&a)[4], u32 b, u32 more) {
    asm volatile(
        "{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.u32 p, %38, 0;\n"
        "mov.b64 b, {%36, %37};\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, b, p, 1, 1, %39;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(SWIZZLED_MATRIX), "r"(more), "n"(TURNED));
}

// Brings ROWS rows of up to PANELS * 64 halves from row `first` on into panels of shared memory, pieces of a row swizzled as
// the tensor cores read them; zeros where there are none. Wide rows come in the background.
template <u32 ROWS, u32 PANELS, u32 THREADS>
__device__ __forceinline__ void fetch_panels(u32 shared, const Rows& from, u32 first, u32 thread) {
    constexpr u32 ACROSS = PANELS * PIECES, DOWN = THREADS / ACROSS;
    static_assert(DOWN % 8 == 0 && ROWS % DOWN == 0, "a thread's pieces have one place in the swizzle");
    // A thread stays at its piece of a row and goes down.
    const u32 piece = thread % ACROSS, row = thread / ACROSS, at = piece * 8;
    const u32 count = at < from.length ? (from.length - at < 8 ? from.length - at : 8) : 0;
    u32 to = shared + piece / PIECES * (ROWS * ROW_BYTES) + row * ROW_BYTES + (piece % PIECES ^ row % 8) * PIECE;
    i64 element = static_cast<i64>(first + row) * from.step + static_cast<i64>(at) * from.inner;
    const i64 step = DOWN * from.step;
    const u32 left = from.rows > first + row && count > 0 ? from.rows - first - row : 0;
    if (from.wide) {
        u64 address = from.address + static_cast<u64>(2 * element);
#pragma unroll
        for (u32 turn = 0; turn < ROWS / DOWN; ++turn) {
            const bool inside = turn * DOWN < left;
            copy_16(to, inside ? address : from.address, inside ? 2 * count : 0);
            to += DOWN * ROW_BYTES, address += static_cast<u64>(2 * step);
        }
    } else {
#pragma unroll 1
        for (u32 turn = 0; turn < ROWS / DOWN; ++turn) {
            const bool inside = turn * DOWN < left;
            const uint4 bits = gather_halves(inside ? from.address + static_cast<u64>(2 * element) : from.address, from.inner, inside ? count : 0);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w) : "memory");
            to += DOWN * ROW_BYTES, element += step;
        }
    }
}

// Weighed values of two rows (lane / 4 and 8 below it) and what they are weighed by: element 4 n + 2 half + i is of row `half`
// and column 8 n + lane % 4 * 2 + i. Sums of weights are of the lane's own keys.
template <u32 HEAD>
struct Sums {
    float total[HEAD / 2];
    float greatest[2];
    float sum[2];
};

// Joins the sums of a later segment, or a part of them, to those before it.
template <u32 HEAD>
__device__ __forceinline__ void join(float (&total)[HEAD / 2], float (&greatest)[2], float (&sum)[2], const Sums<HEAD>& next, float unit) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        const float most = fmaxf(greatest[half], next.greatest[half]), base = finite(most);
        const float before = power_of_two(__fmul_rn(__fsub_rn(greatest[half], base), unit));
        const float factor = power_of_two(__fmul_rn(__fsub_rn(next.greatest[half], base), unit));
        greatest[half] = most;
        sum[half] = __fmaf_rn(next.sum[half], factor, __fmul_rn(sum[half], before));
#pragma unroll
        for (u32 n = 0; n < HEAD / 8; ++n) {
#pragma unroll
            for (u32 i = 4 * n + 2 * half; i < 4 * n + 2 * half + 2; ++i) {
                total[i] = __fmaf_rn(next.total[i], factor, __fmul_rn(total[i], before));
            }
        }
    }
}

extern __shared__ uint4 shared_pieces[];

// A block of threads has STRANDS * GROUPS warpgroups: those of a strand share keys and values, those of a group queries.
template <u32 PANELS, u32 STRANDS, u32 GROUPS, u32 STAGES>
__device__ __forceinline__ void attend(const AttentionWgmma& p) {
    constexpr u32 HEAD = PANELS * PANEL, TEAM = WARPGROUP * GROUPS, THREADS = TEAM * STRANDS;
    constexpr u32 QUERY_BYTES = GROUPS * QUERIES * HEAD * 2, SIDE = BLOCK * HEAD * 2;
    const u32 strand = uniform(threadIdx.x / TEAM), thread = threadIdx.x % TEAM, warp = uniform(thread / 32), lane = thread % 32;
    // The swizzle counts from multiples of 1024 bytes.
    const u32 queries = (shared_address(shared_pieces) + 1023) / 1024 * 1024;
    // STAGES blocks of keys of this strand, then as many of values.
    const u32 keys = queries + QUERY_BYTES + strand * (2 * STAGES * SIDE), values = keys + STAGES * SIDE;
    const u32 row_axis = p.row_axis, column_axis = p.row_axis + 1;
    const u32 blocks = (p.count + BLOCK - 1) / BLOCK;
    const bool masked = p.mask.address != 0;
    // Scores meet the scale in the exponent, or before it where they are not greatest together with it.
    const float scale = __fmul_rn(p.scale, LOG2_E);
    const bool scaled = masked || !(scale > 0.0f);
    const float unit = scaled ? 1.0f : scale;
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        // Tiles with few rows come last.
        const u32 strip = divide(tile, p.slices);
        const u32 first_column = (tile - strip * p.slices.divisor) * HEAD;
        const u32 step = divide(strip, p.matrices), first = step * (GROUPS * QUERIES);
        const View* const views[] = {&p.y, &p.queries, &p.keys, &p.values, &p.mask};
        const Matrices<5> from = matrices_of<5>(strip - step * p.matrices.divisor, p.leading, views);
        const i64 row = p.first_row + first;
        const i64 y_at = from.at[0] + row * p.y.strides[row_axis] + static_cast<i64>(first_column) * p.y.strides[column_axis];
        const i64 q_at = from.at[1] + row * p.queries.strides[row_axis];
        const i64 v_at = from.at[3] + static_cast<i64>(first_column) * p.values.strides[column_axis];
        const u32 rows = p.rows - first, columns = p.width - first_column;
        const Rows from_queries{p.queries.address + 2 * q_at, p.queries.strides[row_axis], p.queries.strides[column_axis], rows, p.depth, (p.wide & 1) != 0};
        const Rows from_keys{p.keys.address + 2 * from.at[2], p.keys.strides[column_axis], p.keys.strides[row_axis], p.count, p.depth, (p.wide & 2) != 0};
        const Rows from_values{p.values.address + 2 * v_at, p.values.strides[row_axis], p.values.strides[column_axis], p.count, columns, (p.wide & 4) != 0};
        const u32 begin = STRANDS == 1 ? 0 : strand * p.segment;
        const u32 end = STRANDS == 1 || begin + p.segment > blocks ? blocks : begin + p.segment;
        const u32 turns = end > begin ? end - begin : 0;
        // Group i of the copies: keys i and the values before them; group 0 has queries, too.
        const auto fetch = [&](u32 group) {
            if (group > 0 && group <= turns) {
                fetch_panels<BLOCK, PANELS, TEAM>(values + (group - 1) % STAGES * SIDE, from_values, (begin + group - 1) * BLOCK, thread);
            }
            if (group < turns) fetch_panels<BLOCK, PANELS, TEAM>(keys + group % STAGES * SIDE, from_keys, (begin + group) * BLOCK, thread);
            commit_copies();
        };
        if (!waited) {
            wait_for_predecessors();
            release_successors();
            waited = true;
        }
        __syncthreads();
        fetch_panels<GROUPS * QUERIES, PANELS, THREADS>(queries, from_queries, 0, threadIdx.x);
#pragma unroll 1
        for (u32 group = 0; group < STAGES; ++group) fetch(group);
        Sums<HEAD> part, all;
#pragma unroll
        for (u32 i = 0; i < HEAD / 2; ++i) part.total[i] = all.total[i] = 0.0f;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            part.greatest[half] = all.greatest[half] = lowest();
            part.sum[half] = all.sum[half] = 0.0f;
        }
        wait_copies<STAGES - 1>();
        publish_shared();
        __syncthreads();
        u32 q[HEAD / 16][4];
#pragma unroll
        for (u32 k = 0; k < HEAD / 16; ++k) {
            const u32 r = warp * 16 + lane % 16, piece = k * 2 + lane / 16;
            load_matrices(q[k], queries + piece / PIECES * (GROUPS * QUERIES * ROW_BYTES) + r * ROW_BYTES + (piece % PIECES ^ r % 8) * PIECE);
        }
        float s[BLOCK / 2];
        const auto score = [&](u32 turn) {
            const u32 b = swizzled_matrix(keys + turn % STAGES * SIDE);
#pragma unroll
            for (u32 k = 0; k < HEAD / 16; ++k) {
                multiply_64<0>(s, q[k], b + k / 4 * (BLOCK * ROW_BYTES / 16) + k % 4 * 2, k > 0);
            }
        };
        // Whether the warp has rows at all: it goes along with the products of the others.
        const u32 top = warp * 16;
        const bool present = top < rows;
        if (turns > 0) {
#pragma unroll
            for (u32 i = 0; i < BLOCK / 2; ++i) s[i] = 0.0f;
            products_begin();
            score(0);
            products_commit();
            products_wait<0>();
            settle(s);
        }
        u32 in_segment = 0;
        for (u32 turn = 0; turn < turns; ++turn) {
            if (STRANDS == 1 && in_segment == p.segment) {
                join<HEAD>(all.total, all.greatest, all.sum, part, unit);
                part.greatest[0] = part.greatest[1] = lowest();
                part.sum[0] = part.sum[1] = 0.0f;
                in_segment = 0;
            }
            u32 a[BLOCK / 16][4];
            if (present) {
                // Element 4 n + 2 half + i: query lane / 4 + half * 8, key 8 n + lane % 4 * 2 + i.
                const u32 key = (begin + turn) * BLOCK + lane % 4 * 2, left = p.count - (begin + turn) * BLOCK;
                if (scaled) {
#pragma unroll
                    for (u32 i = 0; i < BLOCK / 2; ++i) s[i] = __fmul_rn(s[i], scale);
                    if (masked) {
#pragma unroll
                        for (u32 half = 0; half < 2; ++half) {
                            const u32 query = top + lane / 4 + half * 8;
                            const i64 line = from.at[4] + (row + query) * p.mask.strides[row_axis];
                            const bool pairs = p.mask.strides[column_axis] == 1 && (line * 2 + p.mask.address) % 4 == 0;
#pragma unroll
                            for (u32 n = 0; n < FRAGMENTS; ++n) {
                                const u32 at = key + n * 8;
                                u32 bits = 0;
                                if (query < rows && at + 1 < p.count && pairs) {
                                    bits = *reinterpret_cast<const u32*>(p.mask.address + 2 * (line + at));
                                } else if (query < rows) {
                                    if (at < p.count) bits = *pointer_to<u16>(p.mask.address, line + at * p.mask.strides[column_axis]);
                                    if (at + 1 < p.count) bits |= *pointer_to<u16>(p.mask.address, line + (at + 1) * p.mask.strides[column_axis]) << 16;
                                }
                                s[4 * n + 2 * half] = __fmaf_rn(half_to_float(static_cast<u16>(bits)), LOG2_E, s[4 * n + 2 * half]);
                                s[4 * n + 2 * half + 1] = __fmaf_rn(half_to_float(static_cast<u16>(bits >> 16)), LOG2_E, s[4 * n + 2 * half + 1]);
                            }
                        }
                    }
                }
                if (left < BLOCK) {
#pragma unroll
                    for (u32 i = 0; i < BLOCK / 2; ++i) s[i] = lane % 4 * 2 + i / 4 * 8 + i % 2 < left ? s[i] : lowest();
                }
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    float most = part.greatest[half];
#pragma unroll
                    for (u32 n = 0; n < FRAGMENTS; ++n) most = fmaxf(most, fmaxf(s[4 * n + 2 * half], s[4 * n + 2 * half + 1]));
                    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
                    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
                    const float base = finite(most), shift = -__fmul_rn(base, unit);
                    if (in_segment > 0) {
                        const float factor = power_of_two(__fmul_rn(__fsub_rn(part.greatest[half], base), unit));
                        part.sum[half] = __fmul_rn(part.sum[half], factor);
#pragma unroll
                        for (u32 n = 0; n < HEAD / 8; ++n) {
                            part.total[4 * n + 2 * half] = __fmul_rn(part.total[4 * n + 2 * half], factor);
                            part.total[4 * n + 2 * half + 1] = __fmul_rn(part.total[4 * n + 2 * half + 1], factor);
                        }
                    }
                    part.greatest[half] = most;
                    float weights = 0.0f;
#pragma unroll
                    for (u32 k = 0; k < BLOCK / 16; ++k) {
                        // Sixteen keys that are not there weigh nothing.
                        if (k * 16 < left) {
#pragma unroll
                            for (u32 n = 2 * k; n < 2 * k + 2; ++n) {
                                const float low = power_of_two(__fmaf_rn(s[4 * n + 2 * half], unit, shift));
                                const float high = power_of_two(__fmaf_rn(s[4 * n + 2 * half + 1], unit, shift));
                                weights = __fadd_rn(__fadd_rn(weights, low), high);
                                a[k][n % 2 * 2 + half] = two_rounded(low, high);
                            }
                        } else {
                            a[k][half] = a[k][2 + half] = 0;
                        }
                    }
                    part.sum[half] = __fadd_rn(part.sum[half], weights);
                }
            } else {
#pragma unroll
                for (u32 i = 0; i < BLOCK / 4; ++i) a[i / 4][i % 4] = 0;
            }
            // The copies of group `turn + 1` have come, and nobody reads what the next ones replace.
            wait_copies<STAGES - 2>();
            publish_shared();
            meet<TEAM>(1 + strand);
            products_begin();
            score(turn + 1);  // of whatever lies there after the last
            const u32 b = swizzled_matrix(values + turn % STAGES * SIDE);
#pragma unroll
            for (u32 k = 0; k < BLOCK / 16; ++k) {
#pragma unroll
                for (u32 panel = 0; panel < PANELS; ++panel) {
                    multiply_64<1>(part.total + panel * 32, a[k], b + panel * (BLOCK * ROW_BYTES / 16) + k * (16 * ROW_BYTES / 16), k > 0 || in_segment > 0);
                }
            }
            products_commit();
            fetch(turn + STAGES);
            products_wait<0>();
            settle(s);
            settle(part.total);
            ++in_segment;
        }
        // Fragments of values that this warp stores.
        constexpr u32 OWN = HEAD / 8 / STRANDS;
        if constexpr (STRANDS == 1) {
            join<HEAD>(all.total, all.greatest, all.sum, part, unit);
        } else {
            // Each strand leaves its sums in place of its keys and values, and takes a share of the columns of all.
            constexpr u32 FOURS = HEAD / 8 + 1;
            static_assert(FOURS * TEAM * 16 <= 2 * STAGES * SIDE, "sums fit in place of keys and values");
            const u32 mine = keys + thread * 16;
            meet<TEAM>(1 + strand);
            const auto leave = [&](u32 i, float a, float b, float c, float d) {
                asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(mine + i * TEAM * 16), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
            };
#pragma unroll
            for (u32 n = 0; n < HEAD / 8; ++n) leave(n, part.total[4 * n], part.total[4 * n + 1], part.total[4 * n + 2], part.total[4 * n + 3]);
            leave(HEAD / 8, part.greatest[0], part.greatest[1], part.sum[0], part.sum[1]);
            __syncthreads();
#pragma unroll
            for (u32 other = 0; other < STRANDS; ++other) {
                if (other * p.segment >= blocks) continue;
                const u32 theirs = mine + other * (2 * STAGES * SIDE) - strand * (2 * STAGES * SIDE);
                Sums<OWN * 8> next;
#pragma unroll
                for (u32 n = 0; n < OWN; ++n) {
                    const float4 four = load_four(theirs + (strand * OWN + n) * TEAM * 16);
                    next.total[4 * n] = four.x, next.total[4 * n + 1] = four.y, next.total[4 * n + 2] = four.z, next.total[4 * n + 3] = four.w;
                }
                const float4 four = load_four(theirs + HEAD / 8 * TEAM * 16);
                next.greatest[0] = four.x, next.greatest[1] = four.y, next.sum[0] = four.z, next.sum[1] = four.w;
                float(&total)[OWN * 4] = reinterpret_cast<float(&)[OWN * 4]>(all.total);
                join<OWN * 8>(total, all.greatest, all.sum, next, unit);
            }
        }
        if (!present) continue;
        // In place of the warp's queries, then to memory in pieces.
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            float sum = __fadd_rn(all.sum[half], __shfl_xor_sync(0xffffffffu, all.sum[half], 1));
            sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
            const float share = __frcp_rn(sum);
            const u32 r = top + lane / 4 + half * 8;
#pragma unroll
            for (u32 n = 0; n < OWN; ++n) {
                const u32 piece = (STRANDS == 1 ? 0 : strand * OWN) + n;
                const u32 to = queries + piece / PIECES * (GROUPS * QUERIES * ROW_BYTES) + r * ROW_BYTES + (piece % PIECES ^ r % 8) * PIECE + lane % 4 * 4;
                const u32 bits = two_rounded(__fmul_rn(all.total[4 * n + 2 * half], share), __fmul_rn(all.total[4 * n + 2 * half + 1], share));
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(bits) : "memory");
            }
        }
        __syncwarp();
        const i64 inner = p.y.strides[column_axis];
#pragma unroll
        for (u32 i = lane; i < 16 * OWN; i += 32) {
            const u32 r = top + i / OWN, piece = (STRANDS == 1 ? 0 : strand * OWN) + i % OWN, column = piece * 8;
            if (r >= rows || column >= columns) continue;
            const u32 at = queries + piece / PIECES * (GROUPS * QUERIES * ROW_BYTES) + r * ROW_BYTES + (piece % PIECES ^ r % 8) * PIECE;
            uint4 bits;
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w) : "r"(at) : "memory");
            u16* const to = reinterpret_cast<u16*>(p.y.address) + y_at + static_cast<i64>(r) * p.y.strides[row_axis] + column * inner;
            if (inner == 1 && columns - column >= 8 && reinterpret_cast<u64>(to) % 16 == 0) {
                *reinterpret_cast<uint4*>(to) = bits;
                continue;
            }
            const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
            for (u32 j = 0; j < 8; ++j) {
                if (column + j < columns) to[static_cast<i64>(j) * inner] = static_cast<u16>(words[j / 2] >> (j % 2 * 16));
            }
        }
    }
}

#define ATTENTION(NAME, PANELS, STRANDS, GROUPS, STAGES, RESIDENT)                                                                         \
    extern "C" __global__ void __launch_bounds__(128 * STRANDS * GROUPS, RESIDENT) NAME(const __grid_constant__ AttentionWgmma p) {        \
        attend<PANELS, STRANDS, GROUPS, STAGES>(p);                                                                                        \
    }

// Panels of a head, strands, warpgroups of a strand, stages: as in plan/tactic/attention.rs.
ATTENTION(attention_wgmma_64_1_1, 1, 1, 1, 4, 3)
ATTENTION(attention_wgmma_64_1_2, 1, 1, 2, 4, 1)
ATTENTION(attention_wgmma_64_4_1, 1, 4, 1, 2, 1)
ATTENTION(attention_wgmma_128_1_1, 2, 1, 1, 2, 2)
ATTENTION(attention_wgmma_128_1_2, 2, 1, 2, 2, 1)
