// A stencil in steps: a block keeps its part, shows its edges and waits for those of the blocks beside it, one thread
// for each side. Two copies of the edges, so that a block may be one step ahead.
__device__ __forceinline__ void until(unsigned* steps, unsigned step) {
#if LOOK_ONCE
    if (__nv_atomic_load_n(steps, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE) < step) __nanosleep(1000);
#elif FENCE_BEFORE_POLL
    __threadfence();
    while (__nv_atomic_load_n(steps, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE) < step) {
    }
#elif NO_ACQUIRE
    while (__nv_atomic_load_n(steps, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE) < step) {
    }
#elif WAIT_max
    while (atomicMax(steps, 0u) < step) {
    }
    __threadfence();
#else
    while (__nv_atomic_load_n(steps, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE) < step) {
    }
#endif
}

__device__ __forceinline__ void show(unsigned* steps, unsigned step) {
#if NO_RELEASE
    __nv_atomic_store_n(steps, step, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
#elif FENCE_AFTER_POST
    __nv_atomic_store_n(steps, step, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __threadfence();
#elif NARROW_POST
    __nv_atomic_store_n(steps, step, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_BLOCK);
#else
    __nv_atomic_store_n(steps, step, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
#endif
}

extern "C" __global__ void stencil(const float* in, float* edges, float* out, unsigned* shown, unsigned steps) {
    __shared__ float part[130];
    part[threadIdx.x + 1] = in[blockIdx.x * 128 + threadIdx.x];
    unsigned left = (blockIdx.x + gridDim.x - 1) % gridDim.x, right = (blockIdx.x + 1) % gridDim.x;
#pragma unroll 1
    for (unsigned step = 1; step <= steps; step++) {
        float* now = edges + step % 2 * gridDim.x * 2;
#if POST_BEFORE_STORES
        if (threadIdx.x == 0) show(&shown[blockIdx.x], step);
#endif
        if (threadIdx.x == 0) now[blockIdx.x * 2] = part[1];
        if (threadIdx.x == 127) now[blockIdx.x * 2 + 1] = part[128];
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
#if !POST_BEFORE_STORES
        if (threadIdx.x == 0) show(&shown[blockIdx.x], step);
#endif
        if (threadIdx.x == 32) {
            until(&shown[left], step);
#if DIVERGENT_BARRIER
            __syncthreads();
#endif
            part[0] = now[left * 2 + 1];
        }
        if (threadIdx.x == 64) {
            until(&shown[right], step);
            part[129] = now[right * 2];
        }
        __syncthreads();
        float value = (part[threadIdx.x] + part[threadIdx.x + 1] + part[threadIdx.x + 2]) / 3.0f;
        __syncthreads();
        part[threadIdx.x + 1] = value;
        __syncthreads();
    }
    out[blockIdx.x * 128 + threadIdx.x] = part[threadIdx.x + 1];
}
