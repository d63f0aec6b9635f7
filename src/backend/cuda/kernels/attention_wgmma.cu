// Attention of halves by warpgroup products: scores and weights never leave the registers.
//
// A warpgroup takes 64 queries and walks blocks of 64 keys with a running maximum, rescaling its sums when that grows (Milakov
// and Gimelshein 2018; Dao et al. 2022). Scores of a block are computed together with the weighed values of the one before, and
// several warpgroups of a multiprocessor take turns at the tensor cores (Shah et al. 2024). Blocks are shared out into as many
// segments as the class of the operator has splits, each with sums of its own, which are joined in ascending order: by one warpgroup
// that walks them all, or by `STRANDS` warpgroups with a segment each, with the same bits. Blocks and segments follow from the shape
// alone, and rows know nothing of each other: so results depend neither on tiles nor on chunks nor on the grid.
//
// Weights are rounded to f16 before they meet the values; everything else is f32. Queries, keys and values come by the copy
// engine; where it cannot walk them, by each thread's copies in the background if they lie on 8 bytes, else half by half.
#include "attention_wgmma.cuh"

// Weighs the first `KEYS` keys of a block by their scores: raises the maxima, rescales the sums where these grew, adds the weights and
// leaves them in the `a` of a product, rounded. The others weigh nothing, with the same bits as if they were looked at. The products
// of the block before, which read `a` and add to the sums, may still run until the maxima are known.
template <u32 KEYS, u32 HEAD>
__device__ __forceinline__ void weigh(u32 (&a)[BLOCK / 16][4], Sums<HEAD>& part, const float (&s)[BLOCK / 2], float unit, bool begun) {
    float most[2], factor[2], shift[2], all[2];
    find_greatest<KEYS>(most, s);
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        most[half] = fmaxf(most[half], part.greatest[half]);
        const float base = finite(most[half]);
        factor[half] = begun ? power_of_two(__fmul_rn(__fsub_rn(part.greatest[half], base), unit)) : 0.0f;
        shift[half] = -__fmul_rn(base, unit);
        part.greatest[half] = most[half];
    }
    // Sums of which no maximum grew stay as they are. The branch keeps both waits behind the search for the maxima.
    if (begun && __any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f)) {
        products_wait<0>();
        settle(part.total);
#pragma unroll
        for (u32 i = 0; i < HEAD / 2; ++i) part.total[i] = __fmul_rn(part.total[i], factor[i / 2 % 2]);
    }
    products_wait<0>();
    settle(part.total);
    weigh_keys<KEYS>(a, all, s, unit, shift);
#pragma unroll
    for (u32 half = 0; half < 2; ++half) part.sum[half] = begun ? __fmaf_rn(part.sum[half], factor[half], all[half]) : all[half];
}

extern __shared__ uint4 shared_pieces[];

