// One slot and one flag between two kernels: 1 says that the slot is full, 0 that it is empty again, round after round.
#if NARROW_WAIT
#define WAIT_SCOPE __NV_THREAD_SCOPE_BLOCK
#else
#define WAIT_SCOPE __NV_THREAD_SCOPE_DEVICE
#endif
#if NO_RELEASE
#define RELEASE __NV_ATOMIC_RELAXED
#else
#define RELEASE __NV_ATOMIC_RELEASE
#endif

__device__ __forceinline__ void until(unsigned* epoch, unsigned wanted) {
#if FENCE_BEFORE_POLL
    __threadfence();
#endif
#if WEAK_POLL
    while (*epoch != wanted) __nanosleep(32);
#elif WAIT_volatile
    while (*static_cast<volatile unsigned*>(epoch) != wanted) {
    }
#if !NO_ACQUIRE && !FENCE_BEFORE_POLL
    __threadfence();
#endif
#elif NO_ACQUIRE
    while (__nv_atomic_load_n(epoch, __NV_ATOMIC_RELAXED, WAIT_SCOPE) != wanted) {
    }
#else
    while (__nv_atomic_load_n(epoch, __NV_ATOMIC_ACQUIRE, WAIT_SCOPE) != wanted) {
    }
#endif
}

extern "C" __global__ void write_slot(const float* in, float* slot, unsigned* epoch, unsigned rounds) {
#pragma unroll 1
    for (unsigned round = 0; round < rounds; round++) {
        if (threadIdx.x == 0) until(epoch, 0);
        __syncthreads();
#if POST_BEFORE_STORES
        if (threadIdx.x == 0) __nv_atomic_store_n(epoch, 1u, RELEASE, __NV_THREAD_SCOPE_DEVICE);
#endif
        slot[threadIdx.x] = in[round * 64 + threadIdx.x] + 1.0f;
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
#if !POST_BEFORE_STORES
        if (threadIdx.x == 0) __nv_atomic_store_n(epoch, 1u, RELEASE, __NV_THREAD_SCOPE_DEVICE);
#endif
    }
}

extern "C" __global__ void read_slot(const float* slot, float* out, unsigned* epoch, unsigned rounds) {
#pragma unroll 1
    for (unsigned round = 0; round < rounds; round++) {
#if LOAD_ABOVE_WAIT
        float early = *static_cast<const volatile float*>(&slot[threadIdx.x]);
#endif
        if (threadIdx.x == 0) until(epoch, 1);
#if !NO_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
#if LOAD_ABOVE_WAIT
        out[round * 64 + threadIdx.x] = early;
#else
        out[round * 64 + threadIdx.x] = slot[threadIdx.x];
#endif
        __syncthreads();
        if (threadIdx.x == 0) __nv_atomic_store_n(epoch, 0u, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
    }
}
