#include "kinds.cuh"
extern "C" __global__ void __cluster_dims__(2, 1, 1) remote_token(const float* x, float* y) {
  __shared__ float inbox[128];
  __shared__ u64 arrived;
  if (threadIdx.x == 0) { mb_init(&arrived, 128); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
  cluster_sync();
  u32 peer = cluster_rank() ^ 1;
  float v = x[blockIdx.x * 128 + threadIdx.x];
  asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(remote(&inbox[threadIdx.x], peer)), "f"(v) : "memory");
#ifdef RELAXED_REMOTE_ARRIVE
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" :: "r"(remote(&arrived, peer)) : "memory");
#else
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(remote(&arrived, peer)) : "memory");
#endif
  asm volatile(
      "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;\n@!p bra AGAIN;\n}"
      :: "r"(smem(&arrived)) : "memory");
  y[blockIdx.x * 128 + threadIdx.x] = inbox[threadIdx.x];
  cluster_sync();
}