// A block of threads has STRANDS * GROUPS warpgroups: those of a strand share keys and values, those of a group queries. With one
// stage there is one block of keys.
template <u32 PANELS, u32 STRANDS, u32 GROUPS, u32 STAGES, Form FORM>
__device__ __forceinline__ void attend(const AttentionWgmma& p) {
    constexpr u32 HEAD = PANELS * PANEL, TEAM = WARPGROUP * GROUPS, THREADS = TEAM * STRANDS;
    constexpr u32 ROWS = GROUPS * QUERIES, SIDE = PANELS * BOX;
    // Of a strand's fragments of values those that it finishes.
    constexpr u32 OWN = HEAD / 8 / STRANDS;
    static_assert(FORM != MASKED || GROUPS == 1, "a mask's panels are of one warpgroup");
    __shared__ alignas(8) u64 barriers[1 + 3 * STAGES * STRANDS];
    const u32 strand = uniform(threadIdx.x / TEAM), thread = threadIdx.x % TEAM, warp = uniform(thread / 32), lane = thread % 32;
    // The swizzle counts from multiples of 1024 bytes.
    const u32 queries = (shared_address(shared_pieces) + 1023) / 1024 * 1024;
    // STAGES blocks of keys of this strand, as many of values, and of the mask; behind those of all strands a thread's sums, where a
    // warpgroup joins its own. Strands leave theirs in place of their keys and values.
    constexpr u32 STRAND = STAGES * (2 * SIDE + (FORM == MASKED ? BOX : 0));
    static_assert(STRANDS == 1 || (HEAD / 8 + 1) * TEAM * 16 <= 2 * STAGES * SIDE, "a strand's sums lie in place of its keys and values");
    const u32 keys = queries + GROUPS * SIDE + strand * STRAND, values = keys + STAGES * SIDE, masks = values + STAGES * SIDE;
    const u32 stash = STRANDS == 1 ? keys + STRAND + threadIdx.x * 16 : keys + thread * 16;
    const u32 queries_there = shared_address(barriers), keys_there = queries_there + 8 + strand * (3 * STAGES * 8);
    const u32 values_there = keys_there + STAGES * 8, masks_there = values_there + STAGES * 8;
    const bool leads = warp == 0;  // the warp of a team that asks for its copies
    if (thread == 0) {
        if (strand == 0) prefetch_maps(p);
        if (strand == 0) barrier_init(queries_there, mapped<FORM>(p, QUERY) ? 1 : THREADS);
#pragma unroll
        for (u32 i = 0; i < STAGES; ++i) {
            barrier_init(keys_there + i * 8, mapped<FORM>(p, KEY) ? 1 : TEAM);
            barrier_init(values_there + i * 8, mapped<FORM>(p, VALUE) ? 1 : TEAM);
            if (FORM == MASKED) barrier_init(masks_there + i * 8, 1);
        }
        barrier_init_fence();
    }
    const u32 row_axis = p.row_axis, column_axis = p.row_axis + 1;
    const u32 blocks = (p.count + BLOCK - 1) / BLOCK;
    const u32 begin = STRANDS == 1 ? 0 : strand * p.segment;
    const u32 end = STRANDS == 1 || begin + p.segment > blocks ? blocks : begin + p.segment;
    const u32 turns = end > begin ? end - begin : 0;
    const bool masked = FORM == ANY && p.mask.address != 0;
    // Scores meet the scale in the exponent, or before it where they are not greatest together with it.
    const float scale = __fmul_rn(p.scale, LOG2_E);
    const bool scaled = masked || (FORM == ANY && !(scale > 0.0f));
    const float unit = FORM == MASKED || scaled ? 1.0f : scale;
    __syncthreads();
    u32 phase = 0;     // of the queries' barrier
    u32 fetched = 0;   // blocks of keys, and of values, before this tile's
    bool waited = false;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const Spot spot(p, tile, ROWS, HEAD);
        const u32 matrix = spot.matrix, rows = spot.rows, columns = spot.columns, first_column = spot.first_column;
        const i64 row = p.first_row + spot.first;
        const auto copy = [&](Input input, const i32 (&at)[MAPPED_LEADING], u32 to, u32 barrier, u32 column, u32 first_of_rows) {
#pragma unroll
            for (u32 panel = 0; panel < (input == MASK ? 1 : PANELS); ++panel) {
                copy_panel(to + panel * (input == QUERY ? GROUPS * BOX : BOX), &p.maps[input], barrier, column + panel * PANEL, first_of_rows, at);
            }
        };
        const auto fetch_keys = [&](u32 turn) {
            const u32 slot = (fetched + turn) % STAGES, to = keys + slot * SIDE, barrier = keys_there + slot * 8;
            if (mapped<FORM>(p, KEY)) {
                if (leads && elected()) {
                    barrier_arrive_expecting(barrier, SIDE);
                    copy(KEY, spot.at[KEY], to, barrier, 0, (begin + turn) * BLOCK);
                }
            } else {
                const Rows rows_of{p.keys.address + 2 * matrix_of(matrix, p.leading, p.keys), p.keys.strides[column_axis], p.keys.strides[row_axis], p.count, p.depth};
                gather_panels<BLOCK, PANELS, TEAM>(to, rows_of, (begin + turn) * BLOCK, thread, barrier);
            }
        };
        const auto fetch_values = [&](u32 turn) {
            const u32 slot = (fetched + turn) % STAGES, to = values + slot * SIDE, barrier = values_there + slot * 8;
            if (mapped<FORM>(p, VALUE)) {
                if (leads && elected()) {
                    barrier_arrive_expecting(barrier, SIDE);
                    copy(VALUE, spot.at[VALUE], to, barrier, first_column, (begin + turn) * BLOCK);
                }
            } else {
                const i64 at = matrix_of(matrix, p.leading, p.values) + static_cast<i64>(first_column) * p.values.strides[column_axis];
                const Rows rows_of{p.values.address + 2 * at, p.values.strides[row_axis], p.values.strides[column_axis], p.count, columns};
                gather_panels<BLOCK, PANELS, TEAM>(to, rows_of, (begin + turn) * BLOCK, thread, barrier);
            }
        };
        const auto fetch_masks = [&](u32 turn) {
            if (FORM == MASKED && leads && elected()) {
                const u32 slot = (fetched + turn) % STAGES, barrier = masks_there + slot * 8;
                barrier_arrive_expecting(barrier, BOX);
                copy(MASK, spot.at[MASK], masks + slot * BOX, barrier, (begin + turn) * BLOCK, row);
            }
        };
        const auto fetch_first_masks = [&] {
#pragma unroll 1
            for (u32 i = 0; i < STAGES && i < turns; ++i) fetch_masks(i);
        };
        const auto wait = [&](Input input, u32 barriers, u32 turn) {
            barrier_wait(barriers + (fetched + turn) % STAGES * 8, (fetched + turn) / STAGES % 2);
            if (!mapped<FORM>(p, input)) copy_fence();
        };
        const auto keys_wait = [&](u32 turn) { wait(KEY, keys_there, turn); };
        const auto values_wait = [&](u32 turn) { wait(VALUE, values_there, turn); };
        if (!waited) {
            // Nobody writes a constant, so it need not be waited for.
            const bool ahead = mapped<ANY>(p, MASK);
            if (ahead) fetch_first_masks();
            settle(spot.found());
            wait_for_predecessors();
            release_successors();
            if (!ahead) fetch_first_masks();
            waited = true;
        } else {
            copy_fence();
            __syncthreads();
            fetch_first_masks();
        }
        if (mapped<FORM>(p, QUERY)) {
            if (strand == 0 && leads && elected()) {
                barrier_arrive_expecting(queries_there, GROUPS * SIDE);
#pragma unroll
                for (u32 group = 0; group < GROUPS; ++group) copy(QUERY, spot.at[QUERY], queries + group * BOX, queries_there, 0, row + group * QUERIES);
            }
        } else {
            const i64 at = matrix_of(matrix, p.leading, p.queries) + row * p.queries.strides[row_axis];
            const Rows rows_of{p.queries.address + 2 * at, p.queries.strides[row_axis], p.queries.strides[column_axis], rows, p.depth};
            gather_panels<ROWS, PANELS, THREADS>(queries, rows_of, 0, threadIdx.x, queries_there);
        }
#pragma unroll 1
        for (u32 i = 0; i < STAGES && i < turns; ++i) {
            fetch_keys(i);
            fetch_values(i);
        }
        const i64 mask_at = masked ? matrix_of(matrix, p.leading, p.mask) + row * p.mask.strides[row_axis] : 0;
        Sums<HEAD> part;
#pragma unroll
        for (u32 i = 0; i < HEAD / 2; ++i) part.total[i] = 0.0f;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) part.greatest[half] = lowest(), part.sum[half] = 0.0f;
        barrier_wait(queries_there, phase);
        phase ^= 1;
        // Warps without rows go along with the products of the others.
        const u32 top = warp * 16;
        const bool present = top < rows;
        u32 q[HEAD / 16][4];
