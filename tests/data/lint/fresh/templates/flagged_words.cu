// NCCL's LL protocol: each word of data travels with its flag in one store; no fence is needed.
#include "fresh.cuh"
K void flagged_send(uint4* fifo, const uint2* in, u32 flag) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint2 v = in[i];
#if TORN
    asm volatile("st.volatile.global.v2.u32 [%0], {%1,%2};" ::"l"(fifo + i), "r"(v.x), "r"(v.y) : "memory");
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(&fifo[i].z), "r"(flag) : "memory");
#else
#if ORDER_relaxed
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(fifo + i), "r"(v.x), "r"(flag), "r"(v.y), "r"(flag) : "memory");
#else
    asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(fifo + i), "r"(v.x), "r"(flag), "r"(v.y), "r"(flag) : "memory");
#endif
#endif
}
K void flagged_receive(uint4* fifo, uint2* out, u32 flag) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    u32 a, f1, b, f2;
#if TORN
    do asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(f1) : "l"(&fifo[i].z) : "memory");
    while (f1 != flag);
    asm volatile("ld.volatile.global.v2.u32 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "l"(fifo + i) : "memory");
#else
    do asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(f1), "=r"(b), "=r"(f2) : "l"(fifo + i) : "memory");
    while (f1 != flag || f2 != flag);
#endif
    out[i] = make_uint2(a, b);
}
