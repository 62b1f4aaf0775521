// Expert-parallel dispatch: tokens are put into the peer's inbox, then its counter is raised by all warps.
extern "C" __global__ void push_tokens(const uint4* tokens, const int* targets, uint4* const* inboxes,
                                       unsigned* const* counters, int per_token) {
    int lane = threadIdx.x & 31, token = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int peer = targets[token * 2], slot = targets[token * 2 + 1];
    uint4* to = inboxes[peer] + static_cast<long>(slot) * per_token;
#if COUNT_FIRST
    if (lane == 0) {
        __threadfence_system();
        atomicAdd_system(counters[peer], 1);
    }
    __syncwarp();
#endif
    for (int i = lane; i < per_token; i += 32) to[i] = tokens[token * per_token + i];
#if !COUNT_FIRST
    __syncwarp();
    if (lane == 0) {
#if DEVICE_FENCE
        __threadfence();
#elif !NO_FENCE
        __threadfence_system();
#endif
        atomicAdd_system(counters[peer], 1);
    }
#endif
}

extern "C" __global__ void take_tokens(const uint4* inbox, uint4* out, unsigned* counter, unsigned expected, int n) {
    if (threadIdx.x == 0) {
        unsigned seen;
        do {
#if DEVICE_ACQUIRE
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
#else
            asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
#endif
        } while (seen < expected);
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint4 t = inbox[i];
        t.x ^= 0x80008000u;
        out[i] = t;
    }
}
