// CUDA's pipeline primitives, two buffers: the next tile is under way while this one is used.
#include <cuda_pipeline_primitives.h>

extern "C" __global__ void __launch_bounds__(128) two_tiles_copy(const int4* in, int* out, int tiles) {
    __shared__ int4 buffers[2][128];
    const int4* from = in + blockIdx.x * tiles * 128;
    __pipeline_memcpy_async(&buffers[0][threadIdx.x], from + threadIdx.x, sizeof(int4));
    __pipeline_commit();
    int acc = 0;
    for (int t = 0; t + 1 < tiles; t++) {
        __pipeline_memcpy_async(&buffers[(t + 1) & 1][threadIdx.x], from + (t + 1) * 128 + threadIdx.x, sizeof(int4));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        int4 v = buffers[t & 1][127 - threadIdx.x];
        acc += v.x + v.y + v.z + v.w;
        __syncthreads();
    }
#if UNDRAINED
    __pipeline_wait_prior(1);
#else
    __pipeline_wait_prior(0);
#endif
    __syncthreads();
    int4 v = buffers[(tiles - 1) & 1][127 - threadIdx.x];
    out[blockIdx.x * 128 + threadIdx.x] = acc + v.x + v.y + v.z + v.w;
}
