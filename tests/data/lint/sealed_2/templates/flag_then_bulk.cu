// The consumer waits for rows of another kernel, and has them loaded by the bulk unit.
__device__ __forceinline__ unsigned smem(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void rows_out(const float* in, float* rows, unsigned* epoch, unsigned now) {
    rows[blockIdx.x * 256 + threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x] + 1.0f;
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(epoch + blockIdx.x), "r"(now) : "memory");
}

extern "C" __global__ void flag_then_bulk(const float* rows, float* out, unsigned* epoch, unsigned now) {
    __shared__ alignas(128) float tile[256];
    __shared__ unsigned long long bar;
    const float* from = rows + blockIdx.x * 256;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&bar)) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#if LOAD_FIRST
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(smem(&bar)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(
                         smem(tile)), "l"(from), "r"(smem(&bar)) : "memory");
#endif
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(epoch + blockIdx.x) : "memory");
        } while (seen != now);
#if !SAME_PROXY
        asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
#if !LOAD_FIRST
#if ARRIVE_ONLY
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(&bar)) : "memory");
#else
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(smem(&bar)) : "memory");
#endif
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(
                         smem(tile)), "l"(from), "r"(smem(&bar)) : "memory");
#endif
    }
    __syncthreads();
    unsigned done = 0;
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(smem(&bar)) : "memory");
    }
    out[blockIdx.x * 256 + threadIdx.x] = tile[threadIdx.x] * 2.0f;
}
