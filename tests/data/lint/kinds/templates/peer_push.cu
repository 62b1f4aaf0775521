#include "kinds.cuh"
extern "C" __global__ void peer_push(const float4* x, float4* peer_data, u32* peer_flag) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  peer_data[i] = x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef GPU_SCOPE
    __threadfence();
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" :: "l"(peer_flag + blockIdx.x) : "memory");
#else
    __threadfence_system();
    asm volatile("red.relaxed.sys.global.add.u32 [%0], 1;" :: "l"(peer_flag + blockIdx.x) : "memory");
#endif
  }
}
