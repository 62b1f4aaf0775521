// A record with a sequence number: odd while it is being written. A reader takes it again when the number was odd or
// has changed meanwhile. The record itself is read and written by relaxed accesses, as both may meet.
#if NARROW_WAIT
#define WAIT_SCOPE __NV_THREAD_SCOPE_BLOCK
#else
#define WAIT_SCOPE __NV_THREAD_SCOPE_DEVICE
#endif
#if NARROW_POST
#define POST_SCOPE __NV_THREAD_SCOPE_BLOCK
#else
#define POST_SCOPE __NV_THREAD_SCOPE_DEVICE
#endif

__device__ __forceinline__ unsigned relaxed(const unsigned* word) {
    return __nv_atomic_load_n(const_cast<unsigned*>(word), __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
}

__device__ __forceinline__ void store(unsigned* word, unsigned value) {
    __nv_atomic_store_n(word, value, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
}

extern "C" __global__ void write_records(const unsigned* in, unsigned* records, unsigned* numbers, unsigned rounds) {
    if (threadIdx.x != 0) return;
    unsigned* record = records + blockIdx.x * 2;
    unsigned* number = &numbers[blockIdx.x];
#pragma unroll 1
    for (unsigned round = 0; round < rounds; round++) {
        store(number, 2 * round + 1);
        __threadfence();
        unsigned value = in[blockIdx.x * rounds + round];
#if POST_BEFORE_STORES
        __nv_atomic_store_n(number, 2 * round + 2, __NV_ATOMIC_RELEASE, POST_SCOPE);
        store(&record[0], value);
        store(&record[1], ~value);
#else
        store(&record[0], value);
        store(&record[1], ~value);
#if NO_RELEASE
        store(number, 2 * round + 2);
#elif POST_fence
        __threadfence();
        *const_cast<volatile unsigned*>(number) = 2 * round + 2;
#else
        __nv_atomic_store_n(number, 2 * round + 2, __NV_ATOMIC_RELEASE, POST_SCOPE);
#endif
#endif
    }
}

extern "C" __global__ void read_records(const unsigned* records, unsigned* out, unsigned* numbers, unsigned wanted) {
    if (threadIdx.x != 0) return;
    const unsigned* record = records + blockIdx.x * 2;
    unsigned* number = &numbers[blockIdx.x];
    unsigned before, first, second, after;
    do {
#if NO_ACQUIRE
        before = relaxed(number);
#else
        before = __nv_atomic_load_n(number, __NV_ATOMIC_ACQUIRE, WAIT_SCOPE);
#endif
        first = relaxed(&record[0]);
        second = relaxed(&record[1]);
        __threadfence();
        after = relaxed(number);
    } while (before != after || before % 2 == 1 || before < wanted);
    out[blockIdx.x * 2] = first;
    out[blockIdx.x * 2 + 1] = second;
}
