#include "kinds.cuh"
extern "C" __global__ void __cluster_dims__(2, 1, 1) async_mail(const u32* x, u32* y) {
  __shared__ u32 box[128];
  __shared__ u64 bar;
  if (threadIdx.x == 0) {
    mb_init(&bar, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    mb_expect(&bar, 512);
  }
  cluster_sync();
  u32 peer = cluster_rank() ^ 1;
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
               :: "r"(remote(&box[threadIdx.x], peer)), "r"(x[blockIdx.x * 128 + threadIdx.x]), "r"(remote(&bar, peer)) : "memory");
#ifdef NOT_AWAITED
  __syncthreads();
#else
  mb_wait(&bar, 0);
#endif
  y[blockIdx.x * 128 + threadIdx.x] = box[threadIdx.x];
  cluster_sync();
}
