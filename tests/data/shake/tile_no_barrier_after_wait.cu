// Thread 0 waits for a block whose other threads do not wait for it.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    data[INDEX] = 2 * input[INDEX];
    __syncthreads();
    if (threadIdx.x == 0) post_release(flags + blockIdx.x, 1);
}
ENTRY second(ARGUMENTS) {
    if (threadIdx.x == 0) spin_acquire(flags + blockIdx.x, 1);
    RIGHT(__syncthreads();)
    out[INDEX] = data[INDEX] + 1;
}
