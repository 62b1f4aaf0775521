// After flashinfer issue 2708: the kernel is launched dependent, and its wait is compiled to nothing.
#include "short.cuh"
#if !BUG
#define GDC_ENABLED
#endif
D void wait_on_dependent_grids() {
#if defined(GDC_ENABLED)
    grid_wait();
#endif
}
D void launch_dependent_grids() {
#if defined(GDC_ENABLED)
    grid_go();
#endif
}
K void waits_compiled_out(const float4* a, const float4* b, float4* d, int k) {
    wait_on_dependent_grids();
    float4 c = make_float4(0, 0, 0, 0);
    for (int i = 0; i < k; ++i) {
        float4 x = a[blockIdx.x * k + i], y = b[i * blockDim.x + threadIdx.x];
        c.x += x.x * y.x; c.y += x.y * y.y; c.z += x.z * y.z; c.w += x.w * y.w;
    }
    launch_dependent_grids();
    d[blockIdx.x * blockDim.x + threadIdx.x] = c;
}
