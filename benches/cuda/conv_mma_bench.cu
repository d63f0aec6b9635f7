// Checks and times the kernels of conv_mma.cu on convolutions of three networks; conv_peer.py times cuDNN on the same list.
// Build: nvcc -std=c++17 -O2 -fmad=false -gencode=arch=compute_90a,code=sm_90a -I../../src/backend/cuda/kernels
//        conv_mma_bench.cu -o conv_mma_bench
// Run:   conv_mma_bench SHAPES SEED [check|time]     (SMS=16 in the environment confines it to a green context)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "conv_mma.cu"

#define CHECK(call)                                                                              \
    do {                                                                                         \
        const cudaError_t error = (call);                                                        \
        if (error != cudaSuccess) {                                                              \
            printf("%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error));      \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

using KernelFunction = void (*)(const Convolution);

enum Kind { TAPS, FOLD, GATHER };

struct Variant {
    const char* name;
    KernelFunction kernel;
    u32 bm, bn, bk, threads, ring;
    Kind kind;
};

#define VARIANT(name, kind, ...) \
    {#name, name, Cut<__VA_ARGS__>::BM, Cut<__VA_ARGS__>::BN, Cut<__VA_ARGS__>::BK, Cut<__VA_ARGS__>::THREADS, Cut<__VA_ARGS__>::RING_BYTES, kind},
static const Variant VARIANTS[] = {
#include "conv_mma_variants.inc"
};

struct Shape {
    std::string name;
    u32 channels, height, width, out, kernel, stride, pad;
    u32 out_height() const { return (height + 2 * pad - kernel) / stride + 1; }
    u32 out_width() const { return (width + 2 * pad - kernel) / stride + 1; }
    u32 k() const { return kernel * kernel * channels; }
    u32 k_padded() const { return (k() + K_BLOCK - 1) / K_BLOCK * K_BLOCK; }
};

__device__ u32 scramble(u32 x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    return x;
}

__global__ void fill(u16* data, u64 count, u32 seed, float scale) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) {
        const float unit = scramble(u32(i) * 2654435761u + seed) / 4294967296.0f * 2.0f - 1.0f;
        data[i] = float_to_half(unit * scale);
    }
}

__global__ void fill_floats(float* data, u32 count, u32 seed, float scale) {
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        data[i] = (scramble(i * 2654435761u + seed) / 4294967296.0f * 2.0f - 1.0f) * scale;
    }
}

// Weights of the convolution, zero behind K.
__global__ void fill_packed(u16* data, u32 rows, u32 k, u32 k_padded, u32 seed, float scale) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < u64(rows) * k_padded; i += u64(gridDim.x) * blockDim.x) {
        const float unit = scramble(u32(i) * 2654435761u + seed) / 4294967296.0f * 2.0f - 1.0f;
        data[i] = i % k_padded < k ? float_to_half(unit * scale) : 0;
    }
}

struct Plain {
    u32 channels, height, width, out, kernel, stride, pad, out_height, out_width, k_padded, batch;
};

__global__ void reference(const u16* x, const u16* w, const float* bias, float* y, Plain s) {
    const u64 total = u64(s.batch) * s.out_height * s.out_width * s.out;
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < total; i += u64(gridDim.x) * blockDim.x) {
        const u32 n = i % s.out, column = i / s.out % s.out_width, row = i / s.out / s.out_width % s.out_height,
                  b = i / s.out / s.out_width / s.out_height;
        float sum = 0;
        for (u32 kh = 0; kh < s.kernel; ++kh) {
            for (u32 kw = 0; kw < s.kernel; ++kw) {
                const i32 ih = i32(row * s.stride + kh) - i32(s.pad), iw = i32(column * s.stride + kw) - i32(s.pad);
                if (u32(ih) >= s.height || u32(iw) >= s.width) continue;
                const u16* px = x + ((u64(b) * s.height + ih) * s.width + iw) * s.channels;
                const u16* pw = w + u64(n) * s.k_padded + (kh * s.kernel + kw) * s.channels;
                for (u32 c = 0; c < s.channels; ++c) sum = __fmaf_rn(half_to_float(px[c]), half_to_float(pw[c]), sum);
            }
        }
        y[i] = fmaxf(0.0f, sum + bias[n]);
    }
}

