// A persistent kernel that fetches tiles by an atomic counter and waits for each tile's inputs by row semaphore.
#include "forms.cuh"

extern "C" __global__ void first_tiles(const float* in, float* rows, unsigned* row_ready, unsigned* next, unsigned tiles) {
    __shared__ unsigned fetched;
    for (;;) {
        if (threadIdx.x == 0) fetched = atomicAdd(next, 1);
        __syncthreads();
        unsigned tile = fetched;
        __syncthreads();
        if (tile >= tiles) return;
        rows[tile * 128 + threadIdx.x] = in[tile * 128 + threadIdx.x] * 2.0f;
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
        if (threadIdx.x == 0) post(&row_ready[tile / 4], 1);
    }
}

extern "C" __global__ void second_tiles(const float* rows, float* out, unsigned* row_ready, unsigned* next, unsigned tiles) {
    __shared__ unsigned fetched;
    for (;;) {
        if (threadIdx.x == 0) fetched = atomicAdd(next, 1);
        __syncthreads();
        unsigned tile = fetched;
#if WAITER_all
        if (tile >= tiles) return;
        wait_at_least(&row_ready[tile], 4);
        __syncthreads();
#else
        if (tile >= tiles) return;
        if (threadIdx.x == 0) wait_at_least(&row_ready[tile], 4);
#if !NO_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
#endif
        float sum = 0.0f;
        for (unsigned column = 0; column < 4; column++) sum += rows[(tile * 4 + column) * 128 + 127 - threadIdx.x];
        out[tile * 128 + threadIdx.x] = sum;
#if NO_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
    }
}
