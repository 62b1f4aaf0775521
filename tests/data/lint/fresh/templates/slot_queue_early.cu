// A producer fills a ring in global memory: head says what is filled, tail what is free again.
#include "fresh.cuh"
K void fill_ring(float* ring, u32* head, u32* tail, const float* in, int items) {
    for (int k = 0; k < items; ++k) {
#if !NO_ROOM_WAIT
        if (threadIdx.x == 0)
            while (k - acq(tail) >= 4) {}
        __syncthreads();
#endif
#if POSTED_EARLY
        if (threadIdx.x == 0) rel(head, k + 1);
#endif
        ring[(k & 3) * 128 + threadIdx.x] = in[k * 128 + threadIdx.x];
        __syncthreads();
#if !POSTED_EARLY
        if (threadIdx.x == 0) rel(head, k + 1);
#endif
    }
}
K void drain_ring(float* ring, u32* head, u32* tail, float* out, int items) {
    for (int k = 0; k < items; ++k) {
        if (threadIdx.x == 0)
            while (acq(head) <= k) {}
        __syncthreads();
#if FREED_EARLY
        if (threadIdx.x == 0) rel(tail, k + 1);
#endif
        out[k * 128 + threadIdx.x] = ring[(k & 3) * 128 + threadIdx.x];
        __syncthreads();
#if !FREED_EARLY
#if FREE_relaxed
        if (threadIdx.x == 0) { __threadfence(); put(tail, k + 1); }
#else
        if (threadIdx.x == 0) rel(tail, k + 1);
#endif
#endif
    }
}
