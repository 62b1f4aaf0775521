// Two buffers between a producer and a consumer kernel: the producer overwrites a buffer once the consumer has posted
// that it has read it.
#include "forms.cuh"

extern "C" __global__ void fill(const float* in, float* buffers, unsigned* filled, unsigned* emptied, unsigned rounds) {
    for (unsigned round = 0; round < rounds; round++) {
        float value = in[round * 256 + threadIdx.x] * 2.0f;
        if (threadIdx.x == 0) wait_at_least(emptied, round < 2 ? 0 : round - 1);
#if !NO_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
#if POST_BEFORE_STORES
        if (threadIdx.x == 0) post(filled, 1);
#endif
        buffers[round % 2 * 256 + threadIdx.x] = value;
        __syncthreads();
#if !POST_BEFORE_STORES
        if (threadIdx.x == 0) post(filled, 1);
#endif
    }
}

extern "C" __global__ void drain(const float* buffers, float* out, unsigned* filled, unsigned* emptied, unsigned rounds) {
    for (unsigned round = 0; round < rounds; round++) {
#if LOAD_ABOVE_WAIT
        float early = *const_cast<const volatile float*>(&buffers[round % 2 * 256 + threadIdx.x]);
#endif
        if (threadIdx.x == 0) wait_at_least(filled, round + 1);
        __syncthreads();
#if LOAD_ABOVE_WAIT
        float value = early;
#else
        float value = buffers[round % 2 * 256 + threadIdx.x];
#endif
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
        if (threadIdx.x == 0) post(emptied, 1);
        out[round * 256 + threadIdx.x] = value;
    }
}
