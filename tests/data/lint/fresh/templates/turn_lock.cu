// A lock by compare-and-swap around a sum of two words.
#include "fresh.cuh"
K void turn_lock(u32* lock, float* total, const float* in, int n) {
    float v = 0;
    for (int i = threadIdx.x; i < n; i += 32) v += in[blockIdx.x * n + i];
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x == 0) {
#if TAKE_exchange
        while (atomicExch(lock, 1u) != 0) {}
#else
        while (atomicCAS(lock, 0u, 1u) != 0) __nanosleep(50);
#endif
#if !NO_FENCE_AFTER_TAKING
        __threadfence();
#endif
        total[0] += v;
        total[1] = fmaxf(total[1], v);
#if !GIVEN_EARLY
        total[2] += 1;
#endif
#if GIVE_release
        asm volatile("st.release.gpu.global.u32 [%0], 0;" ::"l"(lock) : "memory");
#else
#if !NO_FENCE_BEFORE_GIVING
        __threadfence();
#endif
        atomicExch(lock, 0u);
#endif
#if GIVEN_EARLY
        total[2] += 1;
#endif
    }
}
