// A barrier of all blocks whose arrival releases nothing.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    data[INDEX] = 2 * input[INDEX];
    __syncthreads();
    if (threadIdx.x == 0) {
        RIGHT(post_release(flags, 1);)
        WRONG(post_relaxed(flags, 1);)
        spin_acquire(flags, gridDim.x);
    }
    __syncthreads();
    out[INDEX] = data[n - 1 - INDEX] + 1;
}
ENTRY second(ARGUMENTS) {}
