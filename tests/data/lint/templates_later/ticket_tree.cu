// Split-K by a tree: of two slices that share a node the first leaves its sum there and ends; the second, as its ticket
// says, takes that sum along to the next level.
extern "C" __global__ void ticket_tree(const float* a, float* sums, float* out, unsigned* tickets, unsigned levels) {
    __shared__ unsigned ticket;
    unsigned node = blockIdx.x;
    float mine = a[blockIdx.x * 64 + threadIdx.x];
#pragma unroll 1
    for (unsigned level = 0; level < levels; level++) {
        unsigned base = (level * gridDim.x + node / 2 * 2) * 64 + threadIdx.x;
        unsigned* counter = &tickets[level * gridDim.x + node / 2];
#if POST_BEFORE_STORES
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            ticket = atomicAdd(counter, 1);
            __threadfence();
        }
        sums[base + node % 2 * 64] = mine;
        __syncthreads();
#else
        sums[base + node % 2 * 64] = mine;
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
        if (threadIdx.x == 0) {
#if TICKET_fences
#if NARROW_POST
            __threadfence_block();
#elif !NO_RELEASE
            __threadfence();
#endif
            ticket = atomicAdd(counter, 1);
#if !NO_ACQUIRE
            __threadfence();
#endif
#else
#if NO_RELEASE
            ticket = __nv_atomic_fetch_add(counter, 1u, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE);
#elif NO_ACQUIRE
            ticket = __nv_atomic_fetch_add(counter, 1u, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
#elif NARROW_POST
            ticket = __nv_atomic_fetch_add(counter, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_BLOCK);
#else
            ticket = __nv_atomic_fetch_add(counter, 1u, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE);
#endif
#endif
        }
        __syncthreads();
#endif
        if (ticket == 0) return;
        mine += sums[base + (1 - node % 2) * 64];
        node /= 2;
        __syncthreads();
    }
    out[threadIdx.x] = mine;
}
