// Warps 0 to 3 store a tile, warp 4 posts it: they meet at a named barrier of 160 threads.
#include "fresh.cuh"
K void __launch_bounds__(160) storers_barrier(float* tile, u32* flag, const float* in) {
    int t = threadIdx.x;
#if COUNT_TOO_SMALL
    const int count = 96;
#else
    const int count = 160;
#endif
    if (t < 128) {
        tile[blockIdx.x * 128 + t] = in[blockIdx.x * 128 + t] * 2;
#if COUNT_TOO_SMALL
        if (t < 64) bar_arrive(1, count);
#elif STORERS_sync
        bar_sync(1, count);
#else
        bar_arrive(1, count);
#endif
    } else {
#if POSTER_ARRIVES
        bar_arrive(1, count);
#else
        bar_sync(1, count);
#endif
        if (t == 128) red_rel(flag + blockIdx.x);
    }
}
