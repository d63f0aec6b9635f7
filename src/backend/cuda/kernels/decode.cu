// Decoding of an anchor-free YOLOX head (Ge et al., "YOLOX: Exceeding YOLO Series in 2021", section 2.1): rows
// (x, y, w, h, object, class..) of the cells of the grids of stride 8, 16 and 32 become boxes and scores.
#include "chain.cuh"
#include "math.cuh"
#include "matrix.cuh"

constexpr u32 THREADS = 256;
constexpr u32 ANCHORS = 32;
// Values of a head row before the classes.
constexpr u32 BEFORE_CLASSES = 5;
constexpr u32 OBJECT = 4;

struct DecodeParams {
    Matrix<const u8> head;  // f32 or f16; strides count elements
    Matrix<float> boxes;
    Matrix<float> scores;
    u32 input[2];  // width and height of the network's input
    u32 first;     // anchor of the chunk
    u32 end;
    u32 tiles;
    u32 padding;
};

static_assert(sizeof(DecodeParams) == 120, "mirrored in bind/vision/boxes.rs");

// Stride and grid position of an anchor.
struct Cell {
    u32 stride;
    u32 column;
    u32 row;
};

__device__ __forceinline__ Cell cell_of(const DecodeParams& p, u32 anchor) {
    u32 stride = 8;
    for (; stride < 32; stride *= 2) {
        const u32 cells = (p.input[0] / stride) * (p.input[1] / stride);
        if (anchor < cells) break;
        anchor -= cells;
    }
    const u32 columns = p.input[0] / stride;
    return {stride, anchor % columns, anchor / columns};
}

__device__ __forceinline__ float as_float(float value) {
    return value;
}

__device__ __forceinline__ float as_float(u16 bits) {
    return half_to_float(bits);
}

template <class T>
__device__ __forceinline__ void decode(const DecodeParams& p) {
    const T* head = reinterpret_cast<const T*>(p.head.data);
    const u32 classes = p.scores.columns;
    const auto value = [&](u32 anchor, u32 i) { return as_float(head[anchor * p.head.row_stride + i * p.head.column_stride]); };
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const u32 first = p.first + tile * ANCHORS;
        const u32 anchors = min(p.end - first, ANCHORS);
        if (threadIdx.x < anchors) {
            const u32 anchor = first + threadIdx.x;
            const Cell cell = cell_of(p, anchor);
            const float stride = float(cell.stride);
            const float x = __fmul_rn(__fadd_rn(value(anchor, 0), float(cell.column)), stride);
            const float y = __fmul_rn(__fadd_rn(value(anchor, 1), float(cell.row)), stride);
            const float w = __fmul_rn(__fmul_rn(exponential(value(anchor, 2)), stride), 0.5f);
            const float h = __fmul_rn(__fmul_rn(exponential(value(anchor, 3)), stride), 0.5f);
            p.boxes.at(anchor, 0) = __fsub_rn(x, w);
            p.boxes.at(anchor, 1) = __fsub_rn(y, h);
            p.boxes.at(anchor, 2) = __fadd_rn(x, w);
            p.boxes.at(anchor, 3) = __fadd_rn(y, h);
        }
        for (u32 i = threadIdx.x; i < anchors * classes; i += THREADS) {
            const u32 anchor = first + i / classes;
            const u32 label = i % classes;
            p.scores.at(anchor, label) = __fmul_rn(value(anchor, OBJECT), value(anchor, BEFORE_CLASSES + label));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) decode_f32(const __grid_constant__ DecodeParams p) {
    wait_for_predecessors();
    release_successors();
    decode<float>(p);
}

extern "C" __global__ void __launch_bounds__(THREADS) decode_f16(const __grid_constant__ DecodeParams p) {
    wait_for_predecessors();
    release_successors();
    decode<u16>(p);
}
