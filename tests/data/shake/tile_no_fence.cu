// A block posts its tile without a fence behind its stores.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    data[INDEX] = 2 * input[INDEX];
    RIGHT(__threadfence();)
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(flags + blockIdx.x, 1);
}
ENTRY second(ARGUMENTS) {
    if (threadIdx.x == 0) spin_acquire(flags + blockIdx.x, 1);
    __syncthreads();
    out[INDEX] = data[INDEX] + 1;
}
