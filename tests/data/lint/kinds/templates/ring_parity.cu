#include "kinds.cuh"
extern "C" __global__ void ring_parity(const float* in, float* out, int tiles) {
  __shared__ alignas(128) float stage[4][256];
  __shared__ u64 full[4];
  if (threadIdx.x == 0) { for (int s = 0; s < 4; s++) mb_init(&full[s], 1); proxy_fence(); }
  __syncthreads();
  if (threadIdx.x == 0)
    for (int s = 0; s < 3 && s < tiles; s++) { mb_expect(&full[s], 1024); bulk_in(stage[s], in + s * 256, 1024, &full[s]); }
  float sum = 0.0f;
  for (int t = 0; t < tiles; t++) {
#ifdef PARITY_PER_ITEM
    mb_wait(&full[t & 3], t & 1);
#else
    mb_wait(&full[t & 3], (t >> 2) & 1);
#endif
    sum += stage[t & 3][threadIdx.x];
    __syncthreads();
    int ahead = t + 3;
    if (threadIdx.x == 0 && ahead < tiles) {
      mb_expect(&full[ahead & 3], 1024);
      bulk_in(stage[ahead & 3], in + ahead * 256, 1024, &full[ahead & 3]);
    }
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
