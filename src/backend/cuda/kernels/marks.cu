// What frames a frame: its beginning, the words of its progress, camera images on their way in, and injected faults.
//
// Words lie in the host's memory. A word is written after everything that was complete before the kernel began, and after
// its time: the host, which reads the word first, sees both. Parameters are mirrored in marks.rs.
#include "chain.cuh"
#include "slot.cuh"

__device__ __forceinline__ u64 global_nanoseconds() {
    u64 value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}

// Stores for the host: past every cache of the GPU, in the order they are made.
__device__ __forceinline__ void tell(u64 address, u64 value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

struct BeginParams {
    const u64* source;  // the slot's block as the host wrote it
    u64* target;        // where the frame's kernels read it
    u64 stamp;          // address of the word that takes the time at which the frame began
    u64 padding;
};

static_assert(sizeof(SlotBlock) % 8 == 0, "copied in words");

extern "C" __global__ void begin(const __grid_constant__ BeginParams p) {
    wait_for_predecessors();
    release_successors();
    for (u32 i = threadIdx.x; i < sizeof(SlotBlock) / 8; i += blockDim.x) {
        u64 word;
        asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(p.source + i) : "memory");
        p.target[i] = word;
    }
    if (threadIdx.x == 0) tell(p.stamp, global_nanoseconds());
}

constexpr u32 MAX_MARKS = 4;

struct Mark {
    u64 word;  // address of a word that takes frame + 1; 0 for none
    u64 time;  // address of a word that takes the time; 0 for none
};

struct MarkParams {
    const SlotBlock* slot;
    u32 count;
    u32 padding;
    Mark marks[MAX_MARKS];
};

extern "C" __global__ void mark(const __grid_constant__ MarkParams p) {
    wait_for_predecessors();
    release_successors();
    u32 i = threadIdx.x;
    if (i >= p.count || i >= MAX_MARKS) return;
    if (p.marks[i].time) tell(p.marks[i].time, global_nanoseconds());
    if (p.marks[i].word) tell(p.marks[i].word, p.slot->frame + 1);
}

struct UploadParams {
    const SlotBlock* slot;
    const u8* source;  // the camera's image in pinned memory, 16-byte aligned
    u8* target;        // its image in device memory, 16-byte aligned
    u64 capacity;      // bytes that both have
    u32 camera;
    u32 padding;
};

// Bytes that an image has, at most as many as there is room for; the host's PixelFormat::image_bytes.
__device__ u64 image_bytes(const Camera& camera, u64 capacity) {
    const u32 RGB8 = 1, BGR8 = 2, GRAY8 = 3, NV12 = 4;
    u64 row = camera.format == RGB8 || camera.format == BGR8 ? u64(camera.width) * 3 : camera.width;
    u64 rows = camera.format == NV12 ? u64(camera.height) + camera.height / 2 : camera.height;
    bool known = camera.format == RGB8 || camera.format == BGR8 || camera.format == GRAY8 || camera.format == NV12;
    if (!known || row == 0 || rows == 0 || camera.stride < row) return 0;
    u64 bytes = (rows - 1) * camera.stride + row;
    return bytes < capacity ? bytes : capacity;
}

// Reads across the bus just what the image has, whatever the camera's largest image is: a copy engine would need to be
// told the length when the graph is made.
extern "C" __global__ void upload(const __grid_constant__ UploadParams p) {
    wait_for_predecessors();
    release_successors();
    if (p.camera >= MAX_CAMERAS) return;
    // The host sets the padding of a camera whose image it has had copied within the device.
    if (p.slot->cameras[p.camera].padding != 0) return;
    u64 bytes = image_bytes(p.slot->cameras[p.camera], p.capacity);
    u64 vectors = bytes / 16;
    u64 stride = u64(gridDim.x) * blockDim.x;
    u64 first = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    for (u64 i = first; i < vectors; i += stride) {
        u32 a, b, c, d;
        asm volatile("ld.global.cv.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "l"(p.source + 16 * i)
                     : "memory");
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p.target + 16 * i), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
    }
    for (u64 i = vectors * 16 + first; i < bytes; i += stride) p.target[i] = reinterpret_cast<const volatile u8*>(p.source)[i];
}

struct TransferParams {
    const u8* source;       // 16-byte aligned
    u8* target;             // 16-byte aligned
    u64 bytes;
    const SlotBlock* slot;  // null for results
    u32 tenant;             // whose inputs they are
    u32 padding;
};

// Tensor inputs on their way in, results on their way out. Each thread has several loads under way, as one takes a
// microsecond and more across the bus.
extern "C" __global__ void transfer(const __grid_constant__ TransferParams p) {
    wait_for_predecessors();
    release_successors();
    if (p.slot != nullptr && p.slot->sent >> p.tenant % 32 & 1) return;
    constexpr u32 LOADS = 4;
    u64 vectors = p.bytes / 16;
    u64 stride = u64(gridDim.x) * blockDim.x;
    u64 first = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    for (u64 i = first; i < vectors; i += LOADS * stride) {
        u32 word[LOADS][4];
#pragma unroll
        for (u32 l = 0; l < LOADS; l++) {
            u64 at = i + l * stride;
            if (at < vectors)
                asm volatile("ld.global.cv.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(word[l][0]), "=r"(word[l][1]), "=r"(word[l][2]), "=r"(word[l][3])
                             : "l"(p.source + 16 * at)
                             : "memory");
        }
#pragma unroll
        for (u32 l = 0; l < LOADS; l++) {
            u64 at = i + l * stride;
            if (at < vectors)
                asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p.target + 16 * at), "r"(word[l][0]), "r"(word[l][1]),
                             "r"(word[l][2]), "r"(word[l][3])
                             : "memory");
        }
    }
    for (u64 i = vectors * 16 + first; i < p.bytes; i += stride) p.target[i] = reinterpret_cast<const volatile u8*>(p.source)[i];
}

enum FaultKind : u32 { DELAY = 0, HANG = 1, FAIL = 2 };

struct FaultParams {
    const SlotBlock* slot;
    u64 frame;        // the frame it happens in
    u64 nanoseconds;  // how long a delay lasts, a hang at most, and until a failure comes
    u64 release;      // address of a word of the host that ends a hang once it is not 0
    u32 kind;
    u32 padding;
};

extern "C" __global__ void fault(const __grid_constant__ FaultParams p) {
    wait_for_predecessors();
    if (p.slot->frame != p.frame) return;
    u64 end = global_nanoseconds() + p.nanoseconds;
    while (global_nanoseconds() < end) {
        if (p.kind == HANG) {
            u64 word;
            asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(p.release) : "memory");
            if (word != 0) return;
        }
        asm volatile("nanosleep.u32 1000;");
    }
    // No memory is ever mapped this low.
    if (p.kind == FAIL) *reinterpret_cast<volatile u32*>(16) = 1;
}

static_assert(sizeof(BeginParams) == 32 && sizeof(Mark) == 16 && sizeof(MarkParams) == 80, "mirrored in marks.rs");
static_assert(sizeof(UploadParams) == 40 && sizeof(TransferParams) == 40 && sizeof(FaultParams) == 40, "mirrored in marks.rs");
