// A row has four tiles, and the consumer waits for two posts only.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    data[INDEX] = 2 * input[INDEX];
    __syncthreads();
    if (threadIdx.x == 0) post_release(flags + blockIdx.x / 4, 1);
}
ENTRY second(ARGUMENTS) {
    if (threadIdx.x == 0) spin_acquire(flags + blockIdx.x / 4, RIGHT(4) WRONG(2));
    __syncthreads();
    int row = blockIdx.x / 4 * 4 * blockDim.x, i = row + (INDEX - row) * 5 % (4 * blockDim.x);
    out[INDEX] = data[i] + 1;
}
