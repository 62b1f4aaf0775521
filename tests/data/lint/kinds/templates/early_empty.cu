#include "kinds.cuh"
extern "C" __global__ void early_empty(const float* in, float* out, int tiles) {
  __shared__ alignas(128) float stage[2][1024];
  __shared__ u64 full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; s++) { mb_init(&full[s], 1); mb_init(&empty[s], 4); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 128) {
    for (int t = 0; t < tiles; t++) {
      int s = t & 1;
      if (t >= 2) mb_wait(&empty[s], ((t >> 1) & 1) ^ 1);
      mb_expect(&full[s], 4096);
      bulk_in(stage[s], in + t * 1024, 4096, &full[s]);
    }
  } else if (threadIdx.x < 128) {
    float sum = 0.0f;
    for (int t = 0; t < tiles; t++) {
      int s = t & 1;
      mb_wait(&full[s], (t >> 1) & 1);
#ifdef FREED_BEFORE_READ
      __syncwarp();
      if (threadIdx.x % 32 == 0) mb_arrive(&empty[s]);
#endif
      for (int k = 0; k < 8; k++) sum += stage[s][k * 128 + threadIdx.x];
#ifndef FREED_BEFORE_READ
      __syncwarp();
      if (threadIdx.x % 32 == 0) mb_arrive(&empty[s]);
#endif
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
  }
}
