#include "kinds.cuh"
extern "C" __global__ void copy_ring(const float4* in, float* out, int tiles) {
  __shared__ float4 stage[3][128];
  for (int s = 0; s < 2; s++) { cp16(&stage[s][threadIdx.x], in + s * 128 + threadIdx.x); cp_commit(); }
  float sum = 0.0f;
  for (int t = 0; t < tiles; t++) {
#ifdef ONE_GROUP_TOO_MANY
    cp_wait<2>();
#else
    cp_wait<1>();
#endif
    __syncthreads();
    sum += stage[t % 3][127 - threadIdx.x].x;
    if (t + 2 < tiles) cp16(&stage[(t + 2) % 3][threadIdx.x], in + (t + 2) * 128 + threadIdx.x);
    cp_commit();
  }
  out[blockIdx.x * 128 + threadIdx.x] = sum;
}
