// A bit for each producer block: the consumers wait until the mask of their group is full.
__device__ __forceinline__ void arrive(unsigned* mask, unsigned bit) {
#if POST_or
#if NARROW_POST
    __threadfence_block();
#elif !NO_RELEASE && !FENCE_AFTER_POST
    __threadfence();
#endif
    atomicOr(mask, bit);
#if FENCE_AFTER_POST
    __threadfence();
#endif
#elif NO_RELEASE
    __nv_atomic_or(mask, bit, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
#elif NARROW_POST
    __nv_atomic_or(mask, bit, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_BLOCK);
#else
    __nv_atomic_or(mask, bit, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
#endif
}

extern "C" __global__ void gather_bits(const float* in, float* parts, unsigned* masks) {
    unsigned group = blockIdx.x / 32;
    parts[blockIdx.x * 128 + threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x] * 4.0f;
#if !NO_BARRIER_BEFORE_POST
    __syncthreads();
#endif
    if (threadIdx.x == 0) arrive(&masks[group], 1u << blockIdx.x % 32);
}

extern "C" __global__ void add_parts(const float* parts, float* out, unsigned* masks) {
    unsigned* mask = &masks[blockIdx.x];
    if (threadIdx.x == 0) {
#if WAIT_or
        while (atomicOr(mask, 0u) != ~0u) {
        }
#if !NO_ACQUIRE
        __threadfence();
#endif
#elif NO_ACQUIRE
        while (__popc(__nv_atomic_load_n(mask, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE)) != 32) {
        }
#else
        while (__popc(__nv_atomic_load_n(mask, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE)) != 32) {
        }
#endif
    }
#if !NO_BARRIER_AFTER_WAIT
    __syncthreads();
#endif
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned i = 0; i < 32; i++) {
#if NON_COHERENT_LOAD
        sum += __ldg(&parts[(blockIdx.x * 32 + i) * 128 + threadIdx.x]);
#else
        sum += parts[(blockIdx.x * 32 + i) * 128 + threadIdx.x];
#endif
    }
    atomicAdd(&out[blockIdx.x * 128 + threadIdx.x], sum);
}
