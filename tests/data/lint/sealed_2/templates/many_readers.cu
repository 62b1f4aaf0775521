// One producer block, many readers of its flag: it goes down when the last reader has said so.
extern "C" __global__ void many_readers(const int* in, int* shared_row, int* out, int* ready, int* passed) {
    if (blockIdx.x == 0) {
        shared_row[threadIdx.x] = in[threadIdx.x] * in[threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicExch(ready, 1);
#if PRODUCER_RESETS
            __nanosleep(1000);
            atomicExch(ready, 0);
#endif
        }
        return;
    }
    if (threadIdx.x == 0) {
        while (atomicAdd(ready, 0) != 1) __nanosleep(20);
        __threadfence();
#if READER_RESETS
        atomicExch(ready, 0);
#elif !PRODUCER_RESETS
        if (atomicAdd(passed, 1) == gridDim.x - 2) {
            atomicExch(passed, 0);
            atomicExch(ready, 0);
        }
#endif
    }
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = shared_row[threadIdx.x] + blockIdx.x;
}
