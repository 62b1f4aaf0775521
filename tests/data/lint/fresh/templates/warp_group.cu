// A warp group multiplies two tiles that its threads have staged.
#include "fresh.cuh"
D u64 desc(const void* p) { return (u64)((sm(p) & 0x3FFFF) >> 4) | 1ull << 62 | 1ull << 16 | 64ull << 32; }
K void __launch_bounds__(128) warp_group(const uint4* a, const uint4* b, float* out, int steps) {
    __shared__ alignas(1024) uint4 sa[512], sb[64];
    int t = threadIdx.x;
    float c[4] = {0, 0, 0, 0};
    for (int k = 0; k < steps; ++k) {
        __syncthreads();
        for (int i = t; i < 512; i += 128) sa[i] = a[k * 512 + i];
        if (t < 64) sb[t] = b[k * 64 + t];
#if !UNFENCED
        proxy();
#endif
        __syncthreads();
#if !NO_FENCE
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(desc(sa)), "l"(desc(sb)));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#if WAIT_inside && !NO_WAIT
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#elif !NO_WAIT
        asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])::"memory");
#endif
    }
    for (int i = 0; i < 4; ++i) out[(blockIdx.x * 128 + t) * 4 + i] = c[i];
}
