// Dependent launch for an early start only: the dependent kernel's tiles wait for flags, released and acquired.
extern "C" __global__ void early_maker(const float* in, float* tiles, unsigned* flags) {
    asm volatile("griddepcontrol.launch_dependents;" :::);
    tiles[blockIdx.x * 256 + threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x] * 2.0f;
    __syncthreads();
    if (threadIdx.x == 0) {
#if TRUSTS_TRIGGER
        atomicAdd(flags + blockIdx.x / 4, 1u);
#else
        __threadfence();
        atomicAdd(flags + blockIdx.x / 4, 1u);
#endif
    }
}

extern "C" __global__ void early_user(const float* tiles, float* out, unsigned* flags) {
    if (threadIdx.x == 0) {
        unsigned seen;
        do {
#if TRUSTS_ORDER
            asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(flags + blockIdx.x) : "memory");
#else
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(flags + blockIdx.x) : "memory");
#endif
        } while (seen < 4);
    }
    __syncthreads();
    float sum = 0;
    for (int t = 0; t < 4; t++) sum += tiles[(blockIdx.x * 4 + t) * 256 + threadIdx.x];
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
