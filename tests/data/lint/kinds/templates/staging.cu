#include "kinds.cuh"
extern "C" __global__ void staging(const float* x, float* y, int tiles) {
  __shared__ alignas(128) float tile[256];
  for (int t = 0; t < tiles; t++) {
#ifndef NO_READ_WAIT
    if (threadIdx.x == 0) bulk_wait_read<0>();
    __syncthreads();
#endif
    tile[threadIdx.x] = x[t * 256 + threadIdx.x] * 2.0f;
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) { bulk_out(y + t * 256, tile, 1024); bulk_commit(); }
  }
  if (threadIdx.x == 0) bulk_wait<0>();
}
