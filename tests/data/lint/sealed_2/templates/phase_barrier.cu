// A grid barrier of count and phase, with back-off; the last to arrive sets the count back and turns the phase.
#include <cuda/atomic>

using Counter = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;
#if BLOCK_PHASE
using Phase = cuda::atomic_ref<unsigned, cuda::thread_scope_block>;
#else
using Phase = Counter;
#endif

__device__ void barrier(unsigned* count, unsigned* phase) {
    __syncthreads();
    if (threadIdx.x == 0) {
        Phase turned(*phase);
        unsigned mine = turned.load(cuda::memory_order_relaxed);
#if RELAXED_ARRIVAL
        unsigned before = Counter(*count).fetch_add(1, cuda::memory_order_relaxed);
#else
        unsigned before = Counter(*count).fetch_add(1, cuda::memory_order_acq_rel);
#endif
        if (before == gridDim.x - 1) {
            Counter(*count).store(0, cuda::memory_order_relaxed);
            turned.store(mine + 1, cuda::memory_order_release);
        } else {
            unsigned nap = 8;
#if RELAXED_DEPARTURE
            while (turned.load(cuda::memory_order_relaxed) == mine) {
#else
            while (turned.load(cuda::memory_order_acquire) == mine) {
#endif
                __nanosleep(nap);
                if (nap < 256) nap *= 2;
            }
        }
    }
#if !FREE_DEPARTURE
    __syncthreads();
#endif
}

extern "C" __global__ void phase_barrier(float* x, float* norms, float* out, unsigned* count, unsigned* phase) {
    __shared__ float parts[4];
    int i = blockIdx.x * 128 + threadIdx.x;
    float v = x[i], s = v * v;
    for (int m = 16; m > 0; m >>= 1) s += __shfl_xor_sync(~0u, s, m);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) norms[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
    barrier(count, phase);
    float all = 0;
    for (unsigned b = 0; b < gridDim.x; b++) all += norms[b];
    out[i] = v * rsqrtf(all);
}
