// Polls that a compiler may take out of the loop, and the same polls with volatile.
#if BY_reference
struct Door {
    int open;
};
#else
using Door = int;
#endif

__device__ int look(Door* door) {
#if PLAIN
#if BY_reference
    return door->open;
#else
    return *door;
#endif
#else
    return *reinterpret_cast<volatile int*>(door);
#endif
}

extern "C" __global__ void spin_plain(int* values, Door* doors, int* out) {
    if (blockIdx.x == 0) {
        values[threadIdx.x] = threadIdx.x * 3;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicExch(reinterpret_cast<int*>(doors), 1);
        }
        return;
    }
    if (threadIdx.x == 0) {
#if BY_reference
        for (int tries = 0; look(doors) != 1; tries++)
            if (tries > 1 << 28) asm volatile("trap;");
#else
        while (look(doors) == 0) {
        }
#endif
        __threadfence();
    }
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] = values[threadIdx.x];
}
