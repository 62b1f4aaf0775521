// C = A B of n x n floats, row after row, in four steps.
//
//   naive         a thread per element, both operands from global memory
//   tiled 16, 32  a TILE x TILE piece of each operand in shared memory: each loaded float serves TILE threads
//   register      a thread computes 4 x 4 elements of a 64 x 64 tile: each word of shared memory serves four sums

constexpr unsigned naive_edge = 16;

extern "C" __global__ void __launch_bounds__(naive_edge* naive_edge)
matmul_naive(const float* a, const float* b, float* c, unsigned n) {
    const unsigned x = blockIdx.x * naive_edge + threadIdx.x, y = blockIdx.y * naive_edge + threadIdx.y;
    if (x >= n || y >= n) return;
    float sum = 0.0f;
    for (unsigned k = 0; k < n; ++k) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

__device__ __forceinline__ float entry(const float* m, unsigned y, unsigned x, unsigned n) {
    return y < n && x < n ? m[y * n + x] : 0.0f;
}

template <unsigned TILE>
__device__ __forceinline__ void multiply_tiled(const float* a, const float* b, float* c, unsigned n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    const unsigned tx = threadIdx.x, ty = threadIdx.y;
    const unsigned x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
    float sum = 0.0f;
    for (unsigned first = 0; first < n; first += TILE) {
        left[ty][tx] = entry(a, y, first + tx, n);
        right[ty][tx] = entry(b, first + ty, x, n);
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < TILE; ++k) sum += left[ty][k] * right[k][tx];
        __syncthreads();
    }
    if (x < n && y < n) c[y * n + x] = sum;
}

extern "C" __global__ void __launch_bounds__(16 * 16)
matmul_tiled_16(const float* a, const float* b, float* c, unsigned n) {
    multiply_tiled<16>(a, b, c, n);
}

extern "C" __global__ void __launch_bounds__(32 * 32)
matmul_tiled_32(const float* a, const float* b, float* c, unsigned n) {
    multiply_tiled<32>(a, b, c, n);
}

constexpr unsigned tile = 64, depth = 16, edge = 16, each = tile / edge;

// Threads 16 x 16. Thread (tx, ty) has the elements (ty + 16 j, tx + 16 i), so that neighbours read neighbouring words.
extern "C" __global__ void __launch_bounds__(edge* edge)
matmul_register(const float* a, const float* b, float* c, unsigned n) {
    __shared__ float left[depth][tile + 1], right[depth][tile];  // left: transposed, padded against bank conflicts
    const unsigned tx = threadIdx.x, ty = threadIdx.y, t = ty * edge + tx;
    const unsigned x0 = blockIdx.x * tile, y0 = blockIdx.y * tile;
    float sums[each][each] = {};
    for (unsigned first = 0; first < n; first += depth) {
        for (unsigned i = t; i < tile * depth; i += edge * edge) {
            left[i % depth][i / depth] = entry(a, y0 + i / depth, first + i % depth, n);
            right[i / tile][i % tile] = entry(b, first + i / tile, x0 + i % tile, n);
        }
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < depth; ++k) {
            float column[each], row[each];
#pragma unroll
            for (unsigned j = 0; j < each; ++j) column[j] = left[k][ty + edge * j];
#pragma unroll
            for (unsigned i = 0; i < each; ++i) row[i] = right[k][tx + edge * i];
#pragma unroll
            for (unsigned j = 0; j < each; ++j)
#pragma unroll
                for (unsigned i = 0; i < each; ++i) sums[j][i] += column[j] * row[i];
        }
        __syncthreads();
    }
#pragma unroll
    for (unsigned j = 0; j < each; ++j)
#pragma unroll
        for (unsigned i = 0; i < each; ++i) {
            const unsigned y = y0 + ty + edge * j, x = x0 + tx + edge * i;
            if (y < n && x < n) c[y * n + x] = sums[j][i];
        }
}
