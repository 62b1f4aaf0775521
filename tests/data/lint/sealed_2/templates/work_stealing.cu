// Blocks draw rows from a counter: a draw orders nothing, and nothing has to be ordered.
#include <cuda/atomic>

extern "C" __global__ void work_stealing(const float* in, float* out, unsigned* next, unsigned rows, int width) {
    __shared__ unsigned drawn;
    while (true) {
        if (threadIdx.x == 0) {
#if DRAW_atomic_ref
            cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*next);
            drawn = counter.fetch_add(1, cuda::memory_order_relaxed);
#else
            drawn = atomicAdd(next, 1);
#endif
        }
        __syncthreads();
        unsigned row = drawn;
        __syncthreads();
        if (row >= rows) return;
        for (int i = threadIdx.x; i < width; i += blockDim.x) out[row * width + i] = tanhf(in[row * width + i]);
    }
}
