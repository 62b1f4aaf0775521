// Two sweeps of a persistent grid with a grid barrier between; each phase waits for the next multiple.
#include "fresh.cuh"
D void all_blocks(u32* bar, u32 goal) {
    __syncthreads();
    if (threadIdx.x == 0) {
#if RELAXED_ARRIVAL
        red_rlx(bar);
#else
        red_rel(bar);
#endif
#if RELAXED_POLL
        while (rlx(bar) < goal) {}
#else
        while (acq(bar) < goal) {}
#endif
    }
#if !OPEN_END
    __syncthreads();
#endif
}
K void two_phases(float* a, float* b, u32* bar, int n, int sweeps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int s = 0; s < sweeps; ++s) {
#if SWEEP_flip
        float *from = s & 1 ? b : a, *to = s & 1 ? a : b;
#else
        float *from = a, *to = a;
        float keep = from[(i + 1) % n];
        all_blocks(bar, (2 * s + 1) * gridDim.x);
        to[i] = keep;
        all_blocks(bar, (2 * s + 2) * gridDim.x);
        continue;
#endif
        to[i] = 0.5f * (from[i] + from[(i + 1) % n]);
        all_blocks(bar, (s + 1) * gridDim.x);
    }
}
