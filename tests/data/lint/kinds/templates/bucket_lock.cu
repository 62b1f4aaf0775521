#include "kinds.cuh"
extern "C" __global__ void bucket_lock(float2* buckets, u32* locks, const float2* in, const int* where) {
  if (threadIdx.x != 0) return;
  int b = where[blockIdx.x];
  float2 v = in[blockIdx.x];
  while (atomicCAS(locks + b, 0u, 1u) != 0u) __nanosleep(64);
  __threadfence();
  volatile float2* bucket = buckets + b;
  bucket->x = bucket->x + v.x;
  bucket->y = fmaxf(bucket->y, v.y);
#ifndef UNLOCK_WITHOUT_FENCE
  __threadfence();
#endif
  atomicExch(locks + b, 0u);
}
