// Two buffers filled by cp.async: one is read while the other is filled.
#include "fresh.cuh"
K void __launch_bounds__(128) async_pair(const float4* in, float* out, int steps) {
    __shared__ float4 buffer[2][128];
    int t = threadIdx.x;
    auto fill = [&](int k) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sm(&buffer[k & 1][t])), "l"(in + (blockIdx.x * steps + k) * 128 + t) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float sum = 0;
    fill(0);
    for (int k = 0; k < steps; ++k) {
        if (k + 1 < steps) fill(k + 1);
#if NEWEST_PENDING
        asm volatile("cp.async.wait_group 2;" ::: "memory");
#else
        if (k + 1 < steps) asm volatile("cp.async.wait_group 1;" ::: "memory");
        else asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
#if !NO_BARRIER
        __syncthreads();
#endif
        float4 v = buffer[k & 1][t ^ 32];
        sum += v.x + v.y + v.z + v.w;
#if !REFILLED_EARLY
        __syncthreads();
#endif
    }
    out[blockIdx.x * 128 + t] = sum;
}
