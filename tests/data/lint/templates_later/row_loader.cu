// A normalisation whose rows come and go by TMA: for each row its own wait, a bulk load, the row's work in shared
// memory, a bulk store, and a post for whoever reads the row next.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ bool has_passed(unsigned barrier, unsigned parity) {
    unsigned done;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    return done;
}

#if NARROW_WAIT
#define WAIT_SCOPE __NV_THREAD_SCOPE_BLOCK
#else
#define WAIT_SCOPE __NV_THREAD_SCOPE_DEVICE
#endif
#if NO_ACQUIRE
#define ACQUIRE __NV_ATOMIC_RELAXED
#else
#define ACQUIRE __NV_ATOMIC_ACQUIRE
#endif


__device__ __forceinline__ void tell(unsigned* ready) {
#if NO_RELEASE
    atomicAdd(ready, 1);
#else
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(ready) : "memory");
#endif
}

extern "C" __global__ void make_rows(const float* in, float* rows, unsigned* made) {
    rows[blockIdx.x * 256 + threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x] - 1.0f;
    __syncthreads();
    if (threadIdx.x == 0) tell(&made[blockIdx.x]);
}

extern "C" __global__ void normalise(const float* rows, float* normal, unsigned* made, unsigned* done, unsigned count) {
    __shared__ alignas(128) float row[256];
    __shared__ alignas(8) unsigned long long full;
    unsigned barrier = shared_address(&full), parity = 0;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned k = blockIdx.x; k < count; k += gridDim.x) {
        if (threadIdx.x == 0) {
#if !LOAD_ABOVE_WAIT
            while (__nv_atomic_load_n(&made[k], ACQUIRE, WAIT_SCOPE) == 0) {
            }
#if !NO_PROXY_FENCE
            asm volatile("fence.proxy.async;" ::: "memory");
#endif
#endif
#if NO_EXPECT
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#else
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(barrier) : "memory");
#endif
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
                         ::"r"(shared_address(row)), "l"(rows + k * 256), "r"(barrier) : "memory");
#if LOAD_ABOVE_WAIT
            while (__nv_atomic_load_n(&made[k], ACQUIRE, WAIT_SCOPE) == 0) {
            }
#endif
        }
#if TRY_ONCE
        has_passed(barrier, parity);
#elif WAITER_one_thread
        if (threadIdx.x == 0)
            while (!has_passed(barrier, parity)) {
            }
        __syncthreads();
#else
        while (!has_passed(barrier, parity)) {
        }
#endif
#if !ONE_PHASE
        parity ^= 1;
#endif
        float value = row[threadIdx.x], sum = value * value;
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        row[threadIdx.x] = value * rsqrtf(sum);
#if !NO_STORE_FENCE
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;"
                         ::"l"(normal + k * 256), "r"(shared_address(row)) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#if READ_ONLY_WAIT
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#elif !NO_BULK_WAIT
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
            tell(&done[k]);
        }
        __syncthreads();
    }
}
