// A grid barrier whose top bit flips, as in cooperative groups of old: block 0 adds what makes the bit change.
__device__ void grid_sync(unsigned* arrived) {
#if !SKIP_ENTRY_BARRIER
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
#if FENCE_AFTER_ARRIVAL
        unsigned before = atomicAdd(arrived, add);
        __threadfence();
#else
#if !SKIP_ENTRY_FENCE
        __threadfence();
#endif
        unsigned before = atomicAdd(arrived, add);
#endif
        while ((((before ^ *reinterpret_cast<volatile unsigned*>(arrived)) & 0x80000000u) == 0)) {
        }
#if !SKIP_EXIT_FENCE
        __threadfence();
#endif
    }
#if !SKIP_EXIT_BARRIER
    __syncthreads();
#endif
}

extern "C" __global__ void cooperative_barrier(float* grid, float* next, unsigned* arrived, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int step = 0; step < steps; step++) {
        float left = i > 0 ? grid[i - 1] : 0, right = i + 1 < n ? grid[i + 1] : 0;
        if (i < n) next[i] = 0.25f * left + 0.5f * grid[i] + 0.25f * right;
        grid_sync(arrived);
        float* was = grid;
        grid = next;
        next = was;
    }
}
