// After flash-attention pull request 2481: the backward pass's preprocessing triggers the next kernel and never waits.
#include "short.cuh"
K void preprocess_triggers(const float* o, const float* dout, float* dpsum, int n) {
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float s = 0;
#if !BUG
    grid_wait();
#endif
    for (int i = lane; i < n; i += 32) s += o[row * n + i] * dout[row * n + i];
    grid_go();
    for (int m = 16; m; m >>= 1) s += __shfl_xor_sync(~0u, s, m);
    if (lane == 0) dpsum[row] = s;
}
