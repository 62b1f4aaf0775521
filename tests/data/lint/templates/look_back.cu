// A scan by decoupled look-back: a block posts its sum, walks back over its predecessors' until one has its prefix, and
// posts its own prefix. Status and value are two words, so the value rides on the status.
#include "forms.cuh"

extern "C" __global__ void scan(const int* in, int* out, unsigned* status, int* sums, int* prefixes) {
    __shared__ int before;
    __shared__ int total;
    unsigned block = blockIdx.x;
    int value = in[block * 256 + threadIdx.x];
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    int place = atomicAdd_block(&total, value);
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = total;
        int exclusive = 0;
        if (block > 0) {
#if POST_BEFORE_STORES
            post(&status[block], 1);
            sums[block] = sum;
#else
            sums[block] = sum;
            post(&status[block], 1);
#endif
            for (unsigned back = block; back > 0;) {
                back--;
                unsigned seen;
#if FENCE_BEFORE_POLL
                WAIT_FENCE;
#endif
#if LOAD_ABOVE_WAIT
                int early = *const_cast<volatile int*>(&sums[back]);
#endif
#if LOOK_ONCE
                seen = look(&status[back]);
#else
                do {
                    seen = look(&status[back]);
                } while (seen == 0);
#endif
                acquire_after_loop();
#if LOAD_ABOVE_WAIT
                exclusive += seen == 2 ? prefixes[back] : early;
#else
                exclusive += seen == 2 ? prefixes[back] : sums[back];
#endif
                if (seen == 2) break;
            }
        }
        prefixes[block] = exclusive + sum;
        post(&status[block], block > 0 ? 1 : 2);
        before = exclusive;
    }
    __syncthreads();
    out[block * 256 + threadIdx.x] = before + place;
}
