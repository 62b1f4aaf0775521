#include "kinds.cuh"
extern "C" __global__ void foreign_group(const float* x, float* y, u32* done) {
  __shared__ alignas(128) float tile[512];
  for (int i = threadIdx.x; i < 512; i += blockDim.x) tile[i] = x[blockIdx.x * 512 + i] + 1.0f;
  proxy_fence();
  __syncthreads();
#ifdef ANOTHER_THREAD_WAITS
  if (threadIdx.x == 0) { bulk_out(y + blockIdx.x * 512, tile, 2048); bulk_commit(); }
  __syncthreads();
  if (threadIdx.x == 32) { bulk_wait<0>(); red_release(done + blockIdx.x, 1); }
#else
  if (threadIdx.x == 32) { bulk_out(y + blockIdx.x * 512, tile, 2048); bulk_commit(); }
  __syncthreads();
  if (threadIdx.x == 32) { bulk_wait<0>(); red_release(done + blockIdx.x, 1); }
#endif
}
