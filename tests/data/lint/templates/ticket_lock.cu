// A lock around a total in memory: a ticket is drawn, its turn awaited, the turn passed on.
#include "forms.cuh"

extern "C" __global__ void add_under_lock(const float* in, float* totals, unsigned* tickets, unsigned* turn) {
    __shared__ float parts[4];
    float mine = in[blockIdx.x * 128 + threadIdx.x];
    for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = parts[0] + parts[1] + parts[2] + parts[3];
        unsigned ticket = atomicAdd(tickets, 1);
#if LOAD_ABOVE_WAIT
        float before = *const_cast<volatile float*>(totals);
#endif
        wait_equal(turn, ticket);
#if !LOAD_ABOVE_WAIT
        float before = totals[0];
#endif
#if POST_BEFORE_STORES
        post(turn, 1);
#endif
        totals[0] = before + sum;
        totals[1 + ticket % 4] = sum;
#if !POST_BEFORE_STORES
        post(turn, 1);
#endif
    }
}
