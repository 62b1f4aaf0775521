// A block's reduction over rows of unequal length: every thread must reach each barrier the same number of times.
extern "C" __global__ void ragged_rows(const float* in, const int* lengths, float* out) {
    __shared__ float parts[128];
    int row = blockIdx.x, length = lengths[row];
    float sum = 0;
#if BARRIER_PER_ELEMENT
    for (int i = threadIdx.x; i < length; i += 128) {
        sum += in[row * 4096 + i];
        parts[threadIdx.x] = sum;
        __syncthreads();
        sum += 0.001f * parts[threadIdx.x ^ 1];
        __syncthreads();
    }
#else
    for (int base = 0; base < length; base += 128) {
        int i = base + threadIdx.x;
        sum += i < length ? in[row * 4096 + i] : 0.0f;
        parts[threadIdx.x] = sum;
        __syncthreads();
        sum += 0.001f * parts[threadIdx.x ^ 1];
        __syncthreads();
    }
#endif
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
#if BARRIER_BEHIND_TEST
        if (threadIdx.x < half) {
            parts[threadIdx.x] += parts[threadIdx.x + half];
            __syncthreads();
        }
#else
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
#endif
    }
    if (threadIdx.x == 0) out[row] = parts[0];
}
