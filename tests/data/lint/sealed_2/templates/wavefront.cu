// Dynamic programming over a band of tiles: a tile waits for those above and to the left, by progress per row.
__device__ void wait_row(const int* progress, int column) {
    const volatile int* seen = progress;
#if FENCE_FIRST
    __threadfence();
    while (*seen < column) {
    }
#else
    while (*seen < column) {
    }
#if !FENCELESS
    __threadfence();
#endif
#endif
}

extern "C" __global__ void wavefront(const int* scores, int* table, int* progress, int columns) {
    int row = blockIdx.x, width = columns * 64;
    for (int tile = 0; tile < columns; tile++) {
        int at = row * width + tile * 64 + threadIdx.x;
#if ABOVE_TOO_SOON
        int up = row > 0 ? *reinterpret_cast<volatile int*>(table + at - width) : 0;
#endif
        if (row > 0) {
            if (threadIdx.x == 0) wait_row(progress + row - 1, tile + 1);
#if !OTHERS_GO_ON
            __syncthreads();
#endif
        }
#if !ABOVE_TOO_SOON
        int up = row > 0 ? table[at - width] : 0;
#endif
        int left = tile > 0 ? table[at - 64] : 0;
#if MARKED_FIRST
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicExch(progress + row, tile + 1);
        }
        table[at] = max(up, left) + scores[at];
#else
        table[at] = max(up, left) + scores[at];
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicExch(progress + row, tile + 1);
        }
#endif
    }
}
