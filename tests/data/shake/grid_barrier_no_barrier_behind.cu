// A barrier of all blocks behind which only thread 0 has waited.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    data[INDEX] = 2 * input[INDEX];
    __syncthreads();
    if (threadIdx.x == 0) {
        post_release(flags, 1);
        spin_acquire(flags, gridDim.x);
    }
    RIGHT(__syncthreads();)
    out[INDEX] = data[n - 1 - INDEX] + 1;
}
ENTRY second(ARGUMENTS) {}
