// Shared memory is read while the asynchronous copy that fills it is under way.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    __shared__ float tile[256];
    tile[threadIdx.x] = 0;
    __syncthreads();
    unsigned at = (unsigned)__cvta_generic_to_shared(tile + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(input + INDEX) : "memory");
    RIGHT(asm volatile("cp.async.wait_all;" ::: "memory");)
    __syncthreads();
    out[INDEX] = 2 * tile[blockDim.x - 1 - threadIdx.x] + 1;
}
ENTRY second(ARGUMENTS) {}
