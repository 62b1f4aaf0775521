// Two textbook kernels that know nothing of each other: c = a x b, then every row of c made to sum to one.
// Launch the second when the first is done. Every block records what it did.

#include "wavesim_recorder.cuh"

#define TILE 16

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n, int k, void* recording) {
    wavesim::Recorder recorder(recording);
    recorder.begin();
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        a_tile[threadIdx.y][threadIdx.x] = a[row * k + k0 + threadIdx.x];
        b_tile[threadIdx.y][threadIdx.x] = b[(k0 + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum * sum;
    __syncthreads();
    recorder.end(0, blockIdx.x, blockIdx.y);
}

extern "C" __global__ void normalise_rows(const float* c, float* out, int n, void* recording) {
    wavesim::Recorder recorder(recording);
    recorder.begin();
    __shared__ float partial[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y;
    float sum = 0.0f;
    for (int column = threadIdx.x; column < n; column += TILE) {
        sum += c[row * n + column];
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < TILE; ++i) total += partial[threadIdx.y][i];
    for (int column = threadIdx.x; column < n; column += TILE) {
        out[row * n + column] = c[row * n + column] / total;
    }
    __syncthreads();
    recorder.end(1, 0, blockIdx.y);
}
