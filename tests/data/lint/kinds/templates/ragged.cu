extern "C" __global__ void ragged(const float* x, const int* lengths, float* y) {
  __shared__ float tile[128];
  int n = lengths[blockIdx.x * 128 + threadIdx.x];
#ifdef LENGTH_OF_EACH
  for (int k = 0; k < n; k++) {
#else
  for (int k = 0; k < lengths[blockIdx.x]; k++) {
#endif
    tile[threadIdx.x] = x[k * 128 + threadIdx.x] + n;
    __syncthreads();
    y[k * 128 + threadIdx.x] = tile[threadIdx.x ^ 64];
    __syncthreads();
  }
}
