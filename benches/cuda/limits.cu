// The limits of a GPU, or of some of its SMs: the figures that floors of operators and networks are made of.
// Build: nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a limits.cu -ldl -o limits
// Run:   limits [SMS]     (confined to so many SMs by a green context; cuBLAS is loaded from the library path)
// Prints the best sustained rate of f16 products (cuBLAS, f32 sums, random data), how fast kernels copy, read and
// write memory and the second-level cache, and what a kernel costs in a graph's chain without and with programmatic launch.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#define CHECK(call)                                                                         \
    do {                                                                                    \
        const int error = (int)(call);                                                      \
        if (error != 0) {                                                                   \
            printf("%s:%d %s: error %d\n", __FILE__, __LINE__, #call, error);               \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// The driver's functions come from the runtime, so that no libcuda is needed to link.
template <typename F> static F driver(const char* name) {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult result;
    CHECK(cudaGetDriverEntryPointByVersion(name, &pointer, 12060, cudaEnableDefault, &result));
    return (F)pointer;
}

// Makes a context of some SMs current: all streams made from now on run there. Returns how many it has.
static unsigned confine(unsigned sms) {
    CUdevice device;
    CUdevResource all, part, rest;
    CUdevResourceDesc descriptor;
    CUgreenCtx green;
    CUcontext context;
    unsigned groups = 1;
    CHECK(driver<CUresult (*)(CUdevice*, int)>("cuDeviceGet")(&device, 0));
    CHECK(driver<CUresult (*)(CUdevice, CUdevResource*, CUdevResourceType)>("cuDeviceGetDevResource")(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(driver<CUresult (*)(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*, unsigned, unsigned)>(
        "cuDevSmResourceSplitByCount")(&part, &groups, &all, &rest, 0, sms));
    CHECK(driver<CUresult (*)(CUdevResourceDesc*, CUdevResource*, unsigned)>("cuDevResourceGenerateDesc")(&descriptor, &part, 1));
    CHECK(driver<CUresult (*)(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned)>("cuGreenCtxCreate")(
        &green, descriptor, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(driver<CUresult (*)(CUcontext*, CUgreenCtx)>("cuCtxFromGreenCtx")(&context, green));
    CHECK(driver<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context));
    return part.sm.smCount;
}

// Microseconds of rest before what shall meet the GPU at its highest clock.
const unsigned REST = 10000;

// Medians of microseconds of what `work` puts into the stream, `rest` microseconds after the run before.
template <typename F> static double time_of(cudaStream_t stream, int runs, F work, unsigned rest = 0) {
    const int warm = 3;
    cudaEvent_t start, end;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    std::vector<double> times;
    for (int run = 0; run < warm + runs; run++) {
        if (rest) usleep(rest);
        CHECK(cudaEventRecord(start, stream));
        work();
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, start, end));
        if (run >= warm) times.push_back(milliseconds * 1e3);
    }
    return median(times);
}

// The numbers of a seeded generator as halves in (-1, 1): products of zeros would draw less power and clock higher.
__global__ void fill(half* data, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x) {
        unsigned x = (unsigned)i * 2654435761u + 12345u;
        x ^= x >> 16, x *= 0x85ebca6bu, x ^= x >> 13, x *= 0xc2b2ae35u, x ^= x >> 16;
        data[i] = __float2half((float)(int)x / 2147483648.f);
    }
}

// Each thread has four vectors in flight, so that few SMs are not held up by latency.
const int IN_FLIGHT = 4;

__global__ void __launch_bounds__(512) copy(const uint4* from, uint4* to, size_t count) {
    const size_t step = gridDim.x * (size_t)blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i + (IN_FLIGHT - 1) * step < count; i += IN_FLIGHT * step) {
        uint4 piece[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) piece[k] = from[i + k * step];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) to[i + k * step] = piece[k];
    }
}

__global__ void __launch_bounds__(512) read(const uint4* from, unsigned* sum, size_t count) {
    const size_t step = gridDim.x * (size_t)blockDim.x;
    unsigned all = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i + (IN_FLIGHT - 1) * step < count; i += IN_FLIGHT * step) {
        uint4 piece[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) piece[k] = from[i + k * step];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) all += piece[k].x ^ piece[k].y ^ piece[k].z ^ piece[k].w;
    }
    if (all == 1) *sum = all;
}

__global__ void __launch_bounds__(512) write(uint4* to, size_t count) {
    const size_t step = gridDim.x * (size_t)blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += step) to[i] = make_uint4(i, 1, 2, 3);
}

// The same by the copy engine, from shared memory: pieces of as many bytes as a tile of 64 pixels of 64 channels has.
const unsigned PIECE = 8192;

__global__ void __launch_bounds__(128) write_pieces(unsigned char* to, size_t bytes) {
    __shared__ __align__(128) unsigned char piece[PIECE];
    for (unsigned i = threadIdx.x; i < PIECE; i += blockDim.x) piece[i] = (unsigned char)i;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x != 0) return;
    const unsigned from = (unsigned)__cvta_generic_to_shared(piece);
    for (size_t at = blockIdx.x * (size_t)PIECE; at < bytes; at += gridDim.x * (size_t)PIECE) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + at), "r"(from), "r"(PIECE) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

__global__ void link_of_chain(float* data, bool programmatic) {
    if (programmatic) {
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        asm volatile("griddepcontrol.wait;" ::: "memory");
    }
    data[blockIdx.x * blockDim.x + threadIdx.x] += 1.f;
}

static double chain(cudaStream_t stream, float* data, int blocks, bool programmatic) {
    const int links = 200;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < links; i++) {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = blocks, config.blockDim = 256, config.stream = stream;
        config.attrs = &attribute, config.numAttrs = programmatic ? 1 : 0;
        CHECK(cudaLaunchKernelEx(&config, link_of_chain, data, programmatic));
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    return time_of(stream, 30, [&] { CHECK(cudaGraphLaunch(exec, stream)); }) / links;
}

