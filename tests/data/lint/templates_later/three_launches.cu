// A chain of three kernels under dependent launch: the last reads what both before it wrote, which its wait covers
// since the one between waits, too.
#define GRID_WAIT asm volatile("griddepcontrol.wait;" ::: "memory")
#define GRID_TRIGGER asm volatile("griddepcontrol.launch_dependents;" ::: "memory")

extern "C" __global__ void find_scales(const float* in, float* scales) {
    GRID_WAIT;
    GRID_TRIGGER;
    float most = 0.0f;
#pragma unroll 1
    for (unsigned i = 0; i < 16; i++) most = fmaxf(most, fabsf(in[(blockIdx.x * 16 + i) * 128 + threadIdx.x]));
    scales[blockIdx.x * 128 + threadIdx.x] = 127.0f / most;
}

extern "C" __global__ void quantise(const float* in, const float* scales, int* codes) {
    unsigned at = blockIdx.x * 128 + threadIdx.x;
#if ORDER_trigger_first
    GRID_TRIGGER;
#endif
#if MIDDLE_LOAD_ABOVE_WAIT
    float scale = scales[at];
    GRID_WAIT;
#elif MIDDLE_NO_WAIT
    float scale = scales[at];
#else
    GRID_WAIT;
    float scale = scales[at];
#endif
#if ORDER_wait_first
    GRID_TRIGGER;
#endif
#pragma unroll 1
    for (unsigned i = 0; i < 16; i++) codes[at * 16 + i] = __float2int_rn(in[at * 16 + i] * scale);
}

extern "C" __global__ void restore(const int* codes, const float* scales, float* out) {
    unsigned at = blockIdx.x * 128 + threadIdx.x;
#if LAST_LOAD_ABOVE_WAIT
    float scale = 1.0f / scales[at];
#endif
#if SUM_ABOVE_WAIT
    int first = codes[at * 16];
#endif
#if !LAST_NO_WAIT
    GRID_WAIT;
#endif
#if !LAST_LOAD_ABOVE_WAIT
    float scale = 1.0f / scales[at];
#endif
    int sum = 0;
#if SUM_ABOVE_WAIT
    sum = first;
#pragma unroll 1
    for (unsigned i = 1; i < 16; i++) sum += codes[at * 16 + i];
#else
#pragma unroll 1
    for (unsigned i = 0; i < 16; i++) sum += codes[at * 16 + i];
#endif
    out[at] = sum * scale;
}
