// Two textbook kernels that know nothing of each other: c = a x b, then every row of c made to sum to one.
// Launch the second beside the first: its tiles wait for the tiles they read.

#include <generated.cuh>
#include <cusync/stage.cuh>

#define TILE 16

extern "C" __global__ void matmul(const __grid_constant__ cusync::StageParams<pair::matmul> sync, const float* a, const float* b, float* c, int n, int k) {
    cusync::Stage<pair::matmul> stage(sync);
    const cusync::Tile tile = stage.begin();
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int row = tile.y * TILE + threadIdx.y;
    const int column = tile.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        a_tile[threadIdx.y][threadIdx.x] = a[row * k + k0 + threadIdx.x];
        b_tile[threadIdx.y][threadIdx.x] = b[(k0 + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum * sum;
    stage.finish(tile);
}

extern "C" __global__ void normalise_rows(const __grid_constant__ cusync::StageParams<pair::normalise_rows> sync, const float* c, float* out, int n) {
    cusync::Stage<pair::normalise_rows> stage(sync);
    const cusync::Tile tile = stage.begin();
    __shared__ float partial[TILE][TILE];
    const int row = tile.y * TILE + threadIdx.y;
    float sum = 0.0f;
    for (int column = threadIdx.x; column < n; column += TILE) {
        const bool is_there = stage.wait(0, column / TILE, tile.y);
        sum += is_there ? c[row * n + column] : __int_as_float(0x7fffffff);
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < TILE; ++i) total += partial[threadIdx.y][i];
    for (int column = threadIdx.x; column < n; column += TILE) {
        out[row * n + column] = c[row * n + column] / total;
    }
    stage.finish(tile);
}
