// Blocks that stay on their SM until it is let go, and blocks that only say that they have begun.

#include <cusync/clock.cuh>

__device__ __forceinline__ void stay(const volatile unsigned* gates, unsigned* begun, unsigned* gave_up,
                                     unsigned long long limit_ns) {
    extern __shared__ char memory[];
    if (threadIdx.x == 0) {
        memory[0] = 0;
        const unsigned long long began = cusync::time_ns();
        atomicAdd(begun, 1u);
        while (gates[cusync::sm_id()] == 0 && cusync::time_ns() - began < limit_ns) __nanosleep(200);
        if (gates[cusync::sm_id()] == 0) atomicAdd(gave_up, 1u);
    }
    __syncthreads();  // warps that end give their place back before their block does
}

// Two kernels, so that each can prefer a shared-memory carve-out of its own.
extern "C" __global__ void hold(const volatile unsigned* gates, unsigned* begun, unsigned* gave_up,
                                unsigned long long limit_ns) {
    stay(gates, begun, gave_up, limit_ns);
}
extern "C" __global__ void hold_default(const volatile unsigned* gates, unsigned* begun, unsigned* gave_up,
                                        unsigned long long limit_ns) {
    stay(gates, begun, gave_up, limit_ns);
}
extern "C" __global__ void begin(unsigned* begun) {
    extern __shared__ char memory[];
    if (threadIdx.x != 0) return;
    memory[0] = 0;
    atomicAdd(begun, 1u);
}
