// What will be read below the wait is brought into L2 above it: stale lines cannot stay there.
#include "fresh.cuh"
K void l2_warm(const float* in, const float* table, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if WARM_bytes
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(in + blockIdx.x * blockDim.x), "r"(1024));
#else
    asm volatile("prefetch.global.L2 [%0];" ::"l"(in + i));
#endif
#if READ_EARLY
    float early = in[i + 1];
#else
    float early = 0;
#endif
#if !WAITS_ON_ONE_PATH
    grid_wait();
#else
    if (n > 4096) grid_wait();
#endif
    out[i] = in[i] * table[i % 64] + early;
}
