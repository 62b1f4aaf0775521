// A flag by cuda::atomic_ref: two kernels of one file.
#include <cuda/atomic>
#include "fresh.cuh"
#if NARROW_REF
using Ref = cuda::atomic_ref<u32, cuda::thread_scope_block>;
#else
using Ref = cuda::atomic_ref<u32, cuda::thread_scope_device>;
#endif
#if RELAXED_STORE
constexpr auto store_order = cuda::memory_order_relaxed;
#else
constexpr auto store_order = cuda::memory_order_release;
#endif
#if RELAXED_LOAD
constexpr auto load_order = cuda::memory_order_relaxed;
#else
constexpr auto load_order = cuda::memory_order_acquire;
#endif
K void tell(float* data, u32* flag, const float* in) {
    int i = blockIdx.x * 128 + threadIdx.x;
    data[i] = in[i] + 1;
    __syncthreads();
#if TELL_add
    if (threadIdx.x == 0) Ref(flag[blockIdx.x]).fetch_add(1, store_order);
#else
    if (threadIdx.x == 0) Ref(flag[blockIdx.x]).store(1, store_order);
#endif
}
K void hear(const float* data, u32* flag, float* out) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x == 0)
        while (Ref(flag[blockIdx.x]).load(load_order) == 0) {}
    __syncthreads();
    out[i] = data[i];
}
