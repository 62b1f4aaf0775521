// A grid barrier by atomics on generic addresses, as cooperative groups' headers have it: a sign bit flips.
#include "fresh.cuh"
D void arrive_and_wait(u32* bar, u32 expected) {
#if !NO_BARRIER
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        u32 nb = blockIdx.x == 0 ? 0x80000000u - (expected - 1) : 1;
#if !NO_FENCE
        __threadfence();
#endif
#if ARRIVE_release
        u32 old;
        asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(bar), "r"(nb) : "memory");
#else
        u32 old = atomicAdd(bar, nb);
#endif
        u32 now;
        do {
#if NO_ACQUIRE
            asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(now) : "l"(bar) : "memory");
#else
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(bar) : "memory");
#endif
        } while (((old ^ now) & 0x80000000u) == 0);
    }
    __syncthreads();
}
K void generic_atomics(float* x, float* y, u32* bar, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * 2;
    arrive_and_wait(bar, gridDim.x);
    x[i] = y[(i + blockDim.x) % n];
}
