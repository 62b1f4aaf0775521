// A ring of bulk loads: a warp fills, the others read; full and empty barriers by slot.
#include "fresh.cuh"
#if SLOTS_two
#define N 2
#else
#define N 4
#endif
K void __launch_bounds__(160) slot_ring(const float* in, float* out, int steps) {
    __shared__ alignas(128) float slot[N][128];
    __shared__ u64 full[N], empty[N];
    int t = threadIdx.x;
    if (t == 0)
        for (int i = 0; i < N; ++i) { mb_init(full + i, 1); mb_init(empty + i, 128); }
    mb_fence();
#if !INIT_UNORDERED
    __syncthreads();
#endif
    if (t >= 128) {
        if (t == 128)
            for (int k = 0; k < steps; ++k) {
                int s = k % N;
#if SAME_PARITY
                mb_wait(empty + s, 1);
#elif !NO_EMPTY_WAIT
                mb_wait(empty + s, (k / N & 1) ^ 1);
#endif
#if !NO_EXPECT
                mb_expect(full + s, 512);
#endif
                bulk_load(slot[s], in + (blockIdx.x * steps + k) * 128, 512, full + s);
            }
    } else {
        float sum = 0;
        for (int k = 0; k < steps; ++k) {
            int s = k % N;
#if !NO_FULL_WAIT
            mb_wait(full + s, k / N & 1);
#endif
#if FREED_EARLY
            mb_arrive(empty + s);
            sum += slot[s][t];
#else
            sum += slot[s][t];
            mb_arrive(empty + s);
#endif
        }
        out[blockIdx.x * 128 + t] = sum;
    }
}
