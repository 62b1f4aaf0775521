// One warp polls for the block, and lets the others go by a named barrier.
#include "fresh.cuh"
K void __launch_bounds__(288) waiter_warp(const float* tile, u32* flag, float* out) {
    int t = threadIdx.x;
    if (t >= 256) {
        if (t == 256)
            while (acq(flag + blockIdx.x) == 0) {}
        __syncwarp();
#if WAITER_syncs
        bar_sync(2, 288);
#else
        bar_arrive(2, 288);
#endif
    } else {
#if READERS_ONLY_ARRIVE
        bar_arrive(2, 288);
#elif OTHER_BARRIER
        bar_sync(3, 256);
#else
        bar_sync(2, 288);
#endif
        out[blockIdx.x * 256 + t] = tile[blockIdx.x * 256 + t];
    }
}
