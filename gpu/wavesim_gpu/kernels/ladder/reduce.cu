// The sum of n floats in six steps, each of which mends one fault of the one before. Every block leaves one sum.
//
//   v0  adds neighbours: threads that add sit in every warp            divergent branches, a division per step
//   v1  the same sums by the first threads, far apart                  bank conflicts: lanes 2, 4, 8, ... words apart
//   v2  halves: thread t adds what is half the rest away               no conflicts; half the threads never add
//   v3  each thread adds its first two on loading                      six barriers for the last warp alone
//   v4  the last warp goes on without barriers of the block            two loads in flight per thread
//   v5  blocks that stay, four loads of 16 bytes in flight, shuffles   waits for memory alone
//
// Loops over a block's tree are not unrolled before v4, so that what each step costs is what is written there.

constexpr unsigned warp_size = 32, threads = 256, all_lanes = 0xffffffffu;
constexpr unsigned resident = 8;  // blocks of v5 on an SM: 2048 threads
constexpr unsigned in_flight = 4;  // loads of a thread of v5

__device__ __forceinline__ float element(const float* in, unsigned i, unsigned n) { return i < n ? in[i] : 0.0f; }

// One element per thread; a thread adds where its number is a multiple of twice the distance.
extern "C" __global__ void __launch_bounds__(threads) reduce_v0(const float* in, float* sums, unsigned n) {
    __shared__ float s[threads];
    const unsigned t = threadIdx.x;
    s[t] = element(in, blockIdx.x * blockDim.x + t, n);
    __syncthreads();
#pragma unroll 1
    for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
        if (t % (2 * distance) == 0) s[t] += s[t + distance];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

// The same additions by the first threads.
extern "C" __global__ void __launch_bounds__(threads) reduce_v1(const float* in, float* sums, unsigned n) {
    __shared__ float s[threads];
    const unsigned t = threadIdx.x;
    s[t] = element(in, blockIdx.x * blockDim.x + t, n);
    __syncthreads();
#pragma unroll 1
    for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
        const unsigned i = 2 * distance * t;
        if (i < blockDim.x) s[i] += s[i + distance];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

// Of `count` sums in shared memory the first `last` are left. All threads of the block come here.
__device__ __forceinline__ void add_halves(float* s, unsigned count, unsigned last) {
    const unsigned t = threadIdx.x;
#pragma unroll 1
    for (unsigned distance = count / 2; distance >= last; distance /= 2) {
        if (t < distance) s[t] += s[t + distance];
        __syncthreads();
    }
}

// Neighbouring threads add neighbouring words.
extern "C" __global__ void __launch_bounds__(threads) reduce_v2(const float* in, float* sums, unsigned n) {
    __shared__ float s[threads];
    const unsigned t = threadIdx.x;
    s[t] = element(in, blockIdx.x * blockDim.x + t, n);
    __syncthreads();
    add_halves(s, blockDim.x, 1);
    if (t == 0) sums[blockIdx.x] = s[0];
}

// Two elements per thread, half as many blocks.
extern "C" __global__ void __launch_bounds__(threads) reduce_v3(const float* in, float* sums, unsigned n) {
    __shared__ float s[threads];
    const unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    s[t] = element(in, i, n) + element(in, i + blockDim.x, n);
    __syncthreads();
    add_halves(s, blockDim.x, 1);
    if (t == 0) sums[blockIdx.x] = s[0];
}

// Of the last 64 sums one warp makes one. Since Volta lanes go on each by itself, so that __syncwarp() has to stand
// between one lane's store and another one's load, and between a load and a store to the same word.
__device__ __forceinline__ void add_last_warp(float* s) {
    float sum = s[threadIdx.x];
#pragma unroll
    for (unsigned distance = warp_size; distance > 0; distance /= 2) {
        sum += s[threadIdx.x + distance];
        __syncwarp();
        s[threadIdx.x] = sum;
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(threads) reduce_v4(const float* in, float* sums, unsigned n) {
    __shared__ float s[threads];
    const unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    s[t] = element(in, i, n) + element(in, i + blockDim.x, n);
    __syncthreads();
    add_halves(s, blockDim.x, 2 * warp_size);
    if (t < warp_size) add_last_warp(s);
    if (t == 0) sums[blockIdx.x] = s[0];
}

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
    for (unsigned distance = warp_size / 2; distance > 0; distance /= 2)
        value += __shfl_down_sync(all_lanes, value, distance);
    return value;
}

__device__ __forceinline__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }

// As many blocks as are resident, each of which goes on through the array. `in` is aligned to 16 bytes.
extern "C" __global__ void __launch_bounds__(threads, resident) reduce_v5(const float* in, float* sums, unsigned n) {
    __shared__ float s[threads / warp_size];
    const float4* vectors = reinterpret_cast<const float4*>(in);
    const unsigned t = threadIdx.x, count = n / 4, step = gridDim.x * blockDim.x;
    unsigned long long i = blockIdx.x * blockDim.x + t;
    float sum = 0.0f;
    for (; i + (in_flight - 1) * step < count; i += in_flight * step) {
        float4 v[in_flight];
#pragma unroll
        for (unsigned j = 0; j < in_flight; ++j) v[j] = __ldcg(vectors + i + j * step);  // not kept in the L1
#pragma unroll
        for (unsigned j = 0; j < in_flight; ++j) sum += sum_of(v[j]);
    }
    for (; i < count; i += step) sum += sum_of(__ldcg(vectors + i));
    if (blockIdx.x == 0 && t < n % 4) sum += in[4 * count + t];
    sum = sum_of_warp(sum);
    if (t % warp_size == 0) s[t / warp_size] = sum;
    __syncthreads();
    if (t >= warp_size) return;
    sum = sum_of_warp(t < threads / warp_size ? s[t] : 0.0f);
    if (t == 0) sums[blockIdx.x] = sum;
}
