// The consumer polls without an acquire and fences nothing behind it.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    data[INDEX] = 2 * input[INDEX];
    __syncthreads();
    if (threadIdx.x == 0) post_release(flags + blockIdx.x, 1);
}
ENTRY second(ARGUMENTS) {
    if (threadIdx.x == 0) {
        spin_volatile(flags + blockIdx.x, 1);
        RIGHT(__threadfence();)
    }
    __syncthreads();
    out[INDEX] = data[INDEX] + 1;
}
