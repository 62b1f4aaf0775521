// A ring of GPUs: in each step a GPU passes on the chunk that it got last, straight into its neighbour's memory, and
// sets the neighbour's step flag. Memory of two GPUs: everything of the system's scope.
#if GPU_SCOPE_WAIT
#define WAIT_SCOPE __NV_THREAD_SCOPE_DEVICE
#else
#define WAIT_SCOPE __NV_THREAD_SCOPE_SYSTEM
#endif
#if GPU_SCOPE_POST
#define POST_SCOPE __NV_THREAD_SCOPE_DEVICE
#define POST_FENCE __threadfence()
#else
#define POST_SCOPE __NV_THREAD_SCOPE_SYSTEM
#define POST_FENCE __threadfence_system()
#endif
#if NO_ACQUIRE
#define ACQUIRE __NV_ATOMIC_RELAXED
#else
#define ACQUIRE __NV_ATOMIC_ACQUIRE
#endif

__device__ __forceinline__ void tell(unsigned* flag, unsigned step) {
#if POST_exchange
#if !NO_RELEASE
    POST_FENCE;
#endif
    atomicExch_system(flag, step);
#elif NO_RELEASE
    __nv_atomic_store_n(flag, step, __NV_ATOMIC_RELAXED, POST_SCOPE);
#else
    __nv_atomic_store_n(flag, step, __NV_ATOMIC_RELEASE, POST_SCOPE);
#endif
}

extern "C" __global__ void ring_all_gather(float4* mine, float4* next, unsigned* my_steps, unsigned* next_steps,
                                           unsigned rank, unsigned ranks, unsigned chunk) {
#pragma unroll 1
    for (unsigned step = 0; step + 1 < ranks; step++) {
        unsigned from = (rank + ranks - step) % ranks * chunk;
#if POST_BEFORE_STORES
        if (threadIdx.x == 0) tell(&next_steps[blockIdx.x], step + 1);
#endif
#pragma unroll 1
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < chunk; i += gridDim.x * blockDim.x)
            next[from + i] = mine[from + i];
#if !POST_BEFORE_STORES
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
        if (threadIdx.x == 0) tell(&next_steps[blockIdx.x], step + 1);
#endif
        if (threadIdx.x == 0)
            while (__nv_atomic_load_n(&my_steps[blockIdx.x], ACQUIRE, WAIT_SCOPE) < step + 1) {
            }
#if !NO_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
    }
}
