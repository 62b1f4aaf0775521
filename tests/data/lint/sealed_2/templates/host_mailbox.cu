// Requests of the host through mapped memory: sequence number up, work, answer, sequence number back.
#include <cuda/atomic>

struct alignas(64) Mailbox {
    unsigned request, reply;
    unsigned arguments[6];
    float answers[32];
};

#if GPU_ONLY_REQUEST
using Request = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;
#else
using Request = cuda::atomic_ref<unsigned, cuda::thread_scope_system>;
#endif
#if GPU_ONLY_REPLY
using Reply = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;
#else
using Reply = cuda::atomic_ref<unsigned, cuda::thread_scope_system>;
#endif

extern "C" __global__ void __launch_bounds__(32) host_mailbox(Mailbox* box, const float* table) {
    for (unsigned sequence = 1;; sequence++) {
        if (threadIdx.x == 0) {
            Request request(box->request);
#if RELAXED_REQUEST
            while (request.load(cuda::memory_order_relaxed) < sequence) __nanosleep(500);
#else
            while (request.load(cuda::memory_order_acquire) < sequence) __nanosleep(500);
#endif
        }
        __syncwarp();
        unsigned base = box->arguments[0], stride = box->arguments[1];
        if (base == ~0u) return;
        box->answers[threadIdx.x] = table[base + stride * threadIdx.x] * 2.0f;
        __syncwarp();
        if (threadIdx.x == 0) {
#if RELAXED_REPLY
            Reply(box->reply).store(sequence, cuda::memory_order_relaxed);
#else
            Reply(box->reply).store(sequence, cuda::memory_order_release);
#endif
        }
    }
}
