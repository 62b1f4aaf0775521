// A queue between host and GPU in mapped memory: the host fills an entry and rings by a 64-bit count; the GPU reads the
// entry, works on it, and writes how far it has come, with the answer before that.
#if GPU_SCOPE_WAIT
#define WAIT_SCOPE __NV_THREAD_SCOPE_DEVICE
#define WAIT_FENCE __threadfence()
#else
#define WAIT_SCOPE __NV_THREAD_SCOPE_SYSTEM
#define WAIT_FENCE __threadfence_system()
#endif
#if GPU_SCOPE_POST
#define POST_SCOPE __NV_THREAD_SCOPE_DEVICE
#else
#define POST_SCOPE __NV_THREAD_SCOPE_SYSTEM
#endif
#if NO_RELEASE
#define RELEASE __NV_ATOMIC_RELAXED
#else
#define RELEASE __NV_ATOMIC_RELEASE
#endif

struct Entry {
    unsigned kind, offset, length, stop;
};

extern "C" __global__ void answer_doorbell(const Entry* entries, float* data, unsigned long long* rung,
                                           unsigned long long* done) {
    __shared__ Entry entry;
#pragma unroll 1
    for (unsigned long long next = 1;; next++) {
        if (threadIdx.x == 0) {
#if LOAD_ABOVE_WAIT
            unsigned stop = *const_cast<const volatile unsigned*>(&entries[next % 64].stop);
#endif
#if WAIT_volatile
            while (*const_cast<volatile unsigned long long*>(rung) < next) __nanosleep(200);
#if !NO_ACQUIRE
            WAIT_FENCE;
#endif
#elif NO_ACQUIRE
            while (__nv_atomic_load_n(rung, __NV_ATOMIC_RELAXED, WAIT_SCOPE) < next) __nanosleep(200);
#else
            while (__nv_atomic_load_n(rung, __NV_ATOMIC_ACQUIRE, WAIT_SCOPE) < next) __nanosleep(200);
#endif
            entry = entries[next % 64];
#if LOAD_ABOVE_WAIT
            entry.stop = stop;
#endif
        }
        __syncthreads();
        if (entry.stop) return;
#if POST_BEFORE_STORES
        if (threadIdx.x == 0) __nv_atomic_store_n(done, next, RELEASE, POST_SCOPE);
#endif
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < entry.length; i += blockDim.x) data[entry.offset + i] += entry.kind;
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
#if !POST_BEFORE_STORES
        if (threadIdx.x == 0) __nv_atomic_store_n(done, next, RELEASE, POST_SCOPE);
#endif
    }
}
