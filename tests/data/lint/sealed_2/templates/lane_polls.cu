// A warp polls 32 flags at once, a lane each; the block goes on once all are up.
extern "C" __global__ void lane_polls(const float* parts, float* out, const unsigned* flags, unsigned tag) {
    if (threadIdx.x < 32) {
        bool up;
        do {
            unsigned v;
#if LANES_RELAXED
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flags + blockIdx.x * 32 + threadIdx.x)
                         : "memory");
#else
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flags + blockIdx.x * 32 + threadIdx.x)
                         : "memory");
#endif
            up = v == tag;
        } while (!__all_sync(~0u, up));
    }
#if !WARPS_GO_ON
    __syncthreads();
#endif
    float sum = 0;
    for (int p = 0; p < 32; p++) sum += parts[(blockIdx.x * 32 + p) * 128 + threadIdx.x];
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}

extern "C" __global__ void lane_posts(const float* in, float* parts, unsigned* flags, unsigned tag) {
    parts[blockIdx.x * 128 + threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x] * in[threadIdx.x];
    __syncthreads();
#if NOBODY_POSTS
    if (threadIdx.x == 127) __threadfence();
#else
    if (threadIdx.x == 127) {
        __threadfence();
        asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(flags + blockIdx.x), "r"(tag) : "memory");
    }
#endif
}
