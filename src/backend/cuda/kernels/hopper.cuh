// What only Hopper (sm_90a) has: copies by the tensor memory accelerator, warpgroup products. Names as in the PTX ISA.
#pragma once

#include "chain.cuh"
#include "cluster.cuh"
#include "types.cuh"

// A descriptor made by the driver; read by the copy engine from the kernel's parameters.
struct alignas(64) TensorMap {
    u64 words[16];
};

__device__ __forceinline__ u32 shared_address(const void* pointer) {
    u32 address;
    asm("{\n.reg .u64 t;\ncvta.to.shared.u64 t, %1;\ncvt.u32.u64 %0, t;\n}" : "=r"(address) : "l"(pointer));
    return address;
}

// --- copies into shared memory; their bytes count at `barrier` ---

__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Pixels of an im2col map from base pixel (x, y, image) on, under the tap that lies (across, down) from a base pixel.
__device__ __forceinline__ void copy_im2col(
    u32 to, const TensorMap* map, u32 barrier, i32 channel, i32 x, i32 y, i32 image, u16 across, u16 down) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
        "l"(map), "r"(barrier), "r"(channel), "r"(x), "r"(y), "r"(image), "h"(across), "h"(down)
        : "memory");
}

// A box of a two-axis tiled map.
__device__ __forceinline__ void copy_box(u32 to, const TensorMap* map, u32 barrier, i32 inner, i32 outer) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(inner), "r"(outer)
        : "memory");
}

// A run of bytes, a multiple of 16.
__device__ __forceinline__ void copy_run(u32 to, const void* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// --- shared memory ---

__device__ __forceinline__ u32 load_word(u32 address) {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

__device__ __forceinline__ float4 load_four(u32 address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ void store_pair(u32 address, float a, float b) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(a), "f"(b) : "memory");
}

// --- warpgroup products ---

__device__ __forceinline__ void products_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void products_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `PENDING` committed groups are unfinished.
template <int PENDING>
__device__ __forceinline__ void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
