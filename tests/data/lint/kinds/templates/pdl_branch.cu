#include "kinds.cuh"
extern "C" __global__ void pdl_branch(const float* h, const float* w, float* y, int tail) {
  float weight = w[threadIdx.x];
#ifdef TAIL_DOES_NOT_WAIT
  if ((int)blockIdx.x < tail) grid_wait();
#else
  grid_wait();
#endif
  float a = ((int)blockIdx.x < tail) ? 2.0f : 1.0f;
  y[blockIdx.x * 128 + threadIdx.x] = a * weight * h[blockIdx.x * 128 + threadIdx.x];
  grid_go();
}
