#include "kinds.cuh"
__device__ u32 tickets;
extern "C" __global__ void last_one(const float* x, float* partial, float* out) {
  __shared__ bool is_last;
  float v = x[blockIdx.x * 32 + threadIdx.x];
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = v;
#ifndef NO_FENCE
    __threadfence();
#endif
    is_last = atomicAdd(&tickets, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last) {
    __threadfence();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += 32) sum += __ldcg(partial + i);
    for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);
    if (threadIdx.x == 0) { out[0] = sum; tickets = 0; }
  }
}
