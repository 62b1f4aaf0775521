// Several rounds on one mbarrier: whoever waits passes each phase.
#include "fresh.cuh"
K void __launch_bounds__(128) skipped_phase(const float* in, float* out, int rounds) {
    __shared__ alignas(128) float buffer[128];
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) mb_init(&bar, 1);
    __syncthreads();
    float sum = 0;
#if PARITY_flag
    u32 parity = 0;
#endif
    for (int r = 0; r < rounds; ++r) {
        if (t == 0) {
            mb_expect(&bar, 512);
            bulk_load(buffer, in + (blockIdx.x * rounds + r) * 128, 512, &bar);
        }
#if EVERY_OTHER
        if (r & 1) mb_wait(&bar, r & 1);
#elif TESTED_ONCE
        if (!mb_try(&bar, r & 1)) __nanosleep(100);
#elif PARITY_flag
        mb_wait(&bar, parity);
        parity ^= 1;
#else
        mb_wait(&bar, r & 1);
#endif
        sum += buffer[t];
#if !REFILLED_EARLY
        __syncthreads();
#endif
    }
    out[blockIdx.x * 128 + t] = sum;
}
