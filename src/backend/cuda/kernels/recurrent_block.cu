// A recurrent layer (LSTM, GRU) of halves on tensor cores, of so few hidden units that the registers of one block hold its
// weights: all steps of 8 rows of the batch in one launch, whose warps meet once a step. The bits are those of
// recurrent_mma.cu. A product has 16 rows, of which eight are zeros: what takes longest are the functions of the gates, of which a
// thread has but one unit in each group then.
//
// Rows of pre-activations come whole, some steps ahead, into a ring in shared memory, and rows of h leave whole, a step later, from
// the state that the products read: a thread's own cells lie in eight rows, whose lines would each be a turn of the load unit.
#include "recurrent_mma.cuh"

constexpr u32 BLOCK_ROWS = 8;
constexpr u32 MAX_WARPS = 16;
constexpr u32 STAGES = 4;  // steps whose pre-activations are in shared memory
constexpr u32 PIECE = 8;   // halves of 16 bytes

// The piece of pre-activations that a thread copies for each step: all of them have half as many as hidden units, in each row, and a
// thread's warp owns the four of a unit in one or two groups.
struct Copies {
    const u16* from;  // at the next step
    u32 to;           // in a stage, in bytes
    u32 bytes;        // 0 for zeros, in rows behind the last
    bool there;

    __device__ __forceinline__ Copies(const RecurrentMma& p, u32 tile, u32 gate_pitch) {
        const u32 pieces = p.hidden / 2, row = threadIdx.x / pieces, piece = threadIdx.x - row * pieces, of = tile * BLOCK_ROWS + row;
        const bool live = of < p.rows;
        const i64 batch = static_cast<i64>(p.first_row) + (live ? of : 0);
        from = pointer_to<u16>(p.gates.address, batch * p.gates.strides[1] + time_of(p, 0) * p.gates.strides[0] + piece * PIECE);
        to = (row * gate_pitch + piece * PIECE) * 2;
        bytes = live ? 16 : 0;
        there = row < BLOCK_ROWS;
    }

    // Asks for the pre-activations of the next step, if it is one.
    __device__ __forceinline__ void ask(const RecurrentMma& p, u32 step, u32 stage) {
        if (step < p.steps) {
            if (there) copy_16(stage + to, reinterpret_cast<u64>(from), bytes);
            from += p.reverse ? -p.gates.strides[0] : p.gates.strides[0];
        }
        commit_copies();
    }
};

// Where a thread stores its piece of each step's h, if y has its rows in pieces, of which there are as many as hidden units.
struct Stores {
    u16* to;    // at the next step
    u32 from;   // in a state, in halves
    bool there;

    __device__ __forceinline__ Stores(const RecurrentMma& p, u32 tile) {
        const u32 pieces = max(p.hidden / PIECE, 1u), row = threadIdx.x / pieces, piece = threadIdx.x - row * pieces, of = tile * BLOCK_ROWS + row;
        const i64 batch = static_cast<i64>(p.first_row) + of;
        to = reinterpret_cast<u16*>(p.y.address) + batch * p.y.strides[1] + time_of(p, 0) * p.y.strides[0] + piece * PIECE;
        from = row * pitch(p) + piece * PIECE;
        there = row < BLOCK_ROWS && of < p.rows;
    }

    // Stores what a state holds as the h of the next step, which is `step`.
    __device__ __forceinline__ void store(const RecurrentMma& p, u32 tile, u32 step, u32 state) {
        const u16* const rows = states + state * BLOCK_ROWS * pitch(p);
        if (p.wide) {
            if (there) *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(rows + from);
            to += p.reverse ? -p.y.strides[0] : p.y.strides[0];
            return;
        }
        u16* const y = reinterpret_cast<u16*>(p.y.address) + time_of(p, step) * p.y.strides[0];
        for (u32 i = threadIdx.x; i < BLOCK_ROWS * p.hidden; i += blockDim.x) {
            const u32 row = i / p.hidden, unit = i - row * p.hidden, of = tile * BLOCK_ROWS + row;
            if (of < p.rows) y[(static_cast<i64>(p.first_row) + of) * p.y.strides[1] + unit * p.y.strides[2]] = rows[row * pitch(p) + unit];
        }
    }
};

// The cells of a group of units in a tile of eight rows: two such tiles are one of `cells_of`, whose rows lie eight apart.
__device__ __forceinline__ Cells cells_of_eight(const RecurrentMma& p, u32 tile, u32 group) {
    Cells cells = cells_of(p, tile / 2, group);
    if (tile % 2 != 0) cells.batch[0] = cells.batch[1], cells.present[0] = cells.present[1];
    return cells;
}

