// Softmax of a row by a block, with block barriers only.
extern "C" __global__ void block_softmax(const float* in, float* out, int width) {
    extern __shared__ float row[];
    __shared__ float parts[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    float top = -1e30f, sum = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) top = fmaxf(top, row[i] = in[blockIdx.x * width + i]);
    for (int m = 16; m; m >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, m));
    if (lane == 0) parts[warp] = top;
    __syncthreads();
    for (int w = 0; w < warps; w++) top = fmaxf(top, parts[w]);
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += row[i] = __expf(row[i] - top);
    for (int m = 16; m; m >>= 1) sum += __shfl_xor_sync(~0u, sum, m);
    if (lane == 0) parts[warp] = sum;
    __syncthreads();
    float all = 0;
    for (int w = 0; w < warps; w++) all += parts[w];
    for (int i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = row[i] / all;
}
