// Three launches in a row by dependent launch, each of which waits before it touches what the others touch.
__device__ __forceinline__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void let_next_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

extern "C" __global__ void chain_up(const float* x, const float* bias, float* hidden) {
    int i = blockIdx.x * 128 + threadIdx.x;
    float b = bias[threadIdx.x];
    wait_for_previous();
#if TRIGGER_early
    let_next_start();
#endif
    hidden[i] = fmaxf(x[i] + b, 0.0f);
#if TRIGGER_late
    let_next_start();
#endif
}

extern "C" __global__ void chain_down(const float* hidden, const float* residual, const float* scales, float* y) {
    int i = blockIdx.x * 128 + threadIdx.x;
    float s = scales[threadIdx.x];
#if HIDDEN_TOO_SOON
    float h = hidden[i];
#endif
#if !NOBODY_WAITS
    wait_for_previous();
#endif
#if !HIDDEN_TOO_SOON
    float h = hidden[i];
#endif
    float r = residual[i];
    y[i] = h * s + r;
    let_next_start();
}
