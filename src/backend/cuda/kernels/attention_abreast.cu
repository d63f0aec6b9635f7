// Attention of halves by warpgroup products where keys are few: as many blocks of keys at once as there are, with the bits of
// attention_wgmma.cu's walk.
//
// Four warpgroups take the same 64 queries. Each makes the scores of a block of 64 keys; from the greatest scores of all blocks each
// knows what the walk's running maximum would be at its own, and makes its weights against that. Then each adds up weighed values for its
// quarter of the columns, block after block, and rescales its sums where the running maximum grows, as the walk does. So what is one
// after another are four short products and not four searches, and scores of one block wait for no other's exponentials.
#include "attention_wgmma.cuh"

constexpr u32 STRANDS = 4;  // warpgroups, and the most blocks of keys
constexpr u32 THREADS = STRANDS * WARPGROUP;

// D = A * B, plus D if `more`, for 64 rows and COLUMNS columns: A in shared memory with K innermost, B with columns innermost.
template <u32 COLUMNS>
struct ByColumns;

#define BY_COLUMNS(COLUMNS, SUMS, OPERANDS, A, B, HIGH, MORE)                                                            \
    template <>                                                                                                          \
    struct ByColumns<COLUMNS> {                                                                                          \
        static __device__ __forceinline__ void multiply(float (&d)[SUMS], u32 a, u32 b, bool more) {                     \
            asm volatile(                                                                                                \
                "{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.ne.u32 p, %" #MORE ", 0;\n"                                     \
                "mov.b64 a, {%" #A ", %" #HIGH "};\nmov.b64 b, {%" #B ", %" #HIGH "};\n"                                 \
                "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32.f16.f16 {" NAMES_##SUMS "}, "                      \
                "a, b, p, 1, 1, 0, 1;\n}\n"                                                                              \
                : OPERANDS                                                                                               \
                : "r"(a), "r"(b), "n"(SWIZZLED_MATRIX), "r"(static_cast<u32>(more)));                                    \
        }                                                                                                                \
    };

BY_COLUMNS(16, 8, D_8, 8, 9, 10, 11)
BY_COLUMNS(32, 16, D_16, 16, 17, 18, 19)

extern __shared__ uint4 shared_pieces[];

