// A tile is staged in shared memory, stored in bulk and posted.
#include "fresh.cuh"
K void __launch_bounds__(128) bulk_tile(float* out, u32* flag, const float* in, int tiles) {
    __shared__ alignas(128) float tile[128];
    int t = threadIdx.x;
    for (int k = blockIdx.x; k < tiles; k += gridDim.x) {
#if !OVERWRITTEN
        if (t == 0) bulk_read();
        __syncthreads();
#endif
        tile[t] = in[k * 128 + t] * 2;
#if !UNFENCED
        proxy();
#endif
#if MEET_split
        if (t < 32) bar_sync(1, 128); else bar_arrive(1, 128);
#else
        __syncthreads();
#endif
        if (t == 0) {
            bulk_store(out + k * 128, tile, 512);
            bulk_commit();
        }
#if OTHER_THREAD
        if (t == 32) {
#else
        if (t == 0) {
#endif
#if WAITS_TO_READ_ONLY
            bulk_read();
#else
            bulk_wait();
#endif
            red_rel(flag + k);
        }
    }
    if (t == 0) bulk_wait();
}