// The few functions of cuBLAS that are used, by their binary interface: the library need not be there to build.
struct Blas {
    void *library, *handle = nullptr;
    template <typename F> F entry(const char* name) {
        void* pointer = dlsym(library, name);
        if (!pointer) printf("cuBLAS has no %s\n", name), exit(1);
        return (F)pointer;
    }
    Blas(cudaStream_t stream, unsigned sms) {
        const char* names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
        for (const char* name : names) {
            if ((library = dlopen(name, RTLD_NOW | RTLD_GLOBAL))) break;
        }
        if (!library) printf("no cuBLAS: %s\n", dlerror()), exit(1);
        CHECK((entry<int (*)(void**)>("cublasCreate_v2"))(&handle));
        CHECK((entry<int (*)(void*, cudaStream_t)>("cublasSetStream_v2"))(handle, stream));
        CHECK((entry<int (*)(void*, int)>("cublasSetSmCountTarget"))(handle, (int)sms));
    }
    // C (m x n) = A^T B, both of depth k: the layout of a convolution, whose weights and pixels lie along K.
    void product(int m, int n, int k, const half* a, const half* b, half* c) {
        const int transposed = 1, plain = 0, real_16f = 2, compute_32f = 68, algorithm = -1;
        const float one = 1.f, zero = 0.f;
        using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*, void*, int, int, int, int);
        static Gemm gemm = entry<Gemm>("cublasGemmEx");
        CHECK(gemm(handle, transposed, plain, m, n, k, &one, a, real_16f, k, b, real_16f, k, &zero, c, real_16f, m, compute_32f, algorithm));
    }
};

int main(int argc, char** argv) {
    CHECK(cudaFree(0));
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    unsigned sms = properties.multiProcessorCount;
    if (argc > 1) sms = confine(atoi(argv[1]));
    printf("%s, %u SMs\n", properties.name, sms);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const size_t LARGE = 1ull << 30, CACHED = 8ull << 20;
    void *from, *to;
    CHECK(cudaMalloc(&from, LARGE));
    CHECK(cudaMalloc(&to, LARGE));
    fill<<<2048, 256, 0, stream>>>((half*)from, LARGE / 2);
    fill<<<2048, 256, 0, stream>>>((half*)to, LARGE / 2);
    CHECK(cudaStreamSynchronize(stream));

    for (int blocks : {1, (int)sms, 8 * (int)sms}) {
        const double plain = chain(stream, (float*)to, blocks, false), early = chain(stream, (float*)to, blocks, true);
        printf("chain of %4d blocks: %.3f us a kernel, %.3f with programmatic launch\n", blocks, plain, early);
    }
    for (size_t bytes : {LARGE, CACHED}) {
        double best_copy = 0, best_read = 0, best_write = 0, best_pieces = 0;
        for (int blocks_per_sm : {1, 2, 4}) {
            const int blocks = blocks_per_sm * sms, repeats = bytes == LARGE ? 1 : 20;
            // Keeps the best rate, in bytes a nanosecond, of a kernel that moves all bytes so many times.
            const auto keep = [&](double& best, int times, auto launch) {
                const double time = time_of(stream, 15, [&] {
                    for (int i = 0; i < repeats; i++) launch();
                });
                best = std::max(best, 1e-3 * times * bytes * repeats / time);
            };
            keep(best_copy, 2, [&] { copy<<<blocks, 512, 0, stream>>>((const uint4*)from, (uint4*)to, bytes / 16); });
            keep(best_read, 1, [&] { read<<<blocks, 512, 0, stream>>>((const uint4*)from, (unsigned*)to, bytes / 16); });
            keep(best_write, 1, [&] { write<<<blocks, 512, 0, stream>>>((uint4*)to, bytes / 16); });
            keep(best_pieces, 1, [&] { write_pieces<<<2 * blocks, 128, 0, stream>>>((unsigned char*)to, bytes); });
        }
        printf("%5zu MiB: copy %.0f bytes/ns (read and written), read %.0f, write %.0f, by the copy engine %.0f\n", bytes >> 20, best_copy,
               best_read, best_write, best_pieces);
    }
    fill<<<2048, 256, 0, stream>>>((half*)to, LARGE / 2);
    Blas blas(stream, sms);
    half* result;
    CHECK(cudaMalloc(&result, 8192ull * 8192 * sizeof(half)));
    const int shapes[][3] = {{8192, 8192, 8192}, {8192, 8192, 2048}, {4096, 4096, 4096}, {4096, 4096, 2048}};
    for (const auto& shape : shapes) {
        const int m = shape[0], n = shape[1], k = shape[2];
        const double products = (double)m * n * k;
        // A third of a second of work, so that the clock is that of sustained work.
        const int runs = std::min(400.0, std::max(10.0, 0.35e9 / (products / (2200.0 * sms))));
        const double time = time_of(stream, runs, [&] { blas.product(m, n, k, (const half*)from, (const half*)to, result); });
        // A network lasts for less than a millisecond and then rests: what a GPU does before its power limit lowers its clock.
        const double burst = time_of(stream, 30, [&] { blas.product(m, n, k, (const half*)from, (const half*)to, result); }, REST);
        printf("product %4dx%4dx%4d: sustained %.0f multiply-adds/ns and SM (%.0f TFLOP/s), after a rest %.0f (%.0f TFLOP/s)\n", m, n, k,
               products / time * 1e-3 / sms, 2e-6 * products / time, products / burst * 1e-3 / sms, 2e-6 * products / burst);
    }
    CHECK(cudaStreamSynchronize(stream));
}
