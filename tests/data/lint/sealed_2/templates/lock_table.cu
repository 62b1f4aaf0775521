// A hash table whose buckets have locks: one lane of a warp inserts at a time.
__device__ void acquire(int* lock) {
#if LOCK_assembly
    int before;
    do {
        asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(before) : "l"(lock) : "memory");
    } while (before != 0);
#else
#if NEAR_LOCK
    while (atomicCAS_block(lock, 0, 1) != 0) __nanosleep(32);
    __threadfence_block();
#else
    while (atomicCAS(lock, 0, 1) != 0) __nanosleep(32);
#if !LOCK_NOT_ACQUIRED
    __threadfence();
#endif
#endif
#endif
}

__device__ void release(int* lock) {
#if LOCK_assembly
    asm volatile("st.release.gpu.global.s32 [%0], 0;" ::"l"(lock) : "memory");
#elif NEAR_LOCK
    __threadfence_block();
    atomicExch_block(lock, 0);
#else
#if !LOCK_NOT_RELEASED
    __threadfence();
#endif
    atomicExch(lock, 0);
#endif
}

extern "C" __global__ void lock_table(const int* keys, const int* values, int* locks, int2* buckets, int* sizes, int n) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (warp >= n || (threadIdx.x & 31) != 0) return;
    int bucket = (keys[warp] * 2654435761u) >> 22;
    acquire(locks + bucket);
    int size = sizes[bucket];
#if UNLOCK_BEFORE_INSERT
    release(locks + bucket);
#endif
    if (size < 16) {
        buckets[bucket * 16 + size] = make_int2(keys[warp], values[warp]);
        sizes[bucket] = size + 1;
    }
#if !UNLOCK_BEFORE_INSERT
    release(locks + bucket);
#endif
}
