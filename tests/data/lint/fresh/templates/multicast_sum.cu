// GPUs add into multicast memory and raise a flag at all of them.
#include "fresh.cuh"
K void multicast_sum(float* mc, u32* mc_flag, u32* flag, float* local, float* out, u32 goal) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(mc + i), "f"(local[i]) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
#if RELAXED_FLAG
        asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(mc_flag) : "memory");
#elif NARROW_FLAG
        asm volatile("multimem.red.release.gpu.global.add.u32 [%0], 1;" ::"l"(mc_flag) : "memory");
#elif FLAG_fenced
        __threadfence_system();
        asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(mc_flag) : "memory");
#else
        asm volatile("multimem.red.release.sys.global.add.u32 [%0], 1;" ::"l"(mc_flag) : "memory");
#endif
        while (acq_sys(flag) < goal) {}
    }
    __syncthreads();
    float v;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(v) : "l"(mc + i) : "memory");
    out[i] = v;
}
