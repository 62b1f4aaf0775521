// A kernel clears the workspace into which it adds below the wait, while the kernel before still reads it.
#include "short.cuh"
K void workspace_cleared_early(const float* in, float* work, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if BUG
    work[i] = 0;
    grid_wait();
#else
    grid_wait();
    work[i] = 0;
#endif
    for (int k = 0; k < n; ++k) work[i] += in[k * gridDim.x * blockDim.x + i];
    out[i] = work[i];
}
