// From sm_90 on: the lane of a warp that asks for copies, and what blocks of a cluster have in common, barriers in shared memory
// that count bytes, and each other's shared memory. Addresses are 32-bit ones of shared memory. Names and orderings as in the PTX ISA.
#pragma once

#include "types.cuh"

// --- warps ---

// One lane of a warp whose lanes all come here together: what asks for a copy runs in it alone. The compiler knows that it is one, and sets
// the copy down once; behind a choice by a lane's number it would ask lane after lane. And where all lanes go round a loop, what they
// agree on stays in registers that copies take their operands from.
__device__ __forceinline__ bool elected() {
    u32 chosen;
    asm volatile("{\n.reg .pred chosen;\nelect.sync _|chosen, 0xffffffff;\nselp.b32 %0, 1, 0, chosen;\n}" : "=r"(chosen));
    return chosen;
}

// --- barriers ---

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine and to the cluster.
__device__ __forceinline__ void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_arrive_expecting(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Returns when the phase of the given parity is over. Acquires within the block only, also where other blocks of the cluster
// write: shared memory has no copies that could be old, and a wider scope empties the first cache of device memory.
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// --- clusters ---

__device__ __forceinline__ u32 cluster_size() {
    u32 size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The two halves of a meeting of all threads of the cluster: what each wrote before it arrived is visible to all that waited.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// An arrival that makes no writes visible.
__device__ __forceinline__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }

__device__ __forceinline__ void cluster_meet() {
    cluster_arrive();
    cluster_wait();
}

// The address of another block's copy of a place in shared memory.
__device__ __forceinline__ u32 remote_address(u32 address, u32 rank) {
    u32 remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}

__device__ __forceinline__ float4 load_remote(u32 address) {
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

__device__ __forceinline__ void store_remote(u32 address, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// Stores two words in the background to an address of `remote_address`; the bytes count at a barrier of the same block.
__device__ __forceinline__ void send_pair(u32 address, u32 a, u32 b, u32 barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(address), "r"(a), "r"(b),
                 "r"(barrier)
                 : "memory");
}

// Makes this thread's stores to shared memory visible to the copy engine and to warpgroup products.
__device__ __forceinline__ void copy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Copies a run of bytes, a multiple of 16, of this block's shared memory to an address of `remote_address` in another block; the
// bytes count at a barrier of that block. This block must not end before they are there.
__device__ __forceinline__ void send_run(u32 to, u32 from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "r"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}
