// A norm with a residual. Weights are read early: nobody writes them. The residual is updated in place.
#include "fresh.cuh"
K void residual_norm(const float* x, float* residual, const float* weight, float* out, int n) {
    __shared__ float sums[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float w = weight[i % n];
#if STORE_ABOVE
    out[i] = 0;
#endif
#if RESIDUAL_ABOVE
    float r = residual[i];
#endif
#if !NO_WAIT
    grid_wait();
#endif
#if !RESIDUAL_ABOVE
    float r = residual[i];
#endif
    float v = x[i] + r;
    residual[i] = v;
    float s = v * v;
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = s;
    __syncthreads();
#if TRIGGER_early
    grid_go();
#endif
    float total = 0;
    for (int k = 0; k < blockDim.x / 32; ++k) total += sums[k];
    out[i] += v * w * rsqrtf(total / n);
#if TRIGGER_late
    grid_go();
#endif
}
