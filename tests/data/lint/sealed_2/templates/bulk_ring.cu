// A ring of bulk copies: one warp loads as slots become empty, three warps use what has arrived.
struct Ring {
    static constexpr int slots = 4, bytes = 96 * 16;
    alignas(128) float4 data[slots][96];
    alignas(8) unsigned long long full[slots], empty[slots];
};

__device__ __forceinline__ unsigned in_shared(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void init(unsigned long long* bar, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(in_shared(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void arrive(unsigned long long* bar) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(in_shared(bar)) : "memory");
}
__device__ __forceinline__ void expect(unsigned long long* bar, unsigned bytes) {
#if NOTHING_EXPECTED
    arrive(bar);
#else
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(in_shared(bar)),
                 "r"(bytes) : "memory");
#endif
}
__device__ __forceinline__ bool passed(unsigned long long* bar, unsigned parity) {
    unsigned ok;
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(ok) : "r"(in_shared(bar)), "r"(parity) : "memory");
    return ok != 0;
}
__device__ __forceinline__ void hold(unsigned long long* bar, unsigned parity) {
    while (!passed(bar, parity)) {
    }
}
__device__ __forceinline__ void load(void* to, const void* from, unsigned long long* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     in_shared(to)), "l"(from), "n"(Ring::bytes), "r"(in_shared(bar)) : "memory");
}

extern "C" __global__ void __launch_bounds__(128) bulk_ring(const float4* in, float* out, int steps) {
    __shared__ Ring ring;
    if (threadIdx.x == 0) {
        for (int s = 0; s < Ring::slots; s++) init(&ring.full[s], 1), init(&ring.empty[s], 96);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= 96) {
        if (threadIdx.x != 96) return;
        for (int step = 0; step < steps; step++) {
            int slot = step % Ring::slots, lap = step / Ring::slots;
            if (lap > 0) hold(&ring.empty[slot], (lap - 1) & 1);
            expect(&ring.full[slot], Ring::bytes);
            load(ring.data[slot], in + (blockIdx.x * steps + step) * 96, &ring.full[slot]);
        }
        return;
    }
    float sum = 0;
    for (int step = 0; step < steps; step++) {
        int slot = step % Ring::slots, lap = step / Ring::slots;
#if STUCK_PARITY
        hold(&ring.full[slot], 0);
#elif TRIED_ONCE
        if (!passed(&ring.full[slot], lap & 1)) __nanosleep(100);
#elif UNAWAITED
        asm volatile("" ::"r"(lap) : "memory");
#else
        hold(&ring.full[slot], lap & 1);
#endif
        float4 v = ring.data[slot][threadIdx.x];
        sum += v.x * v.y + v.z * v.w;
        arrive(&ring.empty[slot]);
    }
    out[blockIdx.x * 96 + threadIdx.x] = sum;
}
