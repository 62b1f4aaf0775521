// Two warps store a tile and meet at a barrier of their own; one posts. The other two warps wait, and meet at theirs.
#include "forms.cuh"

#if BARRIER_bar
#define MEET(number) asm volatile("bar.sync " TEXT(number) ", 64;" ::: "memory")
#else
#define MEET(number) asm volatile("barrier.sync " TEXT(number) ", 64;" ::: "memory")
#endif
#define MEET_TOO_FEW(number) asm volatile("bar.sync " TEXT(number) ", 32;" ::: "memory")

extern "C" __global__ void __launch_bounds__(128) relay(const float* in, float* tiles, const float* others, float* out,
                                                        unsigned* ready, unsigned* theirs) {
    unsigned lane = threadIdx.x % 64;
    if (threadIdx.x < 64) {
        tiles[blockIdx.x * 64 + lane] = in[blockIdx.x * 64 + lane] * 2.0f;
#if TOO_FEW_THREADS
        MEET_TOO_FEW(1);
#elif !NO_BARRIER_BEFORE_POST
        MEET(1);
#endif
        if (lane == 0) post(&ready[blockIdx.x], 1);
    } else {
        if (lane == 0) wait_at_least(&theirs[blockIdx.x], 1);
#if DIVERGENT_BARRIER
        if (lane < 32) __syncthreads();
#elif !NO_BARRIER_AFTER_WAIT
        MEET(2);
#endif
        out[blockIdx.x * 64 + lane] = others[blockIdx.x * 64 + 63 - lane];
    }
}
