// Each thread posts its own element by a relaxed store.
#include "common.cuh"
ENTRY first(ARGUMENTS) {
    data[INDEX] = 2 * input[INDEX];
    unsigned one = 1;
    RIGHT(asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flags + INDEX), "r"(one) : "memory");)
    WRONG(asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(flags + INDEX), "r"(one) : "memory");)
}
ENTRY second(ARGUMENTS) {
    spin_acquire(flags + INDEX, 1);
    out[INDEX] = data[INDEX] + 1;
}
