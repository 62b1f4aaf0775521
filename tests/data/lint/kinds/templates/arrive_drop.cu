#include <cuda/barrier>
extern "C" __global__ void arrive_drop(const float* x, float* y) {
  __shared__ float tile[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  tile[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  auto token = bar.arrive();
#ifdef NOT_AWAITED
  (void)token;
#else
  bar.wait(std::move(token));
#endif
  y[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
}
