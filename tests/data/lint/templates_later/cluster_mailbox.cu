// Two blocks of a cluster: each round the first writes a letter into its own shared memory and copies it into the
// second's mailbox; the copy completes on the second's mbarrier, and a remote arrival says that the box is free again.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ unsigned of_rank(unsigned address, unsigned rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ __forceinline__ void await(unsigned barrier, unsigned parity) {
    unsigned done = 0;
#if !TRY_ONCE
    while (!done)
#endif
        asm volatile("{\n.reg .pred p;\n"
#if TRY_test_wait
                     "mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
#else
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
#endif
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}

#if ONE_PHASE
#define PHASE(round) 0
#else
#define PHASE(round) ((round) % 2)
#endif

extern "C" __global__ void __cluster_dims__(2) mailbox(const float* in, float* out, unsigned rounds) {
    __shared__ alignas(128) float letter[128];
    __shared__ alignas(128) float box[128];
    __shared__ alignas(8) unsigned long long arrived, emptied;
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&arrived)) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&emptied)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#pragma unroll 1
    for (unsigned round = 0; round < rounds; round++) {
        if (rank == 0) {
            if (round > 0) await(shared_address(&emptied), PHASE(round - 1));
            letter[threadIdx.x] = in[(blockIdx.x * rounds + round) * 128 + threadIdx.x];
#if !NO_PROXY_FENCE
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
            __syncthreads();
            if (threadIdx.x == 0)
                asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                             ::"r"(of_rank(shared_address(box), 1)), "r"(shared_address(letter)),
                             "r"(of_rank(shared_address(&arrived), 1)) : "memory");
        } else {
            if (threadIdx.x == 0) {
#if NO_EXPECT
                asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&arrived)) : "memory");
#else
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(shared_address(&arrived)) : "memory");
#endif
            }
#if !NO_MBARRIER_WAIT
            await(shared_address(&arrived), PHASE(round));
#endif
            out[(blockIdx.x * rounds + round) * 128 + threadIdx.x] = box[127 - threadIdx.x];
            __syncthreads();
            if (threadIdx.x == 0)
                asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                             ::"r"(of_rank(shared_address(&emptied), 0)) : "memory");
        }
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
