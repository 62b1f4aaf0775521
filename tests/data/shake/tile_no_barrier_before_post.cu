// Thread 0 posts for a block whose other threads may not have stored yet.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    data[INDEX] = 2 * input[INDEX];
    RIGHT(__syncthreads();)
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(flags + blockIdx.x, 1);
    }
}
ENTRY second(ARGUMENTS) {
    if (threadIdx.x == 0) spin_acquire(flags + blockIdx.x, 1);
    __syncthreads();
    out[INDEX] = data[INDEX] + 1;
}
