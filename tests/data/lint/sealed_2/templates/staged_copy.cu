// Three stages of cp.async, written by hand: commit one, wait until one may remain, join, use.
__device__ __forceinline__ void copy16(void* to, const void* from) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
#if !NO_COMMIT
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#else
#define COMMIT() (void)0
#endif
#define WAIT_FOR(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

extern "C" __global__ void __launch_bounds__(64) staged_copy(const float4* in, float* out, int steps) {
    __shared__ float4 ring[3][64];
    const float4* mine = in + blockIdx.x * steps * 64 + threadIdx.x;
    copy16(&ring[0][threadIdx.x], mine);
    COMMIT();
    copy16(&ring[1][threadIdx.x], mine + 64);
    COMMIT();
    float sum = 0;
    for (int step = 0; step < steps; step++) {
#if WAIT_all
        asm volatile("cp.async.wait_all;" ::: "memory");
#elif ONE_TOO_MANY
        WAIT_FOR(2);
#elif NO_WAIT_AT_ALL
#else
        WAIT_FOR(1);
#endif
#if !NO_JOIN
        __syncthreads();
#endif
        float4 other = ring[step % 3][(threadIdx.x + 17) & 63];
        sum += other.x + other.y * other.z - other.w;
        if (step + 2 < steps) copy16(&ring[(step + 2) % 3][threadIdx.x], mine + (step + 2) * 64);
        COMMIT();
#if NO_JOIN
        __syncthreads();
#endif
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