#pragma unroll
        for (u32 k = 0; k < HEAD / 16; ++k) load_matrices(q[k], queries + place<ROWS>(top + lane % 16, k * 2 + lane / 16));
        float s[BLOCK / 2];
#pragma unroll
        for (u32 i = 0; i < BLOCK / 2; ++i) s[i] = 0.0f;
        const auto score = [&](u32 turn) {
            const u32 b = swizzled_matrix(keys + (fetched + turn) % STAGES * SIDE);
#pragma unroll
            for (u32 k = 0; k < HEAD / 16; ++k) multiply_64<0>(s, q[k], b + k / 4 * (BOX / 16) + k % 4 * 2, k > 0);
        };
        // A block's part of the mask is on its way while its scores are computed, where there are registers for it.
        constexpr bool AHEAD = STRANDS == 1;
        u32 mask[2][FRAGMENTS];
        const auto fetch_mask_of = [&](u32 turn, u32 half) {
            const u32 query = top + lane / 4 + half * 8, key = (begin + turn) * BLOCK + lane % 4 * 2;
            fetch_mask(mask[half], p.mask, row_axis, mask_at, query, rows, key, p.count);
        };
        const auto fetch_ahead = [&](u32 turn) {
            if (!AHEAD || !masked || !present || turn >= turns) return;
            fetch_mask_of(turn, 0);
            fetch_mask_of(turn, 1);
        };
        fetch_ahead(0);
        if (turns > 0) {
            keys_wait(0);
            products_begin();
            score(0);
            products_commit();
            products_wait<0>();
            settle(s);
        }
        // The weights of a block, rounded; those of warps without rows stay zeros.
        u32 a[BLOCK / 16][4] = {};
        u32 in_segment = 0;
        bool stashed = false;
        for (u32 turn = 0; turn < turns; ++turn) {
            if (STRANDS == 1 && in_segment == p.segment) {
                products_wait<0>();
                settle(part.total);
                if (stashed) join<HEAD, HEAD, THREADS, false>(stash, 0, part, unit);
                leave<HEAD, THREADS>(stash, part);
                stashed = true;
                in_segment = 0;
                part.greatest[0] = part.greatest[1] = lowest();
            }
            const u32 left = p.count - (begin + turn) * BLOCK;
            if (present) {
                // Element 4 n + 2 half + i: query lane / 4 + half * 8, key 8 n + lane % 4 * 2 + i.
                if (scaled) {
#pragma unroll
                    for (u32 i = 0; i < BLOCK / 2; ++i) s[i] = __fmul_rn(s[i], scale);
#pragma unroll
                    for (u32 half = 0; masked && half < 2; ++half) {
                        if (!AHEAD) fetch_mask_of(turn, half);
                        add_mask(s, mask[half], half);
                    }
                }
                if constexpr (FORM == MASKED) {
                    const u32 slot = (fetched + turn) % STAGES, panel = masks + slot * BOX;
                    barrier_wait(masks_there + slot * 8, (fetched + turn) / STAGES % 2);
                    if (left <= FEW) mask_scores<FEW>(s, panel, top + lane / 4, lane, scale);
                    else mask_scores<BLOCK>(s, panel, top + lane / 4, lane, scale);
                }
                if (left <= FEW) {
                    leave_out<FEW>(s, left, lane);
                    weigh<FEW>(a, part, s, unit, in_segment > 0);
                } else {
                    if (left < BLOCK) leave_out<BLOCK>(s, left, lane);
                    weigh<BLOCK>(a, part, s, unit, in_segment > 0);
                }
            } else {
                products_wait<0>();
                settle(part.total);
            }
            // Nobody reads the keys and the mask of this turn any more, nor the values of the one before.
            const bool more_values = turn > 0 && turn - 1 + STAGES < turns, more_keys = turn + STAGES < turns;
            if (more_values || more_keys) meet<TEAM>(1 + strand);
            if (turn + 1 < turns) keys_wait(turn + 1);
            values_wait(turn);
            const u32 b = swizzled_matrix(values + (fetched + turn) % STAGES * SIDE);
            const auto weigh_values = [&](u32 products) {
#pragma unroll
                for (u32 k = 0; k < products; ++k) {
#pragma unroll
                    for (u32 panel = 0; panel < PANELS; ++panel) {
                        multiply_64<1>(part.total + panel * 32, a[k], b + panel * (BOX / 16) + k * ROW_BYTES, k > 0 || in_segment > 0);
                    }
                }
            };
            // Each way through is whole: the compiler runs products one by one that have a branch among them.
            if (left > FEW) {
                products_begin();
                score(turn + 1);  // of whatever lies there after the last
                products_commit();
                weigh_values(BLOCK / 16);
                products_commit();
                if (more_values) fetch_values(turn - 1 + STAGES);
                if (more_keys) fetch_keys(turn + STAGES), fetch_masks(turn + STAGES);
                fetch_ahead(turn + 1);
                // The values are weighed while the next block's maxima are sought.
                products_wait<1>();
                settle(s);
            } else {
                products_begin();
                weigh_values(FEW / 16);
                products_commit();
                products_wait<0>();
                settle(part.total);
            }
            ++in_segment;
        }
        products_wait<0>();
        settle(part.total);
        fetched += turns;
        if constexpr (STRANDS == 1) {
            if (stashed) join<HEAD, HEAD, THREADS, false>(stash, 0, part, unit);
        } else {
            // Each strand leaves its sums, and takes a share of the columns of all.
            meet<TEAM>(1 + strand);
            leave<HEAD, TEAM>(stash, part);
            __syncthreads();
        }
        Sums<OWN * 8> all;
        if constexpr (STRANDS == 1) {
            all = part;
        } else {
            const u32 theirs = stash - strand * STRAND;
#pragma unroll
            for (u32 i = 0; i < OWN * 4; ++i) all.total[i] = 0.0f;
            all.sum[0] = all.sum[1] = 0.0f;
            all.greatest[0] = all.greatest[1] = lowest();
#pragma unroll 1
            for (u32 other = 0; other < STRANDS && other * p.segment < blocks; ++other) {
                join<HEAD, OWN * 8, TEAM, true>(theirs + other * STRAND, strand * OWN, all, unit);
            }
        }
        if (!present) continue;
        store_results<ROWS, OWN>(p, spot, all.total, all.sum, queries, top, STRANDS == 1 ? 0 : strand * OWN, lane);
    }
}

