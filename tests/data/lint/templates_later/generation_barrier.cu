// A barrier of the grid that counts arrivals and then moves on to the next generation, for which all others wait.
#if NO_ACQUIRE
#define ACQUIRE __NV_ATOMIC_RELAXED
#else
#define ACQUIRE __NV_ATOMIC_ACQUIRE
#endif
#if NARROW_WAIT
#define WAIT_SCOPE __NV_THREAD_SCOPE_BLOCK
#else
#define WAIT_SCOPE __NV_THREAD_SCOPE_DEVICE
#endif

__device__ __forceinline__ void arrive_and_wait(unsigned* arrived, unsigned* generation) {
    unsigned mine = __nv_atomic_load_n(generation, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
#if NO_RELEASE
    bool is_last = __nv_atomic_fetch_add(arrived, 1u, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE) == gridDim.x - 1;
#elif ARRIVE_fence
    __threadfence();
    bool is_last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    __threadfence();
#else
    bool is_last = __nv_atomic_fetch_add(arrived, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE) == gridDim.x - 1;
#endif
    if (is_last) {
        __nv_atomic_store_n(arrived, 0u, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
        __nv_atomic_store_n(generation, mine + 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
    } else {
        while (__nv_atomic_load_n(generation, ACQUIRE, WAIT_SCOPE) == mine) {
        }
    }
}

extern "C" __global__ void transpose_steps(float* from, float* to, unsigned* arrived, unsigned* generation,
                                           unsigned steps) {
    unsigned at = blockIdx.x * 128 + threadIdx.x, other = threadIdx.x * gridDim.x + blockIdx.x;
#pragma unroll 1
    for (unsigned step = 0; step < steps; step++) {
        to[other] = from[at] + 1.0f;
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
        if (threadIdx.x == 0) arrive_and_wait(arrived, generation);
#if !NO_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
        float* swap = from;
        from = to;
        to = swap;
    }
}
