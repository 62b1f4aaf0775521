// A tile in shared memory is announced by an mbarrier for which the readers do not wait.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    __shared__ float tile[256];
    __shared__ unsigned long long barrier;
    unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(blockDim.x) : "memory");
    __syncthreads();
    tile[threadIdx.x] = 2 * input[INDEX];
    asm volatile("{ .reg .b64 token; mbarrier.arrive.shared::cta.b64 token, [%0]; }" ::"r"(at) : "memory");
    unsigned is_done = 0;
    RIGHT(for (int i = 0; i < POLLS && !is_done; ++i))
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(is_done) : "r"(at) : "memory");
    out[INDEX] = tile[blockDim.x - 1 - threadIdx.x] + 1;
}
ENTRY second(ARGUMENTS) {}
