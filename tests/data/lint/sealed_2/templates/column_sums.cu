// Sums by atomics into one row; the block that ends last scales it. The accumulators are read through L2.
extern "C" __global__ void column_sums(const float* in, float* sums, float* out, unsigned* ended, int rows) {
    __shared__ bool is_last;
    float sum = 0;
    for (int r = blockIdx.x; r < rows; r += gridDim.x) sum += in[r * 128 + threadIdx.x];
    atomicAdd(sums + threadIdx.x, sum);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(ended, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (is_last) out[threadIdx.x] = __ldcg(sums + threadIdx.x) / rows;
}
