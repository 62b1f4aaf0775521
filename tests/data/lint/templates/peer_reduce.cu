// An all-reduce step of two GPUs: each writes its part into the peer's buffer, posts the peer's flag and waits for its
// own. Peer memory needs the system's scope. `peer_data` and `peer_flags` lie on the other GPU, which posts `flags`.
#include "forms.cuh"

extern "C" __global__ void exchange(const float* in, float* peer_data, unsigned* peer_flags, const float* data, float* out,
                                    unsigned* flags) {
    unsigned at = blockIdx.x * 256 + threadIdx.x;
#if POST_BEFORE_STORES
    if (threadIdx.x == 0) post(&peer_flags[blockIdx.x], 1);
#endif
    peer_data[at] = in[at];
#if !NO_BARRIER_BEFORE_POST
    __syncthreads();
#endif
#if !POST_BEFORE_STORES
    if (threadIdx.x == 0) post(&peer_flags[blockIdx.x], 1);
#endif
#if LOAD_ABOVE_WAIT
    float early = *const_cast<const volatile float*>(&data[at]);
#endif
    if (threadIdx.x == 0) wait_at_least(&flags[blockIdx.x], 1);
#if !NO_BARRIER_AFTER_WAIT
    __syncthreads();
#endif
#if LOAD_ABOVE_WAIT
    out[at] = in[at] + early;
#elif NON_COHERENT_LOAD
    out[at] = in[at] + __ldg(&data[at]);
#else
    out[at] = in[at] + data[at];
#endif
}
