// Keys and values are made block by block, and a count per head says how many are there. A persistent kernel goes from
// head to head, waits for the head's count, copies keys to shared memory and keeps a running softmax.
#if POST_fetch_add
#define COUNT_UP(count) __nv_atomic_fetch_add(count, 1u, RELEASE, POST_SCOPE)
#else
#define COUNT_UP(count) PLAIN_POST(count)
#endif
#if NO_RELEASE
#define RELEASE __NV_ATOMIC_RELAXED
#define PLAIN_POST(count) atomicAdd(count, 1u)
#elif NARROW_POST
#define PLAIN_POST(count) (__threadfence_block(), atomicAdd(count, 1u))
#else
#define RELEASE __NV_ATOMIC_RELEASE
#define PLAIN_POST(count) (__threadfence(), atomicAdd(count, 1u))
#endif
#if NARROW_POST
#define RELEASE __NV_ATOMIC_RELEASE
#define POST_SCOPE __NV_THREAD_SCOPE_BLOCK
#else
#define POST_SCOPE __NV_THREAD_SCOPE_DEVICE
#endif
#if NO_ACQUIRE
#define ACQUIRE __NV_ATOMIC_RELAXED
#else
#define ACQUIRE __NV_ATOMIC_ACQUIRE
#endif

constexpr unsigned width = 128;

extern "C" __global__ void project_heads(const float* in, float* keys, unsigned* counts, unsigned heads) {
#pragma unroll 1
    for (unsigned head = 0; head < heads; head++) {
        unsigned at = (head * gridDim.x + blockIdx.x) * width + threadIdx.x;
        keys[at] = in[at] * 0.125f;
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
#if !NO_POST
        if (threadIdx.x == 0) COUNT_UP(&counts[head]);
#endif
    }
}

__device__ __forceinline__ void copy(float* to, const float* from) {
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void attend(const float* queries, const float* keys, float* out, unsigned* counts,
                                  unsigned heads, unsigned blocks) {
    __shared__ float tile[width];
#pragma unroll 1
    for (unsigned head = blockIdx.x; head < heads; head += gridDim.x) {
        float query = queries[head * width + threadIdx.x], most = -1e30f, sum = 0.0f;
        const float* mine = keys + head * blocks * width;
#if LOAD_ABOVE_WAIT
        copy(&tile[threadIdx.x], &mine[threadIdx.x]);
#endif
        if (threadIdx.x == 32) {
            while (__nv_atomic_load_n(&counts[head], ACQUIRE, __NV_THREAD_SCOPE_DEVICE) < blocks) __nanosleep(64);
#if DIVERGENT_BARRIER
            __syncthreads();
#endif
        }
#if !NO_BARRIER_AFTER_WAIT && !DIVERGENT_BARRIER
        __syncthreads();
#endif
#pragma unroll 1
        for (unsigned block = 0; block < blocks; block++) {
#if NON_COHERENT_LOAD
            tile[threadIdx.x] = __ldg(&mine[block * width + threadIdx.x]);
#elif LOAD_ABOVE_WAIT
            if (block > 0) copy(&tile[threadIdx.x], &mine[block * width + threadIdx.x]);
#else
            copy(&tile[threadIdx.x], &mine[block * width + threadIdx.x]);
#endif
#if !NON_COHERENT_LOAD && !ASYNC_COPY_PENDING
            asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
            __syncthreads();
            float score = query * tile[threadIdx.x ^ 1], more = fmaxf(most, score);
            sum = sum * __expf(most - more) + __expf(score - more);
            most = more;
            __syncthreads();
        }
        out[head * width + threadIdx.x] = sum;
    }
}
