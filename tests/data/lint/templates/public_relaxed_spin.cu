// A distributed GEMM's epilogue spins on a flag of the system's scope by relaxed compare-and-swap and relies on a warp
// barrier for order.
extern "C" __global__ void reduce_scatter(const float4* peers, float4* out, unsigned* flags) {
    if (threadIdx.x % 32 == 0) {
        unsigned seen;
        do {
#if BUG
            asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(&flags[blockIdx.x]) : "memory");
#else
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(&flags[blockIdx.x]) : "memory");
#endif
        } while (seen < 8);
    }
    __syncwarp();
    float4 sum = make_float4(0, 0, 0, 0);
    for (unsigned rank = 0; rank < 8; rank++) {
        float4 part = peers[rank * 4096 + blockIdx.x * blockDim.x + threadIdx.x];
        sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
