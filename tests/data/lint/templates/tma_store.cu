// A tile is made in shared memory and written by one bulk store; its flag is posted once it is in global memory.
#include "forms.cuh"

#if READ_ONLY_WAIT
#define WAIT_FOR_STORE "cp.async.bulk.wait_group.read 0;"
#elif PENDING_GROUP
#define WAIT_FOR_STORE "cp.async.bulk.wait_group 1;"
#else
#define WAIT_FOR_STORE "cp.async.bulk.wait_group 0;"
#endif

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void issue_store(const float* to, const float* from, unsigned bytes) {
#if STORE_reduce
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 ::"l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
#elif STORE_tensor
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];"
                 ::"l"(to), "r"(shared_address(from)), "r"(blockIdx.x * bytes / 4) : "memory");
#else
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
#endif
}

#if STORE_tensor
struct alignas(64) TensorMap {
    unsigned long long words[16];
};
#define DESTINATION_PARAMETER const __grid_constant__ TensorMap
#define DESTINATION(tiles) reinterpret_cast<const float*>(&tiles)
#else
#define DESTINATION_PARAMETER float*
#define DESTINATION(tiles) (tiles + blockIdx.x * 256)
#endif

extern "C" __global__ void produce_bulk(const float* in, DESTINATION_PARAMETER tiles, unsigned* flags) {
    __shared__ alignas(128) float tile[256];
    tile[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x] * 3.0f;
#if !NO_PROXY_FENCE && !PROXY_FENCE_AFTER_BARRIER
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
#if PROXY_FENCE_AFTER_BARRIER
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
        issue_store(DESTINATION(tiles), tile, 1024);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#if !NO_BULK_WAIT
        asm volatile(WAIT_FOR_STORE ::: "memory");
#endif
#if GENERIC_AFTER_BULK
        asm volatile("fence.proxy.async;" ::: "memory");
#endif
        post(&flags[blockIdx.x], 1);
    }
}

extern "C" __global__ void consume_bulk(const float* tiles, float* out, unsigned* flags) {
    if (threadIdx.x == 0) wait_at_least(&flags[blockIdx.x], 1);
    __syncthreads();
    out[blockIdx.x * 256 + threadIdx.x] = tiles[blockIdx.x * 256 + threadIdx.x] + 1.0f;
}
