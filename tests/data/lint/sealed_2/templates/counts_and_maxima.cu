// Histogram in shared memory, and a maximum by compare and swap: loops on atomics that wait for nobody.
__device__ void raise_to(float* at, float value) {
    int* word = reinterpret_cast<int*>(at);
    int seen = *word;
    while (__int_as_float(seen) < value) {
        int before = atomicCAS(word, seen, __float_as_int(value));
        if (before == seen) break;
        seen = before;
    }
}

extern "C" __global__ void counts_and_maxima(const float* in, unsigned* counts, float* most, int n) {
    __shared__ unsigned bins[64];
    if (threadIdx.x < 64) bins[threadIdx.x] = 0;
    __syncthreads();
    float top = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = in[i];
        atomicAdd(&bins[static_cast<unsigned>(v * 64) & 63], 1u);
        top = fmaxf(top, v);
    }
    __syncthreads();
    if (threadIdx.x < 64 && bins[threadIdx.x] != 0) atomicAdd(counts + threadIdx.x, bins[threadIdx.x]);
    for (int m = 16; m; m >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, m));
    if ((threadIdx.x & 31) == 0) raise_to(most, top);
}
