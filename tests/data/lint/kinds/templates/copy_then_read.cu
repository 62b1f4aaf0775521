#include "kinds.cuh"
extern "C" __global__ void copy_then_read(const float4* in, float4* out) {
  __shared__ float4 tile[128];
  cp16(&tile[threadIdx.x], in + blockIdx.x * 128 + threadIdx.x);
  cp_commit();
  cp_wait<0>();
#ifndef NO_BARRIER
  __syncthreads();
#endif
  out[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
}
