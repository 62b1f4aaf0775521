// The consumer does not wait at all.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    data[INDEX] = 2 * input[INDEX];
    __syncthreads();
    if (threadIdx.x == 0) post_release(flags + blockIdx.x, 1);
}
ENTRY second(ARGUMENTS) {
    RIGHT(if (threadIdx.x == 0) spin_acquire(flags + blockIdx.x, 1);)
    __syncthreads();
    out[INDEX] = data[INDEX] + 1;
}
