// A block talks to itself through global memory: a barrier is all that its flag needs.
#include "fresh.cuh"
K void own_flags(float* scratch, u32* state, const float* in, float* out, int rounds) {
    u32* mine = state + blockIdx.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < rounds; ++r) {
        scratch[i] = in[i] * r;
        if (threadIdx.x == 0) *mine = r;
        __syncthreads();
#if LOOK_all
        if (*(volatile u32*)mine == rounds / 2) break;
#endif
        out[i] += scratch[i ^ 1];
        __syncthreads();
    }
}
