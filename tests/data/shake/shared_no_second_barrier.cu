// A tile of shared memory is filled again before all have read it.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    __shared__ float tile[256];
    float sum = 0;
    for (int round = 0; round < 8; ++round) {
        tile[threadIdx.x] = round * input[INDEX];
        __syncthreads();
        sum += tile[blockDim.x - 1 - threadIdx.x];
        RIGHT(__syncthreads();)
    }
    out[INDEX] = sum;
}
ENTRY second(ARGUMENTS) {}
