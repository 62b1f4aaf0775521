// A lock is given back with no fence behind what it guards.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    if (threadIdx.x == 0) {
        unsigned old = 1;
        for (int i = 0; i < POLLS && old; ++i)
            asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(flags) : "memory");
        data[0] = data[0] + input[INDEX];
        RIGHT(__threadfence();)
        atomicExch(flags, 0);
    }
}
ENTRY second(ARGUMENTS) { out[INDEX] = data[0]; }
