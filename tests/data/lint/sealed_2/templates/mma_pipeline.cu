// A small product by mma.sync with four stages of cp.async, as it is written for Ampere.
__device__ __forceinline__ void copy16(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(32) mma_pipeline(const unsigned short* a, const unsigned short* b, float* c,
                                                              int k_blocks) {
    __shared__ alignas(16) unsigned short as[4][16 * 16], bs[4][8 * 16];
    int lane = threadIdx.x, group = lane >> 2, pair = (lane & 3) * 2;
    float acc[4] = {0, 0, 0, 0};
    auto load = [&](int block) {
        if (block < k_blocks) {
            int s = block & 3;
            copy16(static_cast<unsigned>(__cvta_generic_to_shared(&as[s][lane * 8])), a + (block * 32 + lane) * 8);
            if (lane < 16)
                copy16(static_cast<unsigned>(__cvta_generic_to_shared(&bs[s][lane * 8])), b + (block * 16 + lane) * 8);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int s = 0; s < 3; s++) load(s);
    for (int block = 0; block < k_blocks; block++) {
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        __syncthreads();
        const unsigned short *x = as[block & 3], *y = bs[block & 3];
        unsigned a0 = *reinterpret_cast<const unsigned*>(x + group * 16 + pair);
        unsigned a1 = *reinterpret_cast<const unsigned*>(x + (group + 8) * 16 + pair);
        unsigned a2 = *reinterpret_cast<const unsigned*>(x + group * 16 + pair + 8);
        unsigned a3 = *reinterpret_cast<const unsigned*>(x + (group + 8) * 16 + pair + 8);
        unsigned b0 = *reinterpret_cast<const unsigned*>(y + group * 16 + pair);
        unsigned b1 = *reinterpret_cast<const unsigned*>(y + group * 16 + pair + 8);
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        load(block + 3);
    }
    for (int i = 0; i < 4; i++) c[(group + 8 * (i >> 1)) * 8 + pair + (i & 1)] = acc[i];
}
