// The last block adds up what the others stored, and these took their tickets with no fence.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        data[blockIdx.x] = input[INDEX];
        RIGHT(__threadfence();)
        is_last = atomicAdd(flags, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (is_last) {
        float sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += ((volatile float *)data)[i];
        data[gridDim.x + threadIdx.x] = sum;
    }
}
ENTRY second(ARGUMENTS) { out[INDEX] = data[gridDim.x + threadIdx.x]; }
