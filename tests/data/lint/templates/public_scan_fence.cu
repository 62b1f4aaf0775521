// A scan among blocks: each block stores its sum and draws a number; the block that is last scans the sums. The fence
// between the store and the draw is missing.
extern "C" __global__ void block_sums(const int* in, int* sums, int* offsets, unsigned* finished) {
    __shared__ int warps[8];
    __shared__ unsigned is_last;
    int mine = in[blockIdx.x * 256 + threadIdx.x];
    for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
        for (int warp = 0; warp < 8; warp++) total += warps[warp];
        sums[blockIdx.x] = total;
#if !BUG
        __threadfence();
#endif
        is_last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
#if !BUG
        __threadfence();
#endif
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        int running = 0;
#pragma unroll 1
        for (unsigned block = 0; block < gridDim.x; block++) {
            offsets[block] = running;
            running += sums[block];
        }
    }
}