template <u32 PANELS, Form FORM>
__device__ __forceinline__ void attend_abreast(const AttentionWgmma& p) {
    constexpr u32 HEAD = PANELS * PANEL, SIDE = PANELS * BOX;
    constexpr u32 OWN = HEAD / 8 / STRANDS, COLUMNS = OWN * 8;  // a warpgroup's pieces of a result, and their columns
    __shared__ alignas(8) u64 barriers[1 + 3 * STRANDS];
    __shared__ float greatest[STRANDS][QUERIES];
    __shared__ float weights[STRANDS][2][WARPGROUP];  // sums over a lane's own keys of a block
    const u32 strand = uniform(threadIdx.x / WARPGROUP), thread = threadIdx.x % WARPGROUP, warp = uniform(thread / 32), lane = thread % 32;
    // The swizzle counts from multiples of 1024 bytes. Weights of a block lie in place of its keys.
    const u32 queries = (shared_address(shared_pieces) + 1023) / 1024 * 1024;
    const u32 keys = queries + SIDE, values = keys + STRANDS * SIDE, masks = values + STRANDS * SIDE;
    const u32 queries_there = shared_address(barriers), keys_there = queries_there + 8, values_there = keys_there + STRANDS * 8;
    const u32 masks_there = values_there + STRANDS * 8;
    if (threadIdx.x == 0) {
        prefetch_maps(p);
        for (u32 i = 0; i < 1 + 3 * STRANDS; ++i) barrier_init(queries_there + i * 8, 1);
        barrier_init_fence();
    }
    const u32 blocks = (p.count + BLOCK - 1) / BLOCK;
    const u32 left = strand < blocks ? p.count - strand * BLOCK : 0;  // keys from the own block on
    const float scale = __fmul_rn(p.scale, LOG2_E), unit = FORM == MASKED ? 1.0f : scale;
    __syncthreads();
    u32 phase = 0;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, phase ^= 1) {
        const Spot spot(p, tile, QUERIES, HEAD);
        const i32 row = static_cast<i32>(p.first_row + spot.first);
        // Asked for by a warp, in which one is elected.
        const auto copy = [&](Input input, const i32 (&at)[MAPPED_LEADING], u32 to, u32 barrier, i32 column, i32 first) {
            if (!elected()) return;
            const u32 panels = input == MASK ? 1 : PANELS;
            barrier_arrive_expecting(barrier, panels * BOX);
#pragma unroll
            for (u32 panel = 0; panel < panels; ++panel) {
                copy_panel(to + panel * BOX, &p.maps[input], barrier, column + static_cast<i32>(panel * PANEL), first, at);
            }
        };
        const i32 own_keys = static_cast<i32>(strand * BLOCK);
        if (tile == blockIdx.x) {
            settle(spot.found());
            wait_for_predecessors();
            release_successors();
        } else {
            copy_fence();
            __syncthreads();
        }
        if (warp == 0) {
            if (strand == 0) copy(QUERY, spot.at[QUERY], queries, queries_there, 0, row);
            if (left > 0) {
                copy(KEY, spot.at[KEY], keys + strand * SIDE, keys_there + strand * 8, 0, own_keys);
                if (FORM == MASKED) copy(MASK, spot.at[MASK], masks + strand * BOX, masks_there + strand * 8, own_keys, row);
            }
        }
        __syncwarp();
        // Warps without rows go along with the products of the others.
        const u32 top = warp * 16;
        const bool present = top < spot.rows;
        float s[BLOCK / 2], most[2];
        const auto look = [&](auto few) {
            constexpr u32 KEYS = decltype(few)::KEYS;
            if (FORM == MASKED) mask_scores<KEYS>(s, masks + strand * BOX, top + lane / 4, lane, scale);
            if (left < KEYS || KEYS < BLOCK) leave_out<KEYS>(s, left, lane);
            find_greatest<KEYS>(most, s);
            if (lane % 4 == 0) greatest[strand][top + lane / 4] = most[0], greatest[strand][top + lane / 4 + 8] = most[1];
        };
        if (left > 0) {
#pragma unroll
            for (u32 i = 0; i < BLOCK / 2; ++i) s[i] = 0.0f;
            const u32 a = swizzled_matrix(queries), b = swizzled_matrix(keys + strand * SIDE);
            barrier_wait(queries_there, phase);
            barrier_wait(keys_there + strand * 8, phase);
            products_begin();
#pragma unroll
            for (u32 k = 0; k < HEAD / 16; ++k) {
                const u32 step = k / 4 * (BOX / 16) + k % 4 * 2;
                Wgmma<BLOCK>::multiply(s, a + step, b + step);
            }
            products_commit();
            // Not before: values shall not hold up the keys that are waited for.
            if (warp == 0) copy(VALUE, spot.at[VALUE], values + strand * SIDE, values_there + strand * 8, static_cast<i32>(spot.first_column), own_keys);
            __syncwarp();
            if (FORM == MASKED) barrier_wait(masks_there + strand * 8, phase);
            products_wait<0>();
            settle(s);
            if (present) {
                if (left <= FEW) look(Keys<FEW>()); else look(Keys<BLOCK>());
            }
        }
        __syncthreads();
        // What the walk's maxima would be, and what they rescale its sums by.
        float factor[STRANDS][2], shift[2] = {};
        most[0] = most[1] = lowest();
#pragma unroll
        for (u32 block = 0; block < STRANDS; ++block) {
            if (block >= blocks) break;
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const float most_now = fmaxf(greatest[block][top + lane / 4 + half * 8], most[half]), base = finite(most_now);
                factor[block][half] = power_of_two(__fmul_rn(__fsub_rn(most[half], base), unit));
                if (block == strand) shift[half] = -__fmul_rn(base, unit);
                most[half] = most_now;
            }
        }
        const auto weigh = [&](auto few) {
            constexpr u32 KEYS = decltype(few)::KEYS;
            u32 a[BLOCK / 16][4];
            float all[2];
            weigh_keys<KEYS>(a, all, s, unit, shift);
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const u32 r = top + lane / 4 + half * 8;
#pragma unroll
                for (u32 n = 0; n < KEYS / 8; ++n) {
                    asm volatile("st.shared.b32 [%0], %1;" ::"r"(keys + strand * SIDE + place<QUERIES>(r, n) + lane % 4 * 4), "r"(a[n / 2][n % 2 * 2 + half]) : "memory");
                }
                weights[strand][half][thread] = all[half];
            }
        };
        if (left > 0 && present) {
            if (left <= FEW) weigh(Keys<FEW>()); else weigh(Keys<BLOCK>());
        }
        copy_fence();
        __syncthreads();
        float total[COLUMNS / 2] = {}, sums[2];
#pragma unroll
        for (u32 block = 0; block < STRANDS; ++block) {
            if (block >= blocks) break;
            if (block > 0) {
                products_wait<0>();
                settle(total);
#pragma unroll
                for (u32 i = 0; i < COLUMNS / 2; ++i) total[i] = __fmul_rn(total[i], factor[block][i / 2 % 2]);
            }
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const float all = weights[block][half][thread];
                sums[half] = block > 0 ? __fmaf_rn(sums[half], factor[block][half], all) : all;
            }
            const u32 a = swizzled_matrix(keys + block * SIDE);
            const u32 b = swizzled_matrix(values + block * SIDE) + strand * OWN / PIECES * (BOX / 16) + strand * OWN % PIECES;
            barrier_wait(values_there + block * 8, phase);
            products_begin();
            // Keys that are not there weigh nothing. Each way through is whole: the compiler runs products one by one that have a branch
            // among them.
            if (p.count - block * BLOCK > FEW) {
#pragma unroll
                for (u32 k = 0; k < BLOCK / 16; ++k) ByColumns<COLUMNS>::multiply(total, a + k * 2, b + k * ROW_BYTES, block > 0 || k > 0);
                products_commit();
            } else {
                ByColumns<COLUMNS>::multiply(total, a, b, block > 0);
                products_commit();
            }
        }
        products_wait<0>();
        settle(total);
        if (present) store_results<QUERIES, OWN>(p, spot, total, sums, queries, top, strand * OWN, lane);
    }
}

#define ATTENTION(NAME, PANELS, FORM, RESIDENT)                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) NAME(const __grid_constant__ AttentionWgmma p) {    \
        attend_abreast<PANELS, FORM>(p);                                                                                 \
    }

// Panels of a head, as in plan/tactic/attention.rs.
ATTENTION(attention_abreast_1_plain, 1, PLAIN, 1)
ATTENTION(attention_abreast_2_plain, 2, PLAIN, 1)
ATTENTION(attention_abreast_1_masked, 1, MASKED, 1)
ATTENTION(attention_abreast_2_masked, 2, MASKED, 1)