// out[0]: sum of squared differences, out[1]: of squared references, out[2]: values that are not finite.
__global__ void distance(const float* expected, const u16* got, u64 count, double* out) {
    double difference = 0, size = 0, bad = 0;
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) {
        const float value = half_to_float(got[i]);
        if (!(fabsf(value) < 60000.0f)) bad += 1;
        difference += double(value - expected[i]) * double(value - expected[i]);
        size += double(expected[i]) * expected[i];
    }
    atomicAdd(out, difference), atomicAdd(out + 1, size), atomicAdd(out + 2, bad);
}

__global__ void mismatches(const u16* a, const u16* b, u64 count, u32* out) {
    u32 wrong = 0;
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) wrong += a[i] != b[i];
    if (wrong) atomicAdd(out, wrong);
}

static Divisor divisor(u32 d) {
    u32 shift = 0;
    while ((1ull << shift) < d) ++shift;
    return {d, u32(((1ull << (31 + shift)) + d - 1) / d), shift};
}

struct Set {
    u16 *x, *w, *y;
    float* bias;
};

struct Chunk {
    u32 batch0, batches, row0, rows;
};

static u8* workspace;
static constexpr u64 WORKSPACE = 512ull << 20, COUNTERS = 1 << 20;

static Convolution describe(const Shape& s, const Set& set, const Variant& v, u32 splits, const Chunk& c) {
    Convolution p = {};
    p.x = u64(set.x), p.weights = u64(set.w);
    p.x_batch = s.height * s.width * s.channels, p.x_row = s.width * s.channels, p.x_pixel = s.channels;
    p.height = s.height, p.width = s.width, p.kernel_rows = s.kernel;
    p.stride_rows = p.stride_pixels = s.stride, p.dilation_rows = p.dilation_pixels = divisor(1), p.pad_rows = p.pad_pixels = s.pad;
    p.tap_row = p.x_row, p.tap_column = p.x_pixel;
    p.step_channels = v.bk % s.channels, p.step_columns = v.bk / s.channels % s.kernel, p.step_rows = v.bk / s.channels / s.kernel;
    p.channels = divisor(s.channels), p.kernel_columns = divisor(s.kernel);
    p.sample = divisor(c.rows * s.out_width()), p.row = divisor(s.out_width());
    const u32 across = (s.out + v.bn - 1) / v.bn;
    p.tiles_across = divisor(across), p.splits = divisor(splits);
    p.first_batch = c.batch0, p.first_row = c.row0;
    p.m = c.batches * c.rows * s.out_width(), p.n = s.out, p.k = s.k(), p.k_padded = s.k_padded();
    p.tiles = (p.m + v.bm - 1) / v.bm * across;
    if (splits > 1 && v.kind != FOLD) p.counters = u64(workspace), p.partials = u64(workspace + COUNTERS);
    if (u64(p.tiles) * 4 > COUNTERS || (p.partials && u64(p.tiles) * splits * v.bm * v.bn * 4 > WORKSPACE - COUNTERS)) p.tiles = 0;
    Epilogue& e = p.epilogue;
    e.output = {u64(set.y), i64(s.out_height()) * s.out_width() * s.out, i64(s.out_width()) * s.out, s.out};
    e.bias = u64(set.bias);
    e.function = EPILOGUE_RELU;
    e.flags = s.out % 8 == 0 ? EPILOGUE_WIDE_STORE : 0;
    const bool flat = c.batches == 1 || c.rows == s.out_height();
    if (flat) e.flags |= EPILOGUE_FLAT;
    p.walk = s.pad > 0 ? WALK_PADDED : flat && s.kernel == 1 && s.stride == 1 ? WALK_FLAT : WALK_INSIDE;
    p.first_pixel = (c.batch0 * s.out_height() + c.row0) * s.out_width();
    return p;
}

static u32 shared_bytes(const Shape& s, const Variant& v) { return v.ring + (v.kind == GATHER ? s.k_padded() * 8 : 0); }

static void launch(const Shape& s, const Variant& v, const Convolution& p, u32 width, cudaStream_t stream) {
    const u32 work = p.tiles * (p.partials ? p.splits.divisor : 1);
    v.kernel<<<width == 0 ? work : std::min(work, width), v.threads, shared_bytes(s, v), stream>>>(p);
    CHECK(cudaGetLastError());
}

