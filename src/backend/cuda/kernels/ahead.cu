// Reads weights into the second-level cache before the kernels that need them begin.
//
// Nothing waits for the bytes: a launch asks for them and ends. Weights are constants, so the kernels may begin meanwhile.
#include "chain.cuh"
#include "types.cuh"

constexpr u32 MAX_STRETCHES = 64;
constexpr u32 PIECE = 16384;  // bytes that a thread asks for at a time
constexpr u32 LINE = 128;     // of the cache
constexpr u32 WHOLE = 1024;   // a stretch's `part` if all of it is read

struct Stretch {
    u64 address;  // a multiple of 16
    u64 bytes;
    u64 step;     // what blocks read at about the same time; of these steps, `part` in WHOLE are read, evenly
    u32 part;
    u32 padding;
};

struct AheadParams {
    u32 count;
    u32 padding;
    Stretch stretches[MAX_STRETCHES];
};

static_assert(sizeof(AheadParams) == 8 + 32 * MAX_STRETCHES, "mirrored in ahead.rs");

__device__ __forceinline__ void ask_for(u64 address, u32 bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
#else
    for (u32 i = 0; i < bytes; i += LINE) asm volatile("prefetch.global.L2 [%0];" ::"l"(address + i) : "memory");
#endif
}

extern "C" __global__ void ahead(const __grid_constant__ AheadParams p) {
    wait_for_predecessors();
    release_successors();
    const u64 first = static_cast<u64>(blockIdx.x * blockDim.x + threadIdx.x) * PIECE;
    const u64 stride = static_cast<u64>(gridDim.x * blockDim.x) * PIECE;
    for (u32 s = 0; s < p.count && s < MAX_STRETCHES; ++s) {
        const Stretch& stretch = p.stretches[s];
        for (u64 at = first; at < stretch.bytes; at += stride) {
            if (stretch.part < WHOLE && at / stretch.step * stretch.part % WHOLE >= stretch.part) continue;
            const u64 left = stretch.bytes - at;
            ask_for(stretch.address + at, static_cast<u32>(left < PIECE ? left : PIECE) & ~15u);
        }
    }
}
