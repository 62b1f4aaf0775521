#include "kinds.cuh"
extern "C" __global__ void __cluster_dims__(2, 1, 1) early_leave(const float* x, float* y) {
  __shared__ float mine[128];
  mine[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
  cluster_sync();
  float other = remote_float(remote(&mine[threadIdx.x], cluster_rank() ^ 1));
  y[blockIdx.x * 128 + threadIdx.x] = other + mine[threadIdx.x];
#ifndef LEAVES_EARLY
  cluster_sync();
#endif
}
