// Counters of 64 bits that only grow: each launch waits for its epoch's worth, and nobody sets anything back.
struct Edge {
    unsigned long long count;
    unsigned long long padding[15];
};

__device__ __forceinline__ void add_one(Edge* e) {
#if ADD_fence
    __threadfence();
    atomicAdd(&e->count, 1ull);
#elif WEAK_ADD
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(&e->count) : "memory");
#else
    asm volatile("red.release.gpu.global.add.u64 [%0], 1;" ::"l"(&e->count) : "memory");
#endif
}

__device__ __forceinline__ unsigned long long count_of(const Edge* e) {
    unsigned long long c;
#if WEAK_COUNT
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(c) : "l"(&e->count) : "memory");
#elif BLOCK_COUNT
    asm volatile("ld.acquire.cta.global.u64 %0, [%1];" : "=l"(c) : "l"(&e->count) : "memory");
#elif COUNT_sys
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(c) : "l"(&e->count) : "memory");
#else
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(c) : "l"(&e->count) : "memory");
#endif
    return c;
}

extern "C" __global__ void epochs(const double* in, double* rows, double* out, Edge* edges, unsigned long long epoch,
                                  int producers) {
    if (static_cast<int>(blockIdx.x) < producers) {
        rows[blockIdx.x * 64 + threadIdx.x] = sqrt(in[blockIdx.x * 64 + threadIdx.x]);
        __syncthreads();
        if (threadIdx.x == 0) add_one(edges + (blockIdx.x >> 2));
        return;
    }
    int group = blockIdx.x - producers;
    if (threadIdx.x == 0) {
        while (static_cast<long long>(epoch * 4 - count_of(edges + group)) > 0) __nanosleep(64);
    }
#if !NO_BARRIER
    __syncthreads();
#endif
    double sum = 0;
    for (int r = 0; r < 4; r++) sum += rows[(group * 4 + r) * 64 + threadIdx.x];
    out[group * 64 + threadIdx.x] = sum;
}
