#include "kinds.cuh"
extern "C" __global__ void warp_poll(const float* data, const u32* ready, float* out) {
  u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 row = blockIdx.x * (blockDim.x / 32) + warp;
  if (lane == 0) while (load_acquire(ready + row) == 0) { }
#ifndef NO_SYNCWARP
  __syncwarp();
#endif
  out[row * 32 + lane] = data[row * 32 + lane];
}
