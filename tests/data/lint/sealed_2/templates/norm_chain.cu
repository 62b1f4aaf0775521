// Programmatic dependent launch: a norm, then a product with its scale; weights are fetched above the wait.
__device__ __forceinline__ void let_next_start() { asm volatile("griddepcontrol.launch_dependents;" :::); }
__device__ __forceinline__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

extern "C" __global__ void norm_first(const float* x, float* scale, int n) {
    let_next_start();
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 32) s += x[blockIdx.x * n + i] * x[blockIdx.x * n + i];
    for (int m = 16; m; m >>= 1) s += __shfl_xor_sync(~0u, s, m);
    if (threadIdx.x == 0) scale[blockIdx.x] = rsqrtf(s / n);
}

extern "C" __global__ void norm_second(const float* x, const float* scale, const float* weights, float* y, int n) {
    __shared__ float kept[1024];
    for (int i = threadIdx.x; i < n; i += blockDim.x) kept[i] = weights[i];
#if SCALE_ABOVE
    float s = scale[blockIdx.x];
#endif
#if NEVER_WAITS
#elif SOME_WAIT
    if (n > 512) wait_for_previous();
#elif ONE_WAITS
    if (threadIdx.x == 0) wait_for_previous();
#else
    wait_for_previous();
#endif
#if ONE_WAITS
    float s = scale[blockIdx.x];
    __syncthreads();
#else
    __syncthreads();
#if !SCALE_ABOVE
    float s = scale[blockIdx.x];
#endif
#endif
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = x[blockIdx.x * n + i] * s * kept[i];
}
