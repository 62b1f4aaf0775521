// Gradients added to memory by bulk reductions; the last of the sharers, by a released turn, converts the sum.
#include <cuda/atomic>

extern "C" __global__ void __launch_bounds__(64)
    bulk_accumulate(const float* in, float* sums, float* result, int* turns, int sharers) {
    __shared__ alignas(128) float mine[256];
    __shared__ int turn;
    for (int i = threadIdx.x; i < 256; i += 64) mine[i] = in[(blockIdx.y * gridDim.x + blockIdx.x) * 256 + i];
#if !PROXY_FENCE_LEFT_OUT
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(mine));
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 1024;" ::"l"(
                         sums + blockIdx.x * 256), "r"(from) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#if SOURCE_ONLY
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#elif !NOT_DRAINED
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
        cuda::atomic_ref<int, cuda::thread_scope_device> counter(turns[blockIdx.x]);
        turn = counter.fetch_add(1, cuda::memory_order_acq_rel);
    }
    __syncthreads();
    if (turn != sharers - 1) return;
    for (int i = threadIdx.x; i < 256; i += 64) {
        result[blockIdx.x * 256 + i] = __ldcg(sums + blockIdx.x * 256 + i) / sharers;
    }
}