static bool takes(const Shape& s, const Variant& v, u32 splits) {
    if ((v.kind == GATHER) != (s.channels % 8 != 0)) return false;
    if (v.kind == FOLD && splits == 1) return false;
    if (v.kind == GATHER && splits > 1) return false;
    return splits <= s.k_padded() / K_BLOCK;
}

static u64 random_state;
static u32 next_seed() { return u32((random_state = random_state * 6364136223846793005ull + 1442695040888963407ull) >> 32); }

static Set make_set(const Shape& s, u32 batch) {
    Set set;
    const u64 nx = u64(batch) * s.height * s.width * s.channels, nw = u64(s.out) * s.k_padded(),
              ny = u64(batch) * s.out_height() * s.out_width() * s.out;
    CHECK(cudaMalloc(&set.x, nx * 2)); CHECK(cudaMalloc(&set.w, nw * 2)); CHECK(cudaMalloc(&set.bias, s.out * 4 + 32));
    CHECK(cudaMalloc(&set.y, ny * 2));
    fill<<<512, 256>>>(set.x, nx, next_seed(), 1.0f);
    fill_packed<<<512, 256>>>(set.w, s.out, s.k(), s.k_padded(), next_seed(), 2.0f / sqrtf(float(s.k())));
    fill_floats<<<32, 256>>>(set.bias, s.out, next_seed(), 0.5f);
    CHECK(cudaMemset(set.y, 0xff, ny * 2));
    return set;
}

static void free_set(const Set& set) { cudaFree(set.x), cudaFree(set.w), cudaFree(set.bias), cudaFree(set.y); }

static u32 count_mismatches(const u16* a, const u16* b, u64 n) {
    static u32* device = nullptr;
    if (!device) CHECK(cudaMalloc(&device, 4));
    CHECK(cudaMemset(device, 0, 4));
    mismatches<<<512, 256>>>(a, b, n, device);
    u32 result;
    CHECK(cudaMemcpy(&result, device, 4, cudaMemcpyDeviceToHost));
    return result;
}

static const u32 SPLITS[] = {1, 2, 4, 8, 16};

static int check(const Shape& s, u32 batch) {
    const Set set = make_set(s, batch);
    const u64 ny = u64(batch) * s.out_height() * s.out_width() * s.out;
    float* expected;
    u16* first;
    double* sums;
    CHECK(cudaMalloc(&expected, ny * 4)); CHECK(cudaMalloc(&first, ny * 2)); CHECK(cudaMalloc(&sums, 24));
    const Plain plain = {s.channels, s.height, s.width, s.out, s.kernel, s.stride, s.pad, s.out_height(), s.out_width(), s.k_padded(), batch};
    reference<<<2048, 256>>>(set.x, set.w, set.bias, expected, plain);
    CHECK(cudaDeviceSynchronize());
    int failures = 0;
    double worst = 0;
    for (u32 splits : SPLITS) {
        if (splits > 1 && s.out_height() * s.out_width() > (splits > 4 ? 1000 : 4000)) continue;
        const char* have = nullptr;
        for (const Variant& v : VARIANTS) {
            if (!takes(s, v, splits)) continue;
            const Chunk whole = {0, batch, 0, s.out_height()};
            for (int way = 0; way < 4; ++way) {  // whole; width 7; row bands, width 3; samples apart, width 1
                const bool small = ny * s.k() < 50000000;
                if (way == 3 && !small) continue;
                const u32 widths[] = {0, small ? 7u : 61u, small ? 3u : 0u, 1};
                const u32 band = std::max(3u, s.out_height() / 5);
                std::vector<Chunk> chunks;
                if (way < 2) chunks = {whole};
                if (way == 2) {
                    for (u32 r = 0; r < s.out_height(); r += band) chunks.push_back({0, batch, r, std::min(band, s.out_height() - r)});
                }
                if (way == 3) {
                    for (u32 b = 0; b < batch; ++b) chunks.push_back({b, 1, 0, s.out_height()});
                }
                CHECK(cudaMemset(set.y, 0xff, ny * 2));
                bool ran = true;
                for (const Chunk& c : chunks) {
                    const Convolution p = describe(s, set, v, splits, c);
                    if (p.tiles == 0) ran = false;
                    else launch(s, v, p, widths[way], 0);
                }
                CHECK(cudaDeviceSynchronize());
                if (!ran) continue;
                if (!have) {
                    have = v.name;
                    CHECK(cudaMemcpy(first, set.y, ny * 2, cudaMemcpyDeviceToDevice));
                    CHECK(cudaMemset(sums, 0, 24));
                    distance<<<512, 256>>>(expected, set.y, ny, sums);
                    double host[3];
                    CHECK(cudaMemcpy(host, sums, 24, cudaMemcpyDeviceToHost));
                    const double error = sqrt(host[0] / host[1]);
                    worst = std::max(worst, error);
                    if (!(error < 1e-3) || host[2] != 0) {
                        printf("WRONG %s b%u %s splits %u: error %.2e, not finite %.0f\n", s.name.c_str(), batch, v.name, splits, error, host[2]);
                        ++failures;
                    }
                } else if (const u32 wrong = count_mismatches(first, set.y, ny)) {
                    printf("DIFFERS %s b%u %s splits %u way %d: %u of %llu from %s\n", s.name.c_str(), batch, v.name, splits, way, wrong, ny, have);
                    ++failures;
                }
            }
        }
    }
    printf("checked %-16s b%u: error %.2e, %d failures\n", s.name.c_str(), batch, worst, failures);
    free_set(set), cudaFree(expected), cudaFree(first), cudaFree(sums);
    return failures;
}

