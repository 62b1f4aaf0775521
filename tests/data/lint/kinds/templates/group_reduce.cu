#include "kinds.cuh"
extern "C" __global__ void __launch_bounds__(256) group_reduce(const float* x, float* y) {
  __shared__ float part[8];
  int group = threadIdx.x / 128, warp = threadIdx.x / 32;
  float v = x[blockIdx.x * 256 + threadIdx.x];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) part[warp] = v;
#ifdef NARROW_COUNT
  bar_sync(1 + group, 64);
#else
  bar_sync(1 + group, 128);
#endif
  if (threadIdx.x % 128 == 0) y[blockIdx.x * 2 + group] = part[group * 4] + part[group * 4 + 1] + part[group * 4 + 2] + part[group * 4 + 3];
}
