// A radix selection in one persistent kernel: all threads add to a histogram in memory, then a barrier of all blocks.
// There is no fence between the additions and the arrival.
extern "C" __global__ void select_digits(const unsigned* keys, unsigned* histogram, unsigned* arrived, unsigned* out, unsigned n) {
    for (unsigned pass = 0; pass < 4; pass++) {
        for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
            atomicAdd(&histogram[pass * 256 + (keys[i] >> (24 - 8 * pass) & 255)], 1);
        __syncthreads();
        if (threadIdx.x == 0) {
#if !BUG
            __threadfence();
#endif
            atomicAdd(arrived, 1);
            while (*reinterpret_cast<volatile unsigned*>(arrived) < (pass + 1) * gridDim.x) {
            }
#if !BUG
            __threadfence();
#endif
        }
        __syncthreads();
        if (blockIdx.x == 0) out[pass * 256 + threadIdx.x] = histogram[pass * 256 + threadIdx.x];
    }
}
