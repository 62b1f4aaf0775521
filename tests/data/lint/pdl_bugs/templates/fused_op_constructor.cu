// After flashinfer pull request 5081: a constructor above the wait loads this thread's first residual; later rows come below.
#include "short.cuh"
K void fused_op_constructor(const float4* in, const float4* residual, const float4* gamma, float4* out, int rows, int n) {
    int i = threadIdx.x;
    float4 g = gamma[i];
#if BUG
    float4 r = residual[blockIdx.x * n + i];
#endif
    grid_wait();
#if !BUG
    float4 r = residual[blockIdx.x * n + i];
#endif
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        if (row != blockIdx.x) r = residual[row * n + i];
        float4 v = in[row * n + i];
        v.x = (v.x + r.x) * g.x; v.y = (v.y + r.y) * g.y; v.z = (v.z + r.z) * g.z; v.w = (v.w + r.w) * g.w;
        out[row * n + i] = v;
    }
    grid_go();
}
