// Three ways to poll by an ordinary load, which nothing keeps the compiler or the cache from answering once for all:
// with a pause between looks, with a block barrier in the loop, and in assembly.
extern "C" __global__ void produce_tile(const float* in, float* tile, unsigned* ready) {
    tile[blockIdx.x * 128 + threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x] * 2.0f;
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(ready) : "memory");
}

extern "C" __global__ void consume_tile(const float* tile, float* out, const unsigned* ready, unsigned count) {
#if WEAK_POLL
#define LOAD(to) to = *ready
#define WEAK_LOAD(to) asm volatile("ld.global.u32 %0, [%1];" : "=r"(to) : "l"(ready) : "memory")
#else
#define LOAD(to) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(to) : "l"(ready) : "memory")
#define WEAK_LOAD(to) LOAD(to)
#endif
    unsigned seen;
#if LOOP_barrier
    do {
        LOAD(seen);
    } while (__syncthreads_or(seen < count));
#elif LOOP_assembly
    do {
        WEAK_LOAD(seen);
    } while (seen < count);
#else
    LOAD(seen);
    while (seen < count) {
        __nanosleep(100);
        LOAD(seen);
    }
#endif
    out[blockIdx.x * 128 + threadIdx.x] = tile[blockIdx.x * 128 + threadIdx.x] + 1.0f;
}
