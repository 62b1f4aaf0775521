// A persistent interpreter: blocks draw instructions, wait for the counters that these depend on, run, count up.
struct Instruction {
    int op, depends_on, needed, signals;
    int in, out;
};

__device__ void await(const unsigned* counter, unsigned needed) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    while (true) {
#if RELAXED_COUNTER
        unsigned v;
        asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(counter) : "memory");
#else
        unsigned v;
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(counter) : "memory");
#endif
        if (v >= needed) return;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        if (now - start > 2000000000ull) asm volatile("trap;");
    }
}

extern "C" __global__ void __launch_bounds__(128)
    megakernel(const Instruction* program, int length, unsigned* next, unsigned* counters, float* pages) {
    __shared__ int fetched;
    while (true) {
        if (threadIdx.x == 0) fetched = atomicAdd(next, 1);
        __syncthreads();
        int at = fetched;
        if (at >= length) return;
        Instruction todo = program[at];
        const float* in = pages + todo.in * 128;
#if EARLY_INPUT
        float x = *reinterpret_cast<const volatile float*>(in + threadIdx.x);
#endif
        if (threadIdx.x == 0 && todo.depends_on >= 0) await(counters + todo.depends_on, todo.needed);
#if !UNGUARDED
        __syncthreads();
#endif
#if CACHED_INPUT
        float x = __ldg(in + threadIdx.x);
#elif !EARLY_INPUT
        float x = in[threadIdx.x];
#endif
        float y;
        switch (todo.op) {
            case 0: y = x * x; break;
            case 1: y = fmaxf(x, 0.0f); break;
            case 2: y = __expf(-x); break;
            default: y = x + 1.0f;
        }
        pages[todo.out * 128 + threadIdx.x] = y;
#if !UNJOINED
        __syncthreads();
#endif
        if (threadIdx.x == 0) {
#if FENCE_BEHIND
            atomicAdd(counters + todo.signals, 1);
            __threadfence();
#elif FENCE_NEAR
            __threadfence_block();
            atomicAdd(counters + todo.signals, 1);
#else
            __threadfence();
            atomicAdd(counters + todo.signals, 1);
#endif
        }
#if UNJOINED
        __syncthreads();
#endif
    }
}
