#include "kinds.cuh"
extern "C" __global__ void other_fences(const float* x, float* y, u32* done) {
  y[blockIdx.x * 128 + threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
#ifdef FENCE_BEFORE_BARRIER_BY_ONE
  if (threadIdx.x == 32) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(done, 1u);
#else
  __syncthreads();
  if (threadIdx.x == 0) { __threadfence(); atomicAdd(done, 1u); }
#endif
}
