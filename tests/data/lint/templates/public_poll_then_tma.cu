// A receiver polls the sender's tail index by ordinary loads, then fetches the tokens by TMA: with no proxy fence
// between, TMA may read what was there before.
extern "C" __global__ void receive(const float* channel, const int* tail, float* out, int expected) {
    __shared__ alignas(128) float buffer[256];
    __shared__ alignas(8) unsigned long long full;
    unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&full));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        int seen;
        do {
            asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(seen) : "l"(tail) : "memory");
        } while (seen < expected);
#if !BUG
        asm volatile("fence.proxy.async;" ::: "memory");
#endif
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(barrier) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
                     ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(buffer))), "l"(channel), "r"(barrier) : "memory");
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier) : "memory");
    out[threadIdx.x] = buffer[threadIdx.x];
}
