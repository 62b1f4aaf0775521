#include "kinds.cuh"
extern "C" __global__ void __cluster_dims__(4, 1, 1) remote_wait_scope(const float* x, float* y) {
  __shared__ float parts[4];
  __shared__ u64 all_here;
  if (threadIdx.x == 0) { mb_init(&all_here, 4); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
  cluster_sync();
  if (threadIdx.x < 4) {
    float v = x[blockIdx.x];
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(remote(&parts[cluster_rank()], threadIdx.x)), "f"(v) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(remote(&all_here, threadIdx.x)) : "memory");
  }
#ifdef BLOCK_SCOPE
  mb_wait(&all_here, 0);
#else
  asm volatile(
      "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;\n@!p bra AGAIN;\n}"
      :: "r"(smem(&all_here)) : "memory");
#endif
  y[blockIdx.x * blockDim.x + threadIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
  cluster_sync();
}
