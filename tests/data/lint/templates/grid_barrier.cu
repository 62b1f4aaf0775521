// A barrier of all blocks between two phases of one kernel, in the way of cooperative groups: the last arriver of a
// generation is seen by all.
#include "forms.cuh"

extern "C" __global__ void two_phases(float* data, float* out, unsigned* arrived) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned total = gridDim.x * blockDim.x;
#if POST_BEFORE_STORES
    if (threadIdx.x == 0) post(arrived, 1);
    data[at] = data[at] * 2.0f + 1.0f;
    __syncthreads();
#else
    data[at] = data[at] * 2.0f + 1.0f;
#if !NO_BARRIER_BEFORE_POST
    __syncthreads();
#endif
    if (threadIdx.x == 0) post(arrived, 1);
#endif
    if (threadIdx.x == 0) wait_at_least(arrived, gridDim.x);
#if !NO_BARRIER_AFTER_WAIT
    __syncthreads();
#endif
    out[at] = data[total - 1 - at];
}
