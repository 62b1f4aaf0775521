// st.async into the neighbour of a cluster: its mbarrier counts the bytes, round by round.
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(32) async_put(const unsigned* in, unsigned* out,
                                                                                      int rounds) {
    __shared__ unsigned inbox[2][32];
    __shared__ unsigned long long bars[2];
    unsigned rank, there_inbox, there_bar, lane = threadIdx.x;
    asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
    unsigned inbox0 = static_cast<unsigned>(__cvta_generic_to_shared(inbox));
    unsigned bars0 = static_cast<unsigned>(__cvta_generic_to_shared(bars));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there_inbox) : "r"(inbox0), "r"((rank + 1) & 3));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there_bar) : "r"(bars0), "r"((rank + 1) & 3));
    if (lane < 2) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bars0 + lane * 8) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    unsigned value = in[blockIdx.x * 32 + lane];
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
        int b = round & 1;
        if (lane == 0) {
#if FORGOTTEN_BYTES
            asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(bars0 + b * 8) : "memory");
#else
            asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], 128; }" ::"r"(bars0 + b * 8)
                         : "memory");
#endif
        }
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                         there_inbox + b * 128 + lane * 4), "r"(value), "r"(there_bar + b * 8) : "memory");
        unsigned ok = 0;
#if SAME_PHASE
        unsigned parity = 0;
#else
        unsigned parity = (round >> 1) & 1;
#endif
        do {
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(ok) : "r"(bars0 + b * 8), "r"(parity) : "memory");
#if GIVEN_UP
            ok = 1;
#endif
        } while (!ok);
        value += inbox[b][lane];
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    }
    out[blockIdx.x * 32 + lane] = value;
}
