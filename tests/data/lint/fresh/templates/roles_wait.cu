// Warps of two roles read one buffer; each role waits for the grid before it by itself.
#include "fresh.cuh"
K void __launch_bounds__(128) roles_wait(const float* a, const float* w, float* out, int n) {
    __shared__ float part[128];
    int t = threadIdx.x, role = t / 32;
    if (role == 0) {
#if !FIRST_ROLE
        grid_wait();
#endif
        float s = 0;
        for (int i = t; i < n; i += 32) s += a[blockIdx.x * n + i] * w[i];
        part[t] = s;
    } else {
#if LATE_role
        float g = w[t];
#else
        float g = 1;
#endif
#if !OTHER_ROLES
        grid_wait();
#endif
        part[t] = g * a[blockIdx.x * n + t];
    }
    __syncthreads();
    out[blockIdx.x * 128 + t] = part[t] + part[t ^ 32];
}