// The tail of an epilogue's function, for the interpreter: `second` is the function after it, or none.
static void interpret(Epilogue& e, const Shape& s, u32 function, i32 second, const u16* joined) {
    Tail& tail = e.tail;
    tail = {};
    tail.calls = second < 0 ? 1 : 2, tail.head_rounded = 1, tail.head_dtype = F16;
    TailCall& call = tail.call[0];
    call.function = function, call.first = e.first, call.second = e.second, call.dtype = F16, call.rounded = second >= 0;
    if (joined) {
        const i64 strides[4] = {i64(s.out_height()) * s.out_width() * s.out, 1, i64(s.out_width()) * s.out, s.out};
        call.b.address = u64(joined), call.b.source = FROM_MEMORY, call.b.dtype = F16;
        for (int a = 0; a < 4; ++a) call.b.strides[a] = strides[a];
    }
    if (second >= 0) tail.call[1].function = second, tail.call[1].a.source = 1, tail.call[1].dtype = F16;
    e.function = EPILOGUE_TAIL;
}

// Every function with a path of its own gives the interpreter's bits, whole and in bands of rows.
static int check_epilogues(const Shape& s, u32 batch) {
    struct Case {
        u32 path, function;
        i32 second;
        float a, b;
    };
    static const Case CASES[] = {{EPILOGUE_RELU, TAIL_RELU, -1, 0, 0},          {EPILOGUE_LEAKY_RELU, TAIL_LEAKY_RELU, -1, 0.1f, 0},
                                 {EPILOGUE_CLIP, TAIL_CLIP, -1, -0.25f, 0.75f}, {EPILOGUE_HARD_SWISH, TAIL_HARD_SWISH, -1, 0, 0},
                                 {EPILOGUE_SILU, TAIL_SILU, -1, 0, 0},          {EPILOGUE_ADD, TAIL_ADD, -1, 0, 0},
                                 {EPILOGUE_ADD_RELU, TAIL_ADD, TAIL_RELU, 0, 0}};
    const Set set = make_set(s, batch);
    const u64 ny = u64(batch) * s.out_height() * s.out_width() * s.out;
    u16 *first, *joined;
    CHECK(cudaMalloc(&first, ny * 2));
    CHECK(cudaMalloc(&joined, ny * 2));
    fill<<<512, 256>>>(joined, ny, next_seed(), 1.0f);
    int failures = 0;
    for (const Case& c : CASES) {
        bool have = false;
        for (const Variant& v : VARIANTS) {
            if (!takes(s, v, 1)) continue;
            for (int way = 0; way < 3; ++way) {  // own path; interpreted; own path in bands of rows
                CHECK(cudaMemset(set.y, 0xff, ny * 2));
                for (u32 row = 0; row < s.out_height(); row += way == 2 ? 2 : s.out_height()) {
                    Convolution p = describe(s, set, v, 1, {0, batch, row, way == 2 ? std::min(2u, s.out_height() - row) : s.out_height()});
                    Epilogue& e = p.epilogue;
                    const bool adds = c.function == TAIL_ADD;
                    e.function = c.path, e.first = c.a, e.second = c.b, e.flags |= EPILOGUE_ROUNDED;
                    if (adds) {
                        e.joined = e.output, e.joined.address = u64(joined);
                        if (s.out % 8 == 0) e.flags |= EPILOGUE_WIDE_JOINED;
                    }
                    if (way == 1) interpret(e, s, c.function, c.second, adds ? joined : nullptr);
                    launch(s, v, p, 0, 0);
                }
                CHECK(cudaDeviceSynchronize());
                if (!have) {
                    have = true;
                    CHECK(cudaMemcpy(first, set.y, ny * 2, cudaMemcpyDeviceToDevice));
                } else if (const u32 wrong = count_mismatches(first, set.y, ny)) {
                    printf("EPILOGUE %u %s %s way %d: %u of %llu differ\n", c.path, s.name.c_str(), v.name, way, wrong, ny);
                    ++failures;
                }
            }
        }
    }
    free_set(set);
    cudaFree(first);
    cudaFree(joined);
    return failures;
}

