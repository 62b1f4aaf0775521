#include "kinds.cuh"
extern "C" __global__ void init_race(const float* x, float* y) {
  __shared__ alignas(128) float tile[128];
  __shared__ u64 bar;
  if (threadIdx.x == 0) { mb_init(&bar, 1); proxy_fence(); mb_expect(&bar, 512); bulk_in(tile, x + blockIdx.x * 128, 512, &bar); }
#ifndef NO_BARRIER_AFTER_INIT
  __syncthreads();
#endif
  mb_wait(&bar, 0);
  y[blockIdx.x * 128 + threadIdx.x] = tile[threadIdx.x ^ 1];
}
