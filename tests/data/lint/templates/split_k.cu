// Split-K in series: the block of slice k waits until the semaphore says k, adds to the tile in memory, and passes
// the turn on. All threads poll, so that one block barrier joins their answers.
#include "forms.cuh"

extern "C" __global__ void split_k(const float* a, float* tile, unsigned* turns, unsigned length) {
    unsigned column = blockIdx.x * 128 + threadIdx.x;
    float mine = 0.0f;
#pragma unroll 1
    for (unsigned k = blockIdx.y * length; k < (blockIdx.y + 1) * length; k++) mine += a[k * gridDim.x * 128 + column];
    unsigned* turn = &turns[blockIdx.x];
    if (blockIdx.y > 0) {
#if LOAD_ABOVE_WAIT
        mine += *reinterpret_cast<volatile float*>(&tile[column]);
#endif
#if POLL_all_threads && !LOOK_ONCE
        unsigned state;
        do {
            state = look(turn);
        } while (__syncthreads_and(state != blockIdx.y));
        acquire_after_loop();
#elif POLL_all_threads
        unsigned state = look(turn);
        if (__syncthreads_and(state != blockIdx.y)) __nanosleep(1000);
        acquire_after_loop();
#else
        if (threadIdx.x == 0) wait_equal(turn, blockIdx.y);
#if !NO_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
#endif
#if !LOAD_ABOVE_WAIT
        mine += tile[column];
#endif
    }
#if POST_BEFORE_STORES
    __syncthreads();
    if (threadIdx.x == 0) post(turn, 1);
#endif
    tile[column] = mine;
#if !NO_BARRIER_BEFORE_POST && !POST_BEFORE_STORES
    __syncthreads();
#endif
#if !POST_BEFORE_STORES
    if (threadIdx.x == 0) post(turn, 1);
#endif
}
