// After quack issue 206: load and scheduler warps wait; MMA and epilogue warps read the group bounds before any wait.
#include "short.cuh"
K void __launch_bounds__(192) mma_warps_decode(const int* bounds, const float* a, float* d, int groups) {
    __shared__ alignas(128) float tile[128];
    __shared__ u64 full, empty;
    int t = threadIdx.x;
    if (t == 0) { mb_init(&full, 1); mb_init(&empty, 128); }
    mb_fence();
    __syncthreads();
    if (t >= 128) {
        if (t == 128) {
            grid_wait();
            u32 phase = 1;
            for (int g = 0; g < groups; ++g)
                for (int m = bounds[g] + blockIdx.x; m < bounds[g + 1]; m += gridDim.x, phase ^= 1) {
                    mb_wait(&empty, phase);
                    mb_expect(&full, 512);
                    bulk_load(tile, a + m * 128, 512, &full);
                }
        }
    } else {
#if !BUG
        grid_wait();
#endif
        u32 phase = 0;
        for (int g = 0; g < groups; ++g)
            for (int m = bounds[g] + blockIdx.x; m < bounds[g + 1]; m += gridDim.x, phase ^= 1) {
                mb_wait(&full, phase);
                float v = tile[t];
                mb_arrive(&empty);
                d[m * 128 + t] = v * 2;
            }
    }
}
