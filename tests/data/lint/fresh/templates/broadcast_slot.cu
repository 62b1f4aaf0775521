// A persistent kernel: thread 0 draws a tile and tells the block through shared memory.
#include "fresh.cuh"
K void __launch_bounds__(128) broadcast_slot(u32* next, const float* in, float* out, int tiles) {
#if SLOT_two
    __shared__ u32 slot[2];
    for (int turn = 0;; ++turn) {
        u32* s = slot + (turn & 1);
        if (threadIdx.x == 0) *s = atomicAdd(next, 1u);
        __syncthreads();
        u32 tile = *s;
        if (tile >= tiles) return;
        out[tile * 128 + threadIdx.x] = in[tile * 128 + threadIdx.x] + 1;
    }
#else
    __shared__ u32 slot;
    for (;;) {
        if (threadIdx.x == 0) slot = atomicAdd(next, 1u);
#if !READ_AT_ONCE
        __syncthreads();
#endif
        u32 tile = slot;
#if !NO_SECOND_BARRIER
        __syncthreads();
#endif
        if (tile >= tiles) return;
        out[tile * 128 + threadIdx.x] = in[tile * 128 + threadIdx.x] + 1;
    }
#endif
}
