#include "kinds.cuh"
extern "C" __global__ void __launch_bounds__(160) store_by_warp(const float* x, float* y) {
  __shared__ alignas(128) float tile[128];
  if (threadIdx.x < 128) {
    tile[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x] * 3.0f;
#ifndef NO_PROXY_FENCE
    proxy_fence();
#endif
    bar_arrive(3, 160);
  } else {
    bar_sync(3, 160);
    if (threadIdx.x == 128) { bulk_out(y + blockIdx.x * 128, tile, 512); bulk_commit(); bulk_wait<0>(); }
  }
}
