// A stream of batches that the host, or a copy engine, announces by a number: every thread looks for itself.
extern "C" __global__ void host_fed(const float* batches, float* out, const unsigned* announced, int count) {
    for (int batch = 0; batch < count; batch++) {
        unsigned seen;
        do {
#if LOOK_fence
            seen = *const_cast<const volatile unsigned*>(announced);
#elif LOOK_GPU_WIDE
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(announced) : "memory");
#elif LOOK_PLAIN
            seen = *announced;
#elif LOOK_UNORDERED
            asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(announced) : "memory");
#else
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(announced) : "memory");
#endif
        } while (seen <= batch);
#if LOOK_fence
        __threadfence_system();
#endif
        int at = (batch * gridDim.x + blockIdx.x) * 128 + threadIdx.x;
        out[at] = batches[at] * 0.1f;
    }
}
