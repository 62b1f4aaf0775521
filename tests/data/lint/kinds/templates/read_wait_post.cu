#include "kinds.cuh"
extern "C" __global__ void read_wait_post(const float* x, float* y, u32* done) {
  __shared__ alignas(128) float tile[256];
  tile[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  proxy_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_out(y + blockIdx.x * 256, tile, 1024);
    bulk_commit();
#ifdef READ_ONLY
    bulk_wait_read<0>();
#else
    bulk_wait<0>();
#endif
    red_release(done, 1);
  }
}
