// A tile of which the block's last threads lie beyond the matrix: they have no part in it, but in its barriers.
#include "forms.cuh"

extern "C" __global__ void produce_edge(const float* in, float* tiles, unsigned* flags) {
    unsigned column = threadIdx.x;
#if DIVERGENT_BARRIER
    if (column < 200) {
        tiles[blockIdx.x * 200 + column] = in[blockIdx.x * 200 + column];
        __syncthreads();
    }
#else
    if (column < 200) tiles[blockIdx.x * 200 + column] = in[blockIdx.x * 200 + column];
    __syncthreads();
#endif
    if (threadIdx.x == 0) post(&flags[blockIdx.x], 1);
}

extern "C" __global__ void consume_edge(const float* tiles, float* out, unsigned* flags) {
    unsigned column = threadIdx.x;
#if DIVERGENT_WAIT
    if (column == 0) {
        wait_at_least(&flags[blockIdx.x], 1);
        __syncthreads();
    }
#else
    if (column == 0) wait_at_least(&flags[blockIdx.x], 1);
    __syncthreads();
#endif
    if (column < 200) out[blockIdx.x * 200 + column] = tiles[blockIdx.x * 200 + column] + 1.0f;
}
