#include <cuda/atomic>
extern "C" __global__ void library_ready(const float* x, float* y, unsigned* ready) {
  unsigned block = blockIdx.x;
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(ready[block]);
  y[block * 256 + threadIdx.x] = 2.0f * x[block * 256 + threadIdx.x];
  __syncthreads();
#ifdef NO_RELEASE
  if (threadIdx.x == 0) flag.fetch_add(1, cuda::std::memory_order_relaxed);
#else
  if (threadIdx.x == 0) flag.fetch_add(1, cuda::std::memory_order_release);
#endif
}
extern "C" __global__ void library_reader(const float* y, float* z, unsigned* ready) {
  unsigned block = blockIdx.x;
  if (threadIdx.x == 0) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(ready[block]);
    while (flag.load(cuda::std::memory_order_acquire) == 0) __nanosleep(20);
  }
  __syncthreads();
  z[block * 256 + threadIdx.x] = y[block * 256 + threadIdx.x] + 1.0f;
}
