// A block writes into its neighbour's shared memory and arrives at the neighbour's mbarrier.
#include "fresh.cuh"
#if RELAXED_REMOTE
#define SEM "relaxed"
#else
#define SEM "release"
#endif
#if NARROW_REMOTE
#define SCOPE "cta"
#else
#define SCOPE "cluster"
#endif
#if RELAXED_WAIT
#define WSEM "relaxed.cluster"
#elif NARROW_WAIT
#define WSEM "acquire.cta"
#else
#define WSEM "acquire.cluster"
#endif
K void __cluster_dims__(2, 1, 1) __launch_bounds__(128) neighbour_push(const float* in, float* out) {
    __shared__ float got[128];
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) { mb_init(&bar, 128); mb_fence(); }
    cl_arrive();
    cl_wait();
    u32 peer = cl_rank() ^ 1;
    st_cl(mapa(got + t, peer), in[blockIdx.x * 128 + t]);
    asm volatile("mbarrier.arrive." SEM "." SCOPE ".shared::cluster.b64 _, [%0];" ::"r"(mapa(&bar, peer)) : "memory");
    u32 ok;
    do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity." WSEM ".shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(ok) : "r"(sm(&bar)) : "memory");
    while (!ok);
    out[blockIdx.x * 128 + t] = got[t];
    cl_arrive();
    cl_wait();
}
