// A reduction of which the block that finishes last adds up the partial sums: a ticket says who that is.
#include "forms.cuh"

extern "C" __global__ void sum(const float* in, float* partials, float* out, unsigned* tickets, unsigned n) {
    __shared__ float warps[8];
    __shared__ bool is_last;
    float mine = 0.0f;
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) mine += in[i];
    for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int warp = 0; warp < 8; warp++) total += warps[warp];
#if POST_BEFORE_STORES
        is_last = atomicAdd(tickets, 1) == gridDim.x - 1;
        partials[blockIdx.x] = total;
        __threadfence();
#elif TICKET_acq_rel
        partials[blockIdx.x] = total;
        unsigned before;
#if NO_RELEASE
        asm volatile("atom.add.acquire.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(tickets) : "memory");
#elif NO_ACQUIRE
        asm volatile("atom.add.release.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(tickets) : "memory");
#elif NARROW_POST
        asm volatile("atom.add.acq_rel.cta.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(tickets) : "memory");
#else
        asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(tickets) : "memory");
#endif
        is_last = before == gridDim.x - 1;
#else
        partials[blockIdx.x] = total;
#if !NO_RELEASE && !FENCE_AFTER_POST
        POST_FENCE;
#endif
        is_last = atomicAdd(tickets, 1) == gridDim.x - 1;
#if !NO_ACQUIRE
        __threadfence();
#endif
#endif
    }
#if !NO_BARRIER_AFTER_WAIT
    __syncthreads();
#endif
    if (is_last && threadIdx.x < 32) {
        float total = 0.0f;
        for (unsigned i = threadIdx.x; i < gridDim.x; i += 32) total += partials[i];
        for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
        if (threadIdx.x == 0) {
            *out = total;
            *tickets = 0;
        }
    }
}
