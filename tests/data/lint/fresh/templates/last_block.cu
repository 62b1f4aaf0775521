// threadFenceReduction: the last block adds up what all have left, and writes in place.
#include "fresh.cuh"
K void last_block(const float* in, float* partial, u32* count, int n) {
    __shared__ bool is_last;
    __shared__ float s[256];
    int t = threadIdx.x;
    float v = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) v += in[i];
    s[t] = v;
    __syncthreads();
#if WRITE_all
    partial[blockIdx.x * 256 + t] = s[t];
#if !NO_FENCE
    __threadfence();
#endif
#if !NO_BARRIER
    __syncthreads();
#endif
#else
    if (t == 0) {
        float all = 0;
        for (int k = 0; k < 256; ++k) all += s[k];
        partial[blockIdx.x] = all;
#if !NO_FENCE
        __threadfence();
#endif
    }
#endif
    if (t == 0) is_last = atomicInc(count, gridDim.x) == gridDim.x - 1;
    __syncthreads();
    if (is_last) {
#if !NO_FENCE
        __threadfence();
#endif
        float all = 0;
        for (int k = t; k < gridDim.x; k += 256) all += partial[k];
        s[t] = all;
        __syncthreads();
        if (t == 0) {
            for (int k = 1; k < 256; ++k) all += s[k];
            partial[0] = all;
            *count = 0;
        }
    }
}
