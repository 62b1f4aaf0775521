// out[i] = sum of weights[k] * in[i + k - radius], zeros outside, in three steps.
//
//   naive     weights from global memory
//   constant  weights in constant memory, where a kernel's parameters are: one load serves a warp
//   tiled     and the block's inputs in shared memory, loaded once with the halo on both sides

constexpr int threads = 256, radius = 4, taps = 2 * radius + 1;

struct Weights {
    float of[taps];
};

__device__ __forceinline__ float input(const float* in, long long i, unsigned n) {
    return 0 <= i && i < n ? in[i] : 0.0f;
}

extern "C" __global__ void __launch_bounds__(threads)
convolve_naive(const float* in, float* out, unsigned n, const float* weights) {
    const long long i = static_cast<long long>(blockIdx.x) * threads + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < taps; ++k) sum += weights[k] * input(in, i + k - radius, n);
    out[i] = sum;
}

extern "C" __global__ void __launch_bounds__(threads)
convolve_constant(const float* in, float* out, unsigned n, const __grid_constant__ Weights weights) {
    const long long i = static_cast<long long>(blockIdx.x) * threads + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < taps; ++k) sum += weights.of[k] * input(in, i + k - radius, n);
    out[i] = sum;
}

extern "C" __global__ void __launch_bounds__(threads)
convolve_tiled(const float* in, float* out, unsigned n, const __grid_constant__ Weights weights) {
    __shared__ float tile[threads + 2 * radius];
    const int t = threadIdx.x;
    const long long first = static_cast<long long>(blockIdx.x) * threads;
    tile[t] = input(in, first + t - radius, n);
    if (t < 2 * radius) tile[threads + t] = input(in, first + threads + t - radius, n);
    __syncthreads();
    if (first + t >= n) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < taps; ++k) sum += weights.of[k] * tile[t + k];
    out[first + t] = sum;
}
