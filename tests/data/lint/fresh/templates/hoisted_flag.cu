// A kernel that polls by an ordinary load, and one that polls by a strong one.
#include "fresh.cuh"
K void hoisted_flag(const float* data, u32* flag, float* out, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
#if PLAIN
        while (flag[blockIdx.x] == 0) {}
#elif PLAIN_BOUNDED
        for (int k = 0; k < limit && flag[blockIdx.x] == 0; ++k) {}
#elif FORM_volatile
        while (((volatile u32*)flag)[blockIdx.x] == 0) {}
        __threadfence();
#else
        while (acq(flag + blockIdx.x) == 0) {}
#endif
    }
    __syncthreads();
    out[i] = data[i];
}
