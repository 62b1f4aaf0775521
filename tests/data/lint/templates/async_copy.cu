// A pipeline of cp.async copies behind a semaphore: the tile's k-blocks come in two or more buffers.
#include "forms.cuh"

#if DEPTH_3
constexpr unsigned depth = 3;
#elif DEPTH_4
constexpr unsigned depth = 4;
#else
constexpr unsigned depth = 2;
#endif

__device__ __forceinline__ void copy(float4* to, const float4* from) {
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
}

extern "C" __global__ void produce_blocks(const float4* in, float4* blocks, unsigned* flags, unsigned count) {
#pragma unroll 1
    for (unsigned k = 0; k < count; k++) {
        unsigned at = (blockIdx.x * count + k) * 128 + threadIdx.x;
        blocks[at] = in[at];
    }
    __syncthreads();
    if (threadIdx.x == 0) post(&flags[blockIdx.x], 1);
}

extern "C" __global__ void consume_blocks(const float4* blocks, float* out, unsigned* flags, unsigned count) {
    __shared__ float4 buffers[depth][128];
    const float4* mine = blocks + blockIdx.x * count * 128;
#if LOAD_ABOVE_WAIT
    copy(&buffers[0][threadIdx.x], &mine[threadIdx.x]);
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    if (threadIdx.x == 0) wait_at_least(&flags[blockIdx.x], 1);
#if !NO_BARRIER_AFTER_WAIT
    __syncthreads();
#endif
#if LOAD_ABOVE_WAIT
    for (unsigned k = 1; k < depth - 1; k++) {
#else
    for (unsigned k = 0; k < depth - 1; k++) {
#endif
        copy(&buffers[k][threadIdx.x], &mine[k * 128 + threadIdx.x]);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    float sum = 0.0f;
    for (unsigned k = 0; k < count; k++) {
#if NO_COPY_WAIT
#elif PENDING_GROUP
        asm volatile("cp.async.wait_group %0;" ::"n"(depth - 1) : "memory");
#elif COPY_WAIT_all
        asm volatile("cp.async.wait_all;" ::: "memory");
#else
        asm volatile("cp.async.wait_group %0;" ::"n"(depth - 2) : "memory");
#endif
#if !NO_COPY_BARRIER
        __syncthreads();
#endif
        if (k + depth - 1 < count)
            copy(&buffers[(k + depth - 1) % depth][threadIdx.x], &mine[(k + depth - 1) * 128 + threadIdx.x]);
        asm volatile("cp.async.commit_group;" ::: "memory");
        float4 value = buffers[k % depth][127 - threadIdx.x];
        sum += value.x + value.y + value.z + value.w;
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
