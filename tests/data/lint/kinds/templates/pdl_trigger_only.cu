#include "kinds.cuh"
extern "C" __global__ void pdl_trigger_only(const float* __restrict__ h, float* __restrict__ y) {
  grid_go();
#ifndef NO_WAIT
  grid_wait();
#endif
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 1.0f / (1.0f + __expf(-h[i]));
}
