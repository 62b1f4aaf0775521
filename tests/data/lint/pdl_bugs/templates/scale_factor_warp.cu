// After cutlass pull request 3279: of the warps that load, the one for scale factors has no wait.
#include "short.cuh"
K void __launch_bounds__(192) scale_factor_warp(const float* ab, const float* sf, float* d) {
    __shared__ alignas(128) float tile[128], scale[128];
    __shared__ u64 full;
    int t = threadIdx.x;
    if (t == 0) mb_init(&full, 2);
    mb_fence();
    __syncthreads();
    if (t == 128) {
        grid_wait();
        mb_expect(&full, 512);
        bulk_load(tile, ab + blockIdx.x * 128, 512, &full);
    } else if (t == 160) {
#if !BUG
        grid_wait();
#endif
        mb_expect(&full, 512);
        bulk_load(scale, sf + blockIdx.x * 128, 512, &full);
    } else if (t < 128) {
        mb_wait(&full, 0);
        d[blockIdx.x * 128 + t] = tile[t] * scale[t];
    }
}
