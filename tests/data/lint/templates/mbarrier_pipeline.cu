// A producer warp loads k-blocks by bulk copies into a ring of buffers; the other warps consume them. Full and empty
// mbarriers pass the buffers on. The producer warp waits for the tile's semaphore first.
#include "forms.cuh"

#if DEPTH_4
constexpr unsigned depth = 4;
#else
constexpr unsigned depth = 2;
#endif

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void await(unsigned barrier, unsigned parity) {
#if TRY_ONCE
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n}"
                 ::"r"(barrier), "r"(parity) : "memory");
#elif TRY_c_loop
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
#else
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}"
                 ::"r"(barrier), "r"(parity) : "memory");
#endif
}

extern "C" __global__ void produce_rows(const float* in, float* rows, unsigned* flags, unsigned count) {
#pragma unroll 1
    for (unsigned k = 0; k < count; k++) {
        unsigned at = (blockIdx.x * count + k) * 128 + threadIdx.x;
        rows[at] = in[at];
    }
    __syncthreads();
    if (threadIdx.x == 0) post(&flags[blockIdx.x], 1);
}

extern "C" __global__ void __launch_bounds__(160) consume_rows(const float* rows, float* out, unsigned* flags,
                                                               unsigned count) {
    __shared__ alignas(128) float buffers[depth][128];
    __shared__ alignas(8) unsigned long long full[depth], empty[depth];
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < depth; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[i])) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(shared_address(&empty[i])) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const float* mine = rows + blockIdx.x * count * 128;
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128) {
            wait_at_least(&flags[blockIdx.x], 1);
#if !NO_PROXY_FENCE
            asm volatile("fence.proxy.async;" ::: "memory");
#endif
            for (unsigned k = 0; k < count; k++) {
                unsigned slot = k % depth;
#if !NO_EMPTY_WAIT
#if ONE_PHASE
                await(shared_address(&empty[slot]), 1);
#else
                await(shared_address(&empty[slot]), (k / depth + 1) % 2);
#endif
#endif
                unsigned barrier = shared_address(&full[slot]);
#if NO_EXPECT
                asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#else
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(barrier) : "memory");
#endif
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                             ::"r"(shared_address(buffers[slot])), "l"(mine + k * 128), "r"(barrier) : "memory");
            }
        }
        return;
    }
    float sum = 0.0f;
    for (unsigned k = 0; k < count; k++) {
        unsigned slot = k % depth;
#if !NO_FULL_WAIT
#if ONE_PHASE
        await(shared_address(&full[slot]), 0);
#else
        await(shared_address(&full[slot]), k / depth % 2);
#endif
#endif
        sum += buffers[slot][127 - threadIdx.x];
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&empty[slot])) : "memory");
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
