#include "kinds.cuh"
extern "C" __global__ void __launch_bounds__(256) eight_warps(const float* x, float* y, u32* done) {
  int i = blockIdx.x * 256 + threadIdx.x;
  y[i] = x[i] * x[i];
#ifdef COUNTS_FOUR_WARPS
  if (threadIdx.x < 128) {
    bar_sync(1, 128);
    if (threadIdx.x == 0) red_release(done + blockIdx.x, 1);
  }
#else
  bar_sync(1, 256);
  if (threadIdx.x == 0) red_release(done + blockIdx.x, 1);
#endif
}
