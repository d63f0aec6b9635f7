// Copies of less than 16 bytes into shared memory.
#pragma once

#include "types.cuh"

// Copies 4 bytes from device to shared memory in the background; `bytes` of them (0 or 4) are read, the rest is zero.
__device__ __forceinline__ void copy_4(u32 shared, u64 address, u32 bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(address), "r"(bytes) : "memory");
}

// 8 bytes likewise.
__device__ __forceinline__ void copy_8(u32 shared, u64 address, u32 bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared), "l"(address), "r"(bytes) : "memory");
}
