// Stream-K fix-up: helpers store partial tiles and post; the owner waits for all of them and adds the partials up.
#include "forms.cuh"

extern "C" __global__ void fix_up(const float* in, float* partials, float* out, unsigned* ready, unsigned helpers) {
    unsigned tile = blockIdx.x / (helpers + 1), helper = blockIdx.x % (helpers + 1);
    float mine = 0.0f;
#pragma unroll 1
    for (unsigned k = 0; k < 64; k++) mine += in[(blockIdx.x * 64 + k) * 128 + threadIdx.x];
    float* slot = &partials[(tile * helpers + helper) * 128 + threadIdx.x];
    if (helper < helpers) {
#if POST_BEFORE_STORES
        if (threadIdx.x == 0) post(&ready[tile], 1);
#endif
        *slot = mine;
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
#if !POST_BEFORE_STORES
        if (threadIdx.x == 0) post(&ready[tile], 1);
#endif
        return;
    }
#if PREFETCH_ABOVE_WAIT
    float early = partials[tile * helpers * 128 + threadIdx.x];
#endif
    if (threadIdx.x == 0) wait_at_least(&ready[tile], helpers);
#if !NO_BARRIER_AFTER_WAIT
    __syncthreads();
#endif
#if PREFETCH_ABOVE_WAIT
    mine += early;
    for (unsigned other = 1; other < helpers; other++) mine += partials[(tile * helpers + other) * 128 + threadIdx.x];
#else
    for (unsigned other = 0; other < helpers; other++) mine += partials[(tile * helpers + other) * 128 + threadIdx.x];
#endif
    out[tile * 128 + threadIdx.x] = mine;
}
