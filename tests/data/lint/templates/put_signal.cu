// A put with a signal, in the way of NVSHMEM: all threads copy into the peer's heap, one fences and sets the 64-bit
// signal; the receiver waits for its value. Two kernels, one on each GPU.
#include "forms.cuh"

__device__ __forceinline__ unsigned long long look_64(const unsigned long long* signal) {
    unsigned long long seen;
#if WAIT_volatile
    seen = *const_cast<const volatile unsigned long long*>(signal);
#else
    asm volatile("ld." TEXT(ACQUIRE) "." TEXT(WAIT_SCOPE) ".global.u64 %0, [%1];" : "=l"(seen) : "l"(signal) : "memory");
#endif
    return seen;
}

extern "C" __global__ void put(const float4* in, float4* peer_heap, unsigned long long* peer_signal, unsigned count,
                               unsigned long long round) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) peer_heap[blockIdx.x * count + i] = in[blockIdx.x * count + i];
#if !NO_BARRIER_BEFORE_POST
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
#if SIGNAL_fence_volatile
#if !NO_RELEASE
        POST_FENCE;
#endif
        *const_cast<volatile unsigned long long*>(&peer_signal[blockIdx.x]) = round;
#elif SIGNAL_fence_atomic
#if !NO_RELEASE
        POST_FENCE;
#endif
        atomicExch_system(&peer_signal[blockIdx.x], round);
#else
        asm volatile("st." TEXT(RELEASE) "." TEXT(POST_SCOPE) ".global.u64 [%0], %1;"
                     ::"l"(&peer_signal[blockIdx.x]), "l"(round) : "memory");
#endif
    }
}

extern "C" __global__ void take(const float4* heap, float4* out, const unsigned long long* signal, unsigned count,
                                unsigned long long round) {
    if (threadIdx.x == 0) {
        while (look_64(&signal[blockIdx.x]) != round) {
        }
#if WAIT_volatile && !NO_ACQUIRE
        WAIT_FENCE;
#endif
    }
#if !NO_BARRIER_AFTER_WAIT
    __syncthreads();
#endif
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) out[blockIdx.x * count + i] = heap[blockIdx.x * count + i];
}
