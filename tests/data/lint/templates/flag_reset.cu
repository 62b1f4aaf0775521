// The consumer that is last to pass sets the semaphores back for the next run.
#include "forms.cuh"

extern "C" __global__ void produce_once(const float* in, float* tile, unsigned* ready) {
    tile[blockIdx.x * 256 + threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) post(ready, 1);
}

extern "C" __global__ void consume_and_reset(const float* tile, float* out, unsigned* ready, unsigned* passed,
                                             unsigned producers) {
    if (threadIdx.x == 0) wait_at_least(ready, producers);
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned i = 0; i < producers; i++) sum += tile[i * 256 + threadIdx.x];
    out[blockIdx.x * 256 + threadIdx.x] = sum;
#if EARLY_RESET
    if (threadIdx.x == 0) *ready = 0;
#elif RESET_BY_FIRST_BLOCK
    if (threadIdx.x == 0 && blockIdx.x == 0) atomicExch(ready, 0);
#else
    if (threadIdx.x == 0 && atomicAdd(passed, 1) == gridDim.x - 1) {
        *passed = 0;
#if RESET_store
        *ready = 0;
#else
        atomicExch(ready, 0);
#endif
    }
#endif
}
