// Roles by warp with named barriers: three warps make, one warp stores; each pair of ids hands a buffer over.
template <int id>
__device__ __forceinline__ void join(int threads) {
    asm volatile("bar.sync %0, %1;" ::"n"(id), "r"(threads) : "memory");
}
template <int id>
__device__ __forceinline__ void signal(int threads) {
    asm volatile("bar.arrive %0, %1;" ::"n"(id), "r"(threads) : "memory");
}

#if MISCOUNTED
constexpr int everybody = 96;  // the warp that stores is a fourth
#else
constexpr int everybody = 128;
#endif

extern "C" __global__ void __launch_bounds__(128) warp_roles(const float* in, float* out, int rounds) {
    __shared__ float made[96];
    int warp = threadIdx.x / 32;
    for (int round = 0; round < rounds; round++) {
        int at = (blockIdx.x * rounds + round) * 96;
        if (warp < 3) {
            float v = in[at + threadIdx.x];
            if (round > 0) join<2>(128);
            made[threadIdx.x] = v > 0 ? v : 0.1f * v;
#if BARRIER_IN_BRANCH
            if (v > 0) join<1>(everybody);
#else
            signal<1>(everybody);
#endif
        } else {
            join<1>(everybody);
            for (int i = threadIdx.x - 96; i < 96; i += 32) out[at + i] = made[95 - i];
            if (round + 1 < rounds) signal<2>(128);
        }
    }
}
