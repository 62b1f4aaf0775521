#include "kinds.cuh"
extern "C" __global__ void narrow_fence(const float* x, float* y, volatile u32* flags) {
  y[blockIdx.x * 128 + threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x] + 1.0f;
#ifdef BLOCK_FENCE
  __threadfence_block();
#else
  __threadfence();
#endif
  __syncthreads();
  if (threadIdx.x == 0) flags[blockIdx.x] = 1;
}
extern "C" __global__ void narrow_fence_reader(const float* y, float* z, volatile u32* flags) {
  if (threadIdx.x == 0) {
    while (flags[blockIdx.x] == 0) { }
    __threadfence();
  }
  __syncthreads();
  z[blockIdx.x * 128 + threadIdx.x] = y[blockIdx.x * 128 + threadIdx.x];
}
