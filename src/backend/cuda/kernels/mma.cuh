// The instructions of sm_80 and newer that a tensor-core loop is made of; every operand as the PTX manual names it.
#pragma once

#include "types.cuh"

// Two halves times `scale`, plus `shift`, at least zero; rounded to f16 after each step.
__device__ __forceinline__ u32 affine_relu(u32 x, u32 scale, u32 shift) {
    u32 y;
    asm("{\n"
        "  .reg .b32 t;\n"
        "  mul.rn.f16x2 t, %1, %2;\n"
        "  add.rn.f16x2 t, t, %3;\n"
        "  max.NaN.f16x2 %0, t, %4;\n"
        "}"
        : "=r"(y)
        : "r"(x), "r"(scale), "r"(shift), "r"(0));
    return y;
}

__device__ __forceinline__ u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

// Copies 16 bytes from device to shared memory in the background; `bytes` of them (0 or 16) are read, the rest is zero.
__device__ __forceinline__ void copy_16(u32 shared, u64 address, u32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(address), "r"(bytes) : "memory");
}

// Ends a group of copies; an empty group is complete at once.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `PENDING` of this thread's newest groups are incomplete.
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8x8 matrices of halves; lane `l` gives the address of row `l % 8` of matrix `l / 8`.
__device__ __forceinline__ void load_matrices(u32 (&registers)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(shared)
                 : "memory");
}

// d += a * b for a 16x16 and b 16x8, halves with f32 accumulation.
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
