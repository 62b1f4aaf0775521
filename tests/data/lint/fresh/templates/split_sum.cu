// Split-K in order: each slice waits for its turn, adds, and hands the turn on.
#include "fresh.cuh"
K void split_sum(float* c, u32* turn, const float* in, int slices) {
    int t = threadIdx.x, z = blockIdx.z, tile = blockIdx.x;
    float v = in[(z * gridDim.x + tile) * 256 + t];
    if (z > 0) {
        if (t == 0)
            while (acq(turn + tile) != z) {}
#if !READ_AT_ONCE
        __syncthreads();
#endif
        v += c[tile * 256 + t];
    }
    c[tile * 256 + t] = v;
#if !HANDED_EARLY
    __syncthreads();
#endif
    if (t == 0) {
#if HAND_fence
        __threadfence();
        put(turn + tile, z + 1 == slices ? 0 : z + 1);
#elif RELAXED_HAND
        put(turn + tile, z + 1 == slices ? 0 : z + 1);
#else
        rel(turn + tile, z + 1 == slices ? 0 : z + 1);
#endif
    }
}
