#include "kinds.cuh"
extern "C" __global__ void reset_early(const float* x, float* half, float* y, u32* counter, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  half[i] = x[i] * 0.5f;
  __syncthreads();
  if (threadIdx.x == 0) {
    red_release(counter, 1);
#ifdef RESET_BY_EACH
    while (load_acquire(counter) < gridDim.x) { }
    atomicExch(counter, 0u);
#else
    while (load_acquire(counter) < gridDim.x) { }
#endif
  }
  __syncthreads();
  y[i] = half[n - 1 - i];
}
