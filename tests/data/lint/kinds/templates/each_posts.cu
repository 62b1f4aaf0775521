#include "kinds.cuh"
extern "C" __global__ void each_posts(const float* x, float* y, u32* count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef POST_FIRST
  red_release(count + blockIdx.x, 1);
  y[i] = x[i] + 1.0f;
#else
  y[i] = x[i] + 1.0f;
  red_release(count + blockIdx.x, 1);
#endif
}
extern "C" __global__ void each_waits(const float* y, float* z, u32* count, u32 posts) {
  while (load_acquire(count + blockIdx.x) < posts) { }
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  z[i] = y[i] * 2.0f;
}
