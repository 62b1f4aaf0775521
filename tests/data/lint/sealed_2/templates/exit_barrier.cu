// Two phases of one launch; the counter is set back for the next launch, by whoever leaves last.
extern "C" __global__ void exit_barrier(const int* in, int* middle, int* out, unsigned* counters) {
    unsigned *entered = counters, *left = counters + 1;
    int i = blockIdx.x * 64 + threadIdx.x;
    middle[i] = in[i] * 3;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(entered, 1);
#if FIRST_RESETS
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(entered) : "memory");
        } while (seen != gridDim.x);
        // Block 0 clears as soon as it is through itself.
        if (blockIdx.x == 0) atomicExch(entered, 0);
#else
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(entered) : "memory");
        } while (seen != gridDim.x);
        if (atomicAdd(left, 1) == gridDim.x - 1) {
            atomicExch(entered, 0);
            atomicExch(left, 0);
        }
#endif
    }
    __syncthreads();
    out[i] = middle[gridDim.x * 64 - 1 - i];
}
