#include "kinds.cuh"
extern "C" __global__ void wgmma_once(const uint4* a, const uint4* b, float* out, u64 da, u64 db) {
  __shared__ alignas(1024) uint4 sa[64];
  __shared__ alignas(1024) uint4 sb[16];
  if (threadIdx.x < 64) sa[threadIdx.x] = a[threadIdx.x];
  if (threadIdx.x < 16) sb[threadIdx.x] = b[threadIdx.x];
#ifndef NO_PROXY_FENCE
  proxy_fence();
#endif
  __syncthreads();
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(da + (smem(sa) >> 4)), "l"(db + (smem(sb) >> 4)));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = d[i];
}
