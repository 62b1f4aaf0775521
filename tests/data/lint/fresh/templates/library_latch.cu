// A latch of libcu++ in global memory: blocks count down, one block waits and adds up.
#include <cuda/atomic>
#include <cuda/latch>
#include "fresh.cuh"
#if NARROW_LATCH
using Latch = cuda::latch<cuda::thread_scope_block>;
#else
using Latch = cuda::latch<cuda::thread_scope_device>;
#endif
K void library_latch(Latch* latch, float* parts, const float* in, float* out, int n) {
    int t = threadIdx.x;
    if (blockIdx.x != 0) {
        parts[blockIdx.x * 128 + t] = in[blockIdx.x * 128 + t] * 3;
#if !NO_BARRIER
        __syncthreads();
#endif
        if (t == 0) latch->count_down();
    } else {
#if WAITER_all
        latch->wait();
#else
        if (t == 0) latch->wait();
        __syncthreads();
#endif
        float s = 0;
        for (int b = 1; b < gridDim.x; ++b) s += parts[b * 128 + t];
        out[t] = s;
    }
}
