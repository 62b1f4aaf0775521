#include "kinds.cuh"
extern "C" __global__ void two_loads(const float* a, const float* b, float* y) {
  __shared__ alignas(128) float ta[128];
  __shared__ alignas(128) float tb[128];
  __shared__ u64 bar;
  if (threadIdx.x == 0) { mb_init(&bar, 1); proxy_fence(); }
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef ARRIVES_WITHOUT_BYTES
    mb_arrive(&bar);
#else
    mb_expect(&bar, 1024);
#endif
    bulk_in(ta, a + blockIdx.x * 128, 512, &bar);
    bulk_in(tb, b + blockIdx.x * 128, 512, &bar);
  }
  mb_wait(&bar, 0);
  y[blockIdx.x * 128 + threadIdx.x] = ta[threadIdx.x] + tb[threadIdx.x];
}
