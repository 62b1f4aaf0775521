// Semaphores: counters in global memory. Included or copied inside a namespace; needs nothing else.

// Nanoseconds, one clock for the whole GPU; it moves in steps (32 ns on an H200).
__device__ __forceinline__ unsigned long long time_ns() {
    unsigned long long value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}

// Relaxed: says only what the counter held. Whoever goes on to read the producer's data fences after it.
__device__ __forceinline__ unsigned load_relaxed(const unsigned* counter) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

// Acquire, GPU scope: where it reads the awaited value, the producer's data may be read. It costs more than a relaxed
// load and less than that and a fence: for one look, not for spinning, as each one drops the L1's lines.
__device__ __forceinline__ unsigned load_acquire(const unsigned* counter) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

// Acquire, GPU scope. After a relaxed load that saw the awaited value it orders every later read of this thread, and
// through the next block barrier of the whole block, behind the producer's stores. It also drops stale L1 lines, so
// that plain loads of the producer's data are right too.
__device__ __forceinline__ void acquire_fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Release, GPU scope: every store that this thread has made, or has been shown by a block barrier just before, is
// visible to whoever acquires the new value.
__device__ __forceinline__ void add_release(unsigned* counter, unsigned value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}

// The same for a semaphore that nobody else posts: a plain store is cheaper than an atomic add.
__device__ __forceinline__ void store_release(unsigned* counter, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}

// Relaxed: no data rides on it.
__device__ __forceinline__ void add_relaxed(unsigned* counter, unsigned value) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}

// Relaxed: for the next run, which comes after all of this one.
__device__ __forceinline__ void store_relaxed(unsigned* counter, unsigned value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}

// Relaxed: hands out numbers. Returns what the counter held before.
__device__ __forceinline__ unsigned fetch_add_relaxed(unsigned* counter, unsigned value) {
    unsigned before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(value) : "memory");
    return before;
}

// Acquire and release, GPU scope, in one: publishes what this thread has stored to those that come later, and shows it
// what those that came before had stored. Returns what the counter held before.
__device__ __forceinline__ unsigned fetch_add_acq_rel(unsigned* counter, unsigned value) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(value) : "memory");
    return before;
}
