#include "kinds.cuh"
extern "C" __global__ void multimem_signal(const float4* x, float4* y, u32* signal) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef RELAXED
    asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" :: "l"(signal) : "memory");
#else
    asm volatile("multimem.red.release.sys.global.add.u32 [%0], 1;" :: "l"(signal) : "memory");
#endif
  }
}
