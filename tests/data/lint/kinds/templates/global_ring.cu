#include "kinds.cuh"
extern "C" __global__ void ring_consumer(const float4* slots, u32* full, u32* empty, float4* out, int items) {
  for (int i = 0; i < items; i++) {
    int slot = i & 3;
    if (threadIdx.x == 0)
      while (load_acquire(full + slot) < (u32)(i / 4 + 1)) { }
    __syncthreads();
#ifdef EARLY_FREE
    if (threadIdx.x == 0) red_release(empty + slot, 1);
#endif
    float4 v = __ldcg(slots + slot * 128 + threadIdx.x);
#ifndef EARLY_FREE
    __syncthreads();
    if (threadIdx.x == 0) red_release(empty + slot, 1);
#endif
    out[i * 128 + threadIdx.x] = v;
  }
}
extern "C" __global__ void ring_producer(float4* slots, u32* full, u32* empty, const float4* in, int items) {
  for (int i = 0; i < items; i++) {
    int slot = i & 3;
    if (threadIdx.x == 0 && i >= 4)
      while (load_acquire(empty + slot) < (u32)(i / 4)) { }
    __syncthreads();
    slots[slot * 128 + threadIdx.x] = in[i * 128 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) red_release(full + slot, 1);
  }
}
