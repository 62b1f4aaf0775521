#include "kinds.cuh"
extern "C" __global__ void pdl_one_warp(const float4* h, float4* y) {
#ifdef ONE_THREAD_WAITS
  if (threadIdx.x < 32) grid_wait();
#else
  grid_wait();
#endif
  float4 v = h[blockIdx.x * blockDim.x + threadIdx.x];
  v.x += 1.0f;
  y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