static constexpr int COPIES = 20;

static double measure(const Shape& s, const Variant& v, u32 splits, u32 batch, const std::vector<Set>& sets, cudaStream_t stream,
                      double best) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < COPIES; ++i) {
        const Convolution p = describe(s, sets[i % sets.size()], v, splits, {0, batch, 0, s.out_height()});
        if (p.tiles) launch(s, v, p, 0, stream);
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin)); CHECK(cudaEventCreate(&end));
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) {
        CHECK(cudaEventRecord(begin, stream));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (i >= 2) times.push_back(ms * 1e3 / COPIES);
        if (i == 1 && ms * 1e3 / COPIES > 2 * best) {
            times.push_back(ms * 1e3 / COPIES);
            break;
        }
    }
    cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaEventDestroy(begin), cudaEventDestroy(end);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static void time_all(const Shape& s, u32 batch, cudaStream_t stream, FILE* full) {
    const u64 bytes = 2 * (u64(batch) * s.height * s.width * s.channels + u64(s.out) * s.k_padded() + u64(batch) * s.out_height() * s.out_width() * s.out);
    const size_t count = std::min<u64>(COPIES, (160ull << 20) / bytes + 1);
    std::vector<Set> sets;
    for (size_t i = 0; i < count; ++i) sets.push_back(make_set(s, batch));
    CHECK(cudaDeviceSynchronize());
    struct Result {
        double cold, warm;
        const Variant* variant;
        u32 splits;
    };
    std::vector<Result> results;
    double best = 1e30;
    for (u32 splits : SPLITS) {
        for (const Variant& v : VARIANTS) {
            if (!takes(s, v, splits)) continue;
            if (splits > 1 && s.out_height() * s.out_width() > (splits > 4 ? 1000 : 4000)) continue;
            Result r = {measure(s, v, splits, batch, sets, stream, best), 0, &v, splits};
            best = std::min(best, r.cold);
            if (full) fprintf(full, "%s %u %s %u %.2f\n", s.name.c_str(), batch, v.name, splits, r.cold);
            results.push_back(r);
        }
    }
    std::sort(results.begin(), results.end(), [](const Result& a, const Result& b) { return a.cold < b.cold; });
    results[0].warm = measure(s, *results[0].variant, results[0].splits, batch, {sets[0]}, stream, 1e30);
    const double flops = 2.0 * batch * s.out_height() * s.out_width() * s.out * s.k();
    printf("%-16s b%u %7.2f us cold %7.2f warm %6.1f TF |", s.name.c_str(), batch, results[0].cold, results[0].warm, flops / results[0].cold * 1e-6);
    for (size_t i = 0; i < results.size() && i < 4; ++i) printf(" %s/%u %.2f", results[i].variant->name + 9, results[i].splits, results[i].cold);
    double unsplit = 1e30;
    const char* name = "";
    for (const Result& r : results) {
        if (r.splits == 1 && r.cold < unsplit) unsplit = r.cold, name = r.variant->name + 9;
    }
    printf(" | unsplit %s %.2f\n", name, unsplit);
    fflush(stdout);
    for (const Set& set : sets) free_set(set);
}

