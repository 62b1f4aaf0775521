// A kernel that holds its SM slot for a known time, and may add two vectors meanwhile.

#include <cusync/clock.cuh>

// c = a + b, (count), by all blocks together; then every block stays until block_ns have passed since its start.
// stamps[block]: when its first instruction ran and its last, by %globaltimer.
extern "C" __global__ void hold(ulonglong2* stamps, unsigned long long block_ns, const float* a, const float* b,
                                float* c, unsigned long long count) {
    const unsigned long long began = cusync::time_ns();
    const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    for (unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += step)
        c[i] = a[i] + b[i];
    __syncthreads();
    if (threadIdx.x != 0) return;
    while (cusync::time_ns() - began < block_ns) {
    }
    stamps[blockIdx.x] = make_ulonglong2(began, cusync::time_ns());
}
