// Block 0 makes, block 1 uses, two buffers between them; full and empty are stored round numbers.
#include <cuda/atomic>

struct Channel {
    float* buffers;
    unsigned full[2], empty[2];
};
using Number = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

__device__ void await(unsigned* number, unsigned round) {
    if (threadIdx.x == 0) {
        Number n(*number);
        while (n.load(cuda::memory_order_relaxed) < round) __nanosleep(32);
#if !NO_ACQUIRE_FENCE
        cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
#endif
    }
    __syncthreads();
}

__device__ void announce(unsigned* number, unsigned round) {
#if !UNJOINED
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
#if FENCE_BEHIND
        Number(*number).store(round, cuda::memory_order_relaxed);
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
#elif FENCE_OF_BLOCK
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_block);
        Number(*number).store(round, cuda::memory_order_relaxed);
#else
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
        Number(*number).store(round, cuda::memory_order_relaxed);
#endif
    }
#if UNJOINED
    __syncthreads();
#endif
}

extern "C" __global__ void two_buffers(Channel* channel, const float* in, float* out, unsigned rounds) {
    for (unsigned round = 0; round < rounds; round++) {
        unsigned b = round & 1;
        float* buffer = channel->buffers + b * 128;
        if (blockIdx.x == 0) {
            if (round >= 2) await(&channel->empty[b], round - 1);
            buffer[threadIdx.x] = in[round * 128 + threadIdx.x] * 4.0f;
            announce(&channel->full[b], round + 1);
        } else {
            await(&channel->full[b], round + 1);
            out[round * 128 + threadIdx.x] = buffer[127 - threadIdx.x];
            announce(&channel->empty[b], round + 1);
        }
    }
}
