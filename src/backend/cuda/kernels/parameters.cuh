// What a launch does while it waits for its predecessors (chain.cuh): its parameters come near, and its places are found.
//
// Parameters lie in constant memory that no launch before has read: each line that is asked for comes from far away, one after another
// where a kernel looks at them field by field. Compilers see nothing that would hold arithmetic ahead of a wait: what shall be done by then
// has to be asked for.
#pragma once

#include "types.cuh"

constexpr u32 PARAMETER_LINE = 64;

// Has `value` computed by now: there is a second wait behind it, for a value that none has.
__device__ __forceinline__ void settle(u32 value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred never;\nsetp.eq.u32 never, %0, 0xfffffff1;\n@never griddepcontrol.wait;\n}" ::"r"(value) : "memory");
#endif
}

// Asks for `bytes` of the parameters from byte `from` on, up to 32 lines. Each line costs its time, waited for or not.
template <typename P>
__device__ __forceinline__ void bring_more(const P& p, u32 from, u32 bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const u32 lane = threadIdx.x % 32, first = from / PARAMETER_LINE, end = (from + bytes + PARAMETER_LINE - 1) / PARAMETER_LINE;
    if (bytes > 0) settle(reinterpret_cast<const u32*>(&p)[(first + lane < end ? first + lane : first) * (PARAMETER_LINE / 4)]);
#endif
}

// Asks for all parameters but the calls of a tail that it does not have.
template <typename P, typename T>
__device__ __forceinline__ void bring_around(const P& p, const T& tail) {
    const u32 calls = static_cast<u32>(reinterpret_cast<const u8*>(&tail.call) - reinterpret_cast<const u8*>(&p));
    const u32 behind = calls + static_cast<u32>(sizeof(tail.call));
    bring_more(p, 0, calls);
    bring_more(p, behind, static_cast<u32>(sizeof(P)) - behind);
    bring_more(p, calls, tail.calls * static_cast<u32>(sizeof(tail.call[0])));
}
