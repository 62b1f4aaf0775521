// Waits for a tile, then loads it by a bulk copy that completes on an mbarrier: ordinary stores of another block,
// seen through the flag, are read by the asynchronous proxy, so a proxy fence stands between.
#include "forms.cuh"

#if TRY_test_wait
#define TRY test_wait
#else
#define TRY try_wait
#endif

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ bool try_wait(unsigned barrier, unsigned parity) {
    unsigned done;
    asm volatile("{\n.reg .pred p;\nmbarrier." TEXT(TRY) ".parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    return done;
}

__device__ __forceinline__ void issue_load(float* to, const float* from, unsigned column, unsigned barrier) {
#if LOAD_tensor
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];"
                 ::"r"(shared_address(to)), "l"(from), "r"(barrier), "r"(column) : "memory");
#else
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %3, [%2];"
                 ::"r"(shared_address(to)), "l"(from), "r"(barrier), "r"(1024) : "memory");
#endif
}

#if LOAD_tensor
struct alignas(64) TensorMap {
    unsigned long long words[16];
};
#define SOURCE_PARAMETER const __grid_constant__ TensorMap
#define SOURCE(tiles, k) reinterpret_cast<const float*>(&tiles)
#else
#define SOURCE_PARAMETER const float*
#define SOURCE(tiles, k) (tiles + (blockIdx.x * count + (k)) * 256)
#endif

extern "C" __global__ void produce_plain(const float* in, float* tiles, unsigned* flags, unsigned count) {
#pragma unroll 1
    for (unsigned k = 0; k < count; k++) {
        unsigned at = (blockIdx.x * count + k) * 256 + threadIdx.x;
        tiles[at] = in[at] * 2.0f;
    }
#if RELEASE_proxy_fence
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
    __syncthreads();
    if (threadIdx.x == 0) post(&flags[blockIdx.x], 1);
}

extern "C" __global__ void consume_by_tma(SOURCE_PARAMETER tiles, float* out, unsigned* flags, unsigned count) {
    __shared__ alignas(128) float tile[256];
    __shared__ alignas(8) unsigned long long full;
    unsigned barrier = shared_address(&full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float sum = 0.0f;
#if LOAD_ABOVE_WAIT
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(barrier) : "memory");
        issue_load(tile, SOURCE(tiles, 0), blockIdx.x * count * 256, barrier);
    }
#endif
    if (threadIdx.x == 0) {
        wait_at_least(&flags[blockIdx.x], 1);
#if !NO_PROXY_FENCE
#if FENCE_all
        asm volatile("fence.proxy.async;" ::: "memory");
#else
        asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
#endif
    }
#pragma unroll 1
    for (unsigned k = 0; k < count; k++) {
#if LOAD_ABOVE_WAIT
        if (threadIdx.x == 0 && k > 0) {
#else
        if (threadIdx.x == 0) {
#endif
#if !NO_EXPECT
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(barrier) : "memory");
#else
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
            issue_load(tile, SOURCE(tiles, k), (blockIdx.x * count + k) * 256, barrier);
        }
#if ONE_PHASE
        unsigned parity = 0;
#else
        unsigned parity = k % 2;
#endif
#if TRY_ONCE
        try_wait(barrier, parity);
#elif !NO_MBARRIER_WAIT
        while (!try_wait(barrier, parity)) {
        }
#endif
        sum += tile[threadIdx.x] * (k + 1);
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
