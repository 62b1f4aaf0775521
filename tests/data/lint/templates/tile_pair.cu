// Two kernels, a flag per tile: a block posts its tile, the block of the second kernel waits for it.
#include "forms.cuh"

__device__ __forceinline__ float work(float value) { return value * 1.5f + 1.0f; }

extern "C" __global__ void produce(const float* in, float* tiles, unsigned* flags) {
    unsigned at = blockIdx.x * 256 + threadIdx.x;
#if POST_BEFORE_STORES
    if (threadIdx.x == 0) post(&flags[blockIdx.x], 1);
#endif
    tiles[at] = work(in[at]);
#if !NO_BARRIER_BEFORE_POST
    __syncthreads();
#endif
#if !POST_BEFORE_STORES
    if (threadIdx.x == 0) post(&flags[blockIdx.x], 1);
#endif
}

extern "C" __global__ void consume(const float* tiles, float* out, unsigned* flags) {
    unsigned at = blockIdx.x * 256 + threadIdx.x;
#if LOAD_ABOVE_WAIT
    float early = *reinterpret_cast<const volatile float*>(&tiles[at]);
#endif
    if (threadIdx.x == 0) wait_at_least(&flags[blockIdx.x], 1);
#if !NO_BARRIER_AFTER_WAIT
    __syncthreads();
#endif
#if LOAD_ABOVE_WAIT
    out[at] = work(early);
#elif NON_COHERENT_LOAD
    out[at] = work(__ldg(&tiles[at]));
#else
    out[at] = work(tiles[at]);
#endif
}
