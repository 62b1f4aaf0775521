// A cluster of two: each block writes into the other's shared memory and raises a flag there.
__device__ __forceinline__ unsigned remote(const void* p, unsigned rank) {
    unsigned mine = static_cast<unsigned>(__cvta_generic_to_shared(p)), there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(mine), "r"(rank));
    return there;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
    pair_of_blocks(const float* in, float* out) {
    __shared__ float inbox[64];
    __shared__ unsigned flag;
    unsigned rank;
    asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) flag = 0;
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    float v = in[blockIdx.x * 64 + threadIdx.x];
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote(&inbox[threadIdx.x], rank ^ 1)), "f"(v * v) : "memory");
#if !UNJOINED_PUT
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
#if NEVER_RAISED
#elif RELAXED_RAISE
        asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], 1;" ::"r"(remote(&flag, rank ^ 1)) : "memory");
#else
        asm volatile("st.release.cluster.shared::cluster.u32 [%0], 1;" ::"r"(remote(&flag, rank ^ 1)) : "memory");
#endif
        unsigned seen, mine = static_cast<unsigned>(__cvta_generic_to_shared(&flag));
        do {
            asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(mine) : "memory");
        } while (seen == 0);
    }
#if !UNGUARDED_GET
    __syncthreads();
#endif
    out[blockIdx.x * 64 + threadIdx.x] = v + inbox[threadIdx.x];
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
