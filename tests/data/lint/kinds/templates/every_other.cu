#include "kinds.cuh"
extern "C" __global__ void every_other(const float* in, float* out, int tiles) {
  __shared__ alignas(128) float buffer[256];
  __shared__ u64 bar;
  if (threadIdx.x == 0) { mb_init(&bar, 1); proxy_fence(); }
  __syncthreads();
  float sum = 0.0f;
  for (int t = 0; t < tiles; t++) {
    if (threadIdx.x == 0) { mb_expect(&bar, 1024); bulk_in(buffer, in + t * 256, 1024, &bar); }
#ifdef PARITY_NEVER_FLIPS
    mb_wait(&bar, 0);
#else
    mb_wait(&bar, t & 1);
#endif
    sum += buffer[threadIdx.x];
    __syncthreads();
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
