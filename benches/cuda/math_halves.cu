// Whether the functions of math_halves.cuh and elementwise_halves.cuh end as the same halves as those of math.cuh, for every f32.
//
//     nvcc -O3 -fmad=false -arch=sm_90a -I src/backend/cuda/kernels benches/cuda/math_halves.cu -o math_halves && ./math_halves
#include <cstdio>

#include "elementwise_halves.cuh"

enum Function { SILU, GELU, GELU_TANH, SIGMOID, TANGENT, FUNCTIONS };

__device__ bool is_nan(u16 half) { return (half & 0x7fffu) > 0x7c00u; }

__global__ void compare(unsigned long long* differ, u32* example) {
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < 1ull << 32; i += gridDim.x * blockDim.x) {
        const float x = __uint_as_float(static_cast<u32>(i));
        const float exact[FUNCTIONS] = {__fmul_rn(x, sigmoid(x)), gelu(x), gelu_tanh(x), sigmoid(x), hyperbolic_tangent(x)};
        const float brief[FUNCTIONS] = {silu_of_half(x), gelu_of_half(x), gelu_tanh_of_half(x), sigmoid_of_half(x), tangent_of_half(x)};
        for (u32 f = 0; f < FUNCTIONS; ++f) {
            const u16 a = float_to_half(exact[f]), b = float_to_half(brief[f]);
            if (a == b || (is_nan(a) && is_nan(b))) continue;
            atomicAdd(differ + f, 1ull);
            example[f] = static_cast<u32>(i);
        }
    }
}

int main() {
    unsigned long long* differ;
    u32* example;
    cudaMallocManaged(&differ, FUNCTIONS * sizeof *differ);
    cudaMallocManaged(&example, FUNCTIONS * sizeof *example);
    compare<<<1024, 256>>>(differ, example);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) return std::printf("%s\n", cudaGetErrorString(error)), 2;
    const char* const names[FUNCTIONS] = {"silu", "gelu", "gelu_tanh", "sigmoid", "tanh"};
    unsigned long long all = 0;
    for (int f = 0; f < FUNCTIONS; ++f) {
        std::printf("%s: %llu of 2^32 differ", names[f], differ[f]);
        if (differ[f]) std::printf(", for instance at %08x", example[f]);
        std::printf("\n"), all += differ[f];
    }
    return all != 0;
}
