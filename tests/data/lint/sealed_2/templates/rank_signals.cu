// Ranks of one host, each with its block of signals that the others write: barrier, then each sums a share.
struct Signal {
    alignas(128) unsigned start[16][8];
};
struct Ranks {
    Signal* signals[8];
};
struct Buffers {
    const float* data[8];
};

__device__ __forceinline__ void tell(unsigned* flag, unsigned value) {
#if GPU_TELL
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#elif BARE_TELL
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#elif TELL_fenced
    __threadfence_system();
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#else
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#endif
}

__device__ __forceinline__ unsigned hear(unsigned* flag) {
    unsigned value;
#if GPU_HEAR
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
#elif BARE_HEAR
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
#else
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
#endif
    return value;
}

extern "C" __global__ void rank_signals(Ranks ranks, Buffers buffers, float* scratch, const float* mine, float* out,
                                        int rank, int world, unsigned epoch) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    scratch[i] = mine[i];
#if !UNJOINED
    __syncthreads();
#endif
    if (threadIdx.x < world) {
        tell(&ranks.signals[threadIdx.x]->start[blockIdx.x][rank], epoch);
        while (hear(&ranks.signals[rank]->start[blockIdx.x][threadIdx.x]) != epoch) {
        }
    }
#if !UNGUARDED
    __syncthreads();
#endif
    float sum = 0;
    for (int r = 0; r < world; r++) sum += buffers.data[r][i];
    out[i] = sum;
}
