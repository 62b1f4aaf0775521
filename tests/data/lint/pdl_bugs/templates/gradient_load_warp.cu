// After flash-attention pull request 2498: the load warp reads the preprocessing's sums before it waits.
#include "short.cuh"
K void __launch_bounds__(160) gradient_load_warp(const float* dpsum, const float* q, float* dq, int rows) {
    __shared__ alignas(128) float sums[128], tile[128];
    __shared__ u64 full, empty;
    int t = threadIdx.x;
    if (t == 0) { mb_init(&full, 1); mb_init(&empty, 128); }
    mb_fence();
    __syncthreads();
    if (t >= 128) {
        if (t == 128) {
#if !BUG
            grid_wait();
#endif
            for (int r = 0; r < rows; ++r) {
                mb_wait(&empty, (r & 1) ^ 1);
                mb_expect(&full, 1024);
                bulk_load(sums, dpsum + (blockIdx.x * rows + r) * 128, 512, &full);
                bulk_load(tile, q + (blockIdx.x * rows + r) * 128, 512, &full);
            }
        }
    } else {
#if BUG
        grid_wait();
#endif
        for (int r = 0; r < rows; ++r) {
            mb_wait(&full, r & 1);
            float v = tile[t] - sums[t];
            mb_arrive(&empty);
            dq[(blockIdx.x * rows + r) * 128 + t] = v;
        }
    }
}
