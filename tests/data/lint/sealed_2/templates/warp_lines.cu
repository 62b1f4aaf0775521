// Each warp makes a line and posts it by one lane; a warp of the same launch's other half takes it.
__device__ __forceinline__ void raise(unsigned* flag) {
#if WEAK_RAISE
    asm volatile("red.relaxed.gpu.global.max.u32 [%0], 1;" ::"l"(flag) : "memory");
#elif CTA_RAISE
    asm volatile("red.release.cta.global.max.u32 [%0], 1;" ::"l"(flag) : "memory");
#else
    asm volatile("red.release.gpu.global.max.u32 [%0], 1;" ::"l"(flag) : "memory");
#endif
}

__device__ __forceinline__ bool raised(unsigned* flag) {
    unsigned v;
#if WEAK_LOOK
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
#else
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
#endif
    return v != 0;
}

extern "C" __global__ void warp_lines(const float* in, float* lines, float* out, unsigned* flags, int length) {
    int lane = threadIdx.x & 31, warp = (blockIdx.x >> 1) * (blockDim.x >> 5) + (threadIdx.x >> 5);
    float* line = lines + static_cast<long>(warp) * length;
    if ((blockIdx.x & 1) == 0) {
        for (int i = lane; i < length; i += 32) line[i] = in[warp * length + i] * 1.5f;
        __syncwarp();
        if (lane == 0) raise(flags + warp);
    } else {
#if PEEK_AHEAD
        float first = lane < length ? line[lane] : 0.0f;
#endif
        if (lane == 0)
            while (!raised(flags + warp)) __nanosleep(20);
        __syncwarp();
#if !PEEK_AHEAD
        float first = lane < length ? line[lane] : 0.0f;
#endif
        float sum = first;
        for (int i = lane + 32; i < length; i += 32) sum += line[i];
        for (int m = 16; m; m >>= 1) sum += __shfl_xor_sync(~0u, sum, m);
        if (lane == 0) out[warp] = sum;
    }
}
