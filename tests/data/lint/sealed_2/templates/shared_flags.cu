// Warps of one block hand over through shared memory: there the block's scope is wide enough.
__device__ __forceinline__ unsigned at_block(unsigned* flag) {
    unsigned v, a = static_cast<unsigned>(__cvta_generic_to_shared(flag));
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory");
    return v;
}

extern "C" __global__ void __launch_bounds__(64) shared_flags(const float* in, float* out, int rounds) {
    __shared__ float passed[32];
    __shared__ unsigned given, taken;
    if (threadIdx.x == 0) given = taken = 0;
    __syncthreads();
    int lane = threadIdx.x & 31;
    for (int r = 0; r < rounds; r++) {
        int at = (blockIdx.x * rounds + r) * 32 + lane;
        if (threadIdx.x < 32) {
            if (lane == 0)
                while (at_block(&taken) != r) {
                }
            __syncwarp();
            passed[lane] = in[at] * 0.5f;
            __syncwarp();
            if (lane == 0) {
                unsigned a = static_cast<unsigned>(__cvta_generic_to_shared(&given));
                asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(a), "r"(r + 1) : "memory");
            }
        } else {
            if (lane == 0)
                while (at_block(&given) != r + 1) {
                }
            __syncwarp();
            out[at] = passed[31 - lane];
            __syncwarp();
            if (lane == 0) {
                unsigned a = static_cast<unsigned>(__cvta_generic_to_shared(&taken));
                asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(a), "r"(r + 1) : "memory");
            }
        }
    }
}
