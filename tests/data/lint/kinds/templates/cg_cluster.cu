#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(4, 1, 1) cg_cluster(const float* x, float* y) {
  __shared__ float part;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) part = x[blockIdx.x];
#ifdef BLOCK_BARRIER
  __syncthreads();
#else
  cluster.sync();
#endif
  float sum = 0.0f;
  if (threadIdx.x < 4) sum = *cluster.map_shared_rank(&part, threadIdx.x);
  for (int o = 2; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
  cluster.sync();
}