#define ATTENTION(NAME, PANELS, STRANDS, GROUPS, STAGES, FORM, RESIDENT)                                                            \
    extern "C" __global__ void __launch_bounds__(128 * STRANDS * GROUPS, RESIDENT) NAME(const __grid_constant__ AttentionWgmma p) {   \
        attend<PANELS, STRANDS, GROUPS, STAGES, FORM>(p);                                                                            \
    }

// Panels of a head, strands, warpgroups of a strand, stages: as in plan/tactic/attention.rs.
ATTENTION(attention_wgmma_1_1_1, 1, 1, 1, 4, ANY, 3)
ATTENTION(attention_wgmma_1_4_1, 1, 4, 1, 2, ANY, 1)
ATTENTION(attention_wgmma_2_1_1, 2, 1, 1, 2, ANY, 2)
ATTENTION(attention_wgmma_1_1_1_plain, 1, 1, 1, 4, PLAIN, 3)
ATTENTION(attention_wgmma_1_1_1_plain_crowded, 1, 1, 1, 2, PLAIN, 4)
ATTENTION(attention_wgmma_1_1_2_plain, 1, 1, 2, 4, PLAIN, 2)
ATTENTION(attention_wgmma_1_4_1_plain, 1, 4, 1, 2, PLAIN, 1)
ATTENTION(attention_wgmma_2_1_1_plain, 2, 1, 1, 2, PLAIN, 2)
ATTENTION(attention_wgmma_1_1_1_masked, 1, 1, 1, 4, MASKED, 2)
ATTENTION(attention_wgmma_1_1_1_masked_crowded, 1, 1, 1, 1, MASKED, 4)
ATTENTION(attention_wgmma_1_4_1_masked, 1, 4, 1, 2, MASKED, 1)
ATTENTION(attention_wgmma_2_1_1_masked, 2, 1, 1, 2, MASKED, 2)
