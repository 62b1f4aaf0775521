#include "kinds.cuh"
extern "C" __global__ void __launch_bounds__(160) storer_arrives(const float4* x, float4* y, u32* done) {
  if (threadIdx.x < 128) {
    y[blockIdx.x * 128 + threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
#ifdef STORERS_WAIT_POSTER_ARRIVES
    bar_sync(2, 160);
#else
    bar_arrive(2, 160);
#endif
  } else {
#ifdef STORERS_WAIT_POSTER_ARRIVES
    bar_arrive(2, 160);
#else
    bar_sync(2, 160);
#endif
    if (threadIdx.x == 128) red_release(done, 1);
  }
}
