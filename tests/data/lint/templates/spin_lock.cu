// A lock taken by compare-and-swap and given back by an exchange, around two words that belong together.
#include "forms.cuh"

__device__ __forceinline__ void lock(unsigned* word) {
#if LOCK_acquire
    unsigned seen;
    do {
        asm volatile("atom.cas." TEXT(ACQUIRE) "." TEXT(WAIT_SCOPE) ".global.b32 %0, [%1], 0, 1;"
                     : "=r"(seen) : "l"(word) : "memory");
    } while (seen != 0);
#else
    while (atomicCAS(word, 0, 1) != 0) {
    }
#if !NO_ACQUIRE
    WAIT_FENCE;
#endif
#endif
}

__device__ __forceinline__ void unlock(unsigned* word) {
#if LOCK_acquire
    asm volatile("st." TEXT(RELEASE) "." TEXT(POST_SCOPE) ".global.u32 [%0], 0;" ::"l"(word) : "memory");
#else
#if !NO_RELEASE
    POST_FENCE;
#endif
    atomicExch(word, 0);
#endif
}

extern "C" __global__ void append(const float* in, float* values, unsigned* count, unsigned* locks) {
    if (threadIdx.x == 0) {
        float value = in[blockIdx.x];
        unsigned bin = blockIdx.x % 16;
        lock(&locks[bin]);
        unsigned place = count[bin];
        values[bin * 1024 + place] = value;
#if POST_BEFORE_STORES
        unlock(&locks[bin]);
        count[bin] = place + 1;
#else
        count[bin] = place + 1;
        unlock(&locks[bin]);
#endif
    }
}