static void confine(int multiprocessors) {
    using namespace std;
    CUdevice device;
    CUdevResource all, part, rest;
    CUdevResourceDesc descriptor;
    CUgreenCtx green;
    CUcontext context;
    auto entry = [](const char* name) {
        void* pointer = nullptr;
        cudaDriverEntryPointQueryResult result;
        CHECK(cudaGetDriverEntryPointByVersion(name, &pointer, 12060, cudaEnableDefault, &result));
        return pointer;
    };
    auto initialize = (CUresult(*)(unsigned))entry("cuInit");
    auto get = (CUresult(*)(CUdevice*, int))entry("cuDeviceGet");
    auto resource = (CUresult(*)(CUdevice, CUdevResource*, CUdevResourceType))entry("cuDeviceGetDevResource");
    auto split = (CUresult(*)(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*, unsigned, unsigned))entry("cuDevSmResourceSplitByCount");
    auto generate = (CUresult(*)(CUdevResourceDesc*, CUdevResource*, unsigned))entry("cuDevResourceGenerateDesc");
    auto create = (CUresult(*)(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned))entry("cuGreenCtxCreate");
    auto from = (CUresult(*)(CUcontext*, CUgreenCtx))entry("cuCtxFromGreenCtx");
    auto current = (CUresult(*)(CUcontext))entry("cuCtxSetCurrent");
    unsigned groups = 1;
    int codes[] = {(int)initialize(0), (int)get(&device, 0), (int)resource(device, &all, CU_DEV_RESOURCE_TYPE_SM),
                   (int)split(&part, &groups, &all, &rest, 0, multiprocessors), (int)generate(&descriptor, &part, 1),
                   (int)create(&green, descriptor, device, CU_GREEN_CTX_DEFAULT_STREAM), (int)from(&context, green), (int)current(context)};
    for (int code : codes) {
        if (code) printf("green context: error %d\n", code), exit(1);
    }
    printf("confined to %u multiprocessors\n", part.sm.smCount);
}

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    random_state = strtoull(argv[2], nullptr, 10);
    if (const char* sms = getenv("SMS")) confine(atoi(sms));
    std::vector<Shape> shapes;
    std::ifstream file(argv[1]);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        Shape s;
        if (line[0] != '#' && words >> s.name >> s.channels >> s.height >> s.width >> s.out >> s.kernel >> s.stride >> s.pad) shapes.push_back(s);
    }
    CHECK(cudaMalloc(&workspace, WORKSPACE));
    CHECK(cudaMemset(workspace, 0, WORKSPACE));
    for (const Variant& v : VARIANTS) {
        CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, v.ring + (v.kind == GATHER ? 16384 : 0)));
    }
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int failures = 0;
    if (strcmp(argv[3], "one") == 0 && argc == 8) {  // for a profiler: SHAPE VARIANT BATCH SPLITS
        for (const Shape& s : shapes) {
            for (const Variant& v : VARIANTS) {
                if (s.name != argv[4] || strcmp(v.name, argv[5]) != 0) continue;
                const u32 batch = atoi(argv[6]);
                const Set set = make_set(s, batch);
                for (int i = 0; i < 3; ++i) launch(s, v, describe(s, set, v, atoi(argv[7]), {0, batch, 0, s.out_height()}), 0, 0);
                CHECK(cudaDeviceSynchronize());
            }
        }
    } else if (strcmp(argv[3], "check") == 0) {
        for (const Shape& s : shapes) {
            failures += check(s, s.height > 100 ? 1 : 3);
            if (s.height < 40) failures += check_epilogues(s, 2);
        }
        printf("%d failures\n", failures);
    } else {
        const char* out = getenv("FULL");
        FILE* full = out ? fopen(out, "w") : nullptr;
        for (u32 batch : {1u, 8u}) {
            for (const Shape& s : shapes) time_all(s, batch, stream, full);
        }
        if (full) fclose(full);
    }
    return failures != 0;
}
