// Blocks of a cluster read each other's shared memory.
#include "fresh.cuh"
K void __cluster_dims__(2, 1, 1) __launch_bounds__(128) neighbour_read(const float* in, float* out) {
    __shared__ float mine[128];
    int t = threadIdx.x;
    mine[t] = in[blockIdx.x * 128 + t];
#if BLOCK_ONLY
    __syncthreads();
#elif RELAXED_ARRIVE
    cl_arrive_rlx();
    cl_wait();
#elif ARRIVE_relaxed_fenced
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    cl_arrive_rlx();
    cl_wait();
#elif !NO_SYNC
    cl_arrive();
    cl_wait();
#endif
    float v = ld_cl(mapa(mine + t, cl_rank() ^ 1));
#if !LEAVES_AT_ONCE
    cl_arrive();
    cl_wait();
#endif
    out[blockIdx.x * 128 + t] = v + mine[t];
}
