// After triton issue 11905: the pipeliner put the first copies of a loop in front of the wait that stands in it.
#include "short.cuh"
K void __launch_bounds__(128) pipelined_above_wait(const float4* x, const float4* w, float* out, int steps) {
    __shared__ float4 buffer[2][128];
    int t = threadIdx.x;
    auto fill = [&](int k) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sm(&buffer[k & 1][t])), "l"(x + (blockIdx.x * steps + k) * 128 + t) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float sum = 0;
#if !BUG
    grid_wait();
#endif
    fill(0);
    for (int k = 0; k < steps; ++k) {
#if BUG
        grid_wait();
#endif
        fill(k + 1 < steps ? k + 1 : k);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        float4 v = buffer[k & 1][t];
        sum += v.x + v.y * v.z + v.w;
        __syncthreads();
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    out[blockIdx.x * 128 + t] = sum;
}
