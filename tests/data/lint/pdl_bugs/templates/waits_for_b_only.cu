// After flashinfer pull request 4685: the warp that loads B waits; the epilogue reads the scale before any barrier behind it.
#include "short.cuh"
K void __launch_bounds__(160) waits_for_b_only(const float* b, const float* scale, float* d) {
    __shared__ alignas(128) float tile[128];
    __shared__ u64 full;
    int t = threadIdx.x;
    if (t == 0) mb_init(&full, 1);
    mb_fence();
    __syncthreads();
    if (t >= 128) {
        if (t == 128) {
            grid_wait();
            mb_expect(&full, 512);
            bulk_load(tile, b + blockIdx.x * 128, 512, &full);
        }
    } else {
#if BUG
        float s = scale[0];
        mb_wait(&full, 0);
#else
        mb_wait(&full, 0);
        float s = scale[0];
#endif
        d[blockIdx.x * 128 + t] = tile[t] * s;
    }
}