// Each warp keeps the weights of `GROUPS` groups, of up to `DEEPS` blocks of k.
template <bool GATED, u32 GROUPS, u32 DEEPS>
__device__ __forceinline__ void keep_weights(const RecurrentMma& p) {
    const u32 first_group = threadIdx.x / 32 * GROUPS, lane = threadIdx.x % 32;
    const u32 deeps = (p.hidden + DEEP - 1) / DEEP;  // behind which all weights are zeros
    uint4 weights[GROUPS][DEEPS];
#pragma unroll
    for (u32 g = 0; g < GROUPS; ++g) {
#pragma unroll
        for (u32 deep = 0; deep < DEEPS; ++deep) {
            const bool there = first_group + g < p.groups && deep < deeps;
            weights[g][deep] = there ? weights_of(p, first_group + g, deep) : make_uint4(0, 0, 0, 0);
        }
    }
    const u32 gate_pitch = 4 * p.hidden + SKEW, stage_halves = BLOCK_ROWS * gate_pitch;
    u16* const ring = states + 2 * BLOCK_ROWS * pitch(p);
    const u32 stages = shared_address(ring);
    const u32 row = lane / 4, unit = first_group * GROUP_UNITS + lane % 4;
    clear_states<BLOCK_ROWS>(p);
    wait_for_predecessors();
    release_successors();
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        __syncthreads();
        Copies copies(p, tile, gate_pitch);
#pragma unroll
        for (u32 ahead = 0; ahead + 1 < STAGES; ++ahead) copies.ask(p, ahead, stages + ahead * stage_halves * 2);
        load_first_h<BLOCK_ROWS>(p, tile * BLOCK_ROWS);
        Stores stores(p, tile);
        float kept[GROUPS];
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) kept[g] = first_kept<GATED>(p, cells_of_eight(p, tile, first_group + g), 0);
        for (u32 step = 0; step < p.steps; ++step) {
            // All of this step's pre-activations and h are there, and nobody reads the stage and the state that are written next.
            wait_copies<STAGES - 2>();
            __syncthreads();
            copies.ask(p, step + STAGES - 1, stages + (step + STAGES - 1) % STAGES * stage_halves * 2);
            // The 16 bytes that this lane names to `load_matrices`: eight rows of two blocks of k.
            const u32 operand = shared_address(states + (step % 2 * BLOCK_ROWS + lane % 8) * pitch(p) + lane / 8 * PIECE);
            float low[GROUPS][4] = {}, high[GROUPS][4] = {};
#pragma unroll
            for (u32 first = 0; first < DEEPS; first += 2) {
                if (first >= deeps) continue;
                u32 h[4];
                load_matrices(h, operand + first * DEEP * 2);
#pragma unroll
                for (u32 i = 0; i < 2; ++i) {
                    const u32 a[4] = {h[2 * i], 0, h[2 * i + 1], 0};
#pragma unroll
                    for (u32 g = 0; g < GROUPS; ++g) {
                        multiply(low[g], a, weights[g][first + i].x, weights[g][first + i].y);
                        multiply(high[g], a, weights[g][first + i].z, weights[g][first + i].w);
                    }
                }
            }
            const u16* const gates = ring + step % STAGES * stage_halves + row * gate_pitch + unit;
            u16* const next = states + ((step + 1) % 2 * BLOCK_ROWS + row) * pitch(p) + unit;
#pragma unroll
            for (u32 g = 0; g < GROUPS; ++g) {
                if (first_group + g >= p.groups) continue;
                const u16* const from = gates + g * GROUP_UNITS;
                const u16 z[4] = {from[0], from[p.hidden], from[2 * p.hidden], from[3 * p.hidden]};
                const u16 h = advance<GATED>(z, low[g], high[g], kept[g]);
                // Units behind the last one stay zeros.
                next[g * GROUP_UNITS] = unit + g * GROUP_UNITS < p.hidden ? h : static_cast<u16>(0);
            }
            if (step > 0) stores.store(p, tile, step - 1, step % 2);
        }
        __syncthreads();
        if (p.steps > 0) stores.store(p, tile, p.steps - 1, p.steps % 2);
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) store_last_c(p, cells_of_eight(p, tile, first_group + g), 0, kept[g]);
        wait_copies<0>();
    }
}

// By cell and most hidden units, as bind/recurrent_mma.rs names them.
#define BLOCK(NAME, GATED, GROUPS, DEEPS)                                                                       \
    extern "C" __global__ void __launch_bounds__(MAX_WARPS * 32) NAME(const __grid_constant__ RecurrentMma p) { \
        keep_weights<GATED, GROUPS, DEEPS>(p);                                                                  \
    }
BLOCK(recurrent_block_lstm_64, false, 1, 4)
BLOCK(recurrent_block_lstm_128, false, 2, 8)
BLOCK(recurrent_block_gru_64, true, 1, 4)
BLOCK(recurrent_block_gru_128, true, 2, 8)
