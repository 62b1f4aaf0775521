// The host posts work through mapped memory and waits for an answer there: flags and data of the system's scope.
#include "forms.cuh"

extern "C" __global__ void serve(const float* mapped_in, float* mapped_out, unsigned* request, unsigned* answer,
                                 unsigned rounds) {
    for (unsigned round = 1; round <= rounds; round++) {
        if (threadIdx.x == 0) wait_at_least(request, round);
#if !NO_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
        mapped_out[threadIdx.x] = mapped_in[threadIdx.x] * 2.0f;
#if !NO_BARRIER_BEFORE_POST
        __syncthreads();
#endif
        if (threadIdx.x == 0) post(answer, round);
    }
}
