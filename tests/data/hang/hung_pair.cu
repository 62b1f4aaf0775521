// A pair that hangs: blocks of the consumer fill the GPU and spin, so that the producer's find no room.
// Attached on an H200 with cuda-gdb -p PID: cuda-gdb-h200.txt.
#include <cstdio>
#include <cuda_runtime.h>
__global__ void consume(volatile unsigned* ready, float* out) {
    extern __shared__ float tile[];
    if (threadIdx.x == 0) while (*ready < 64) { }
    __syncthreads();
    tile[threadIdx.x] = *ready;
    out[blockIdx.x] = tile[0];
}
__global__ void produce(unsigned* ready) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = 1;
    __threadfence();
    if (threadIdx.x == 0) atomicAdd(ready, 1);
}
int main() {
    unsigned* ready; float* out; int sms = 0;
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
    cudaMalloc(&ready, 4); cudaMemset(ready, 0, 4); cudaMalloc(&out, 4096 * 4);
    cudaStream_t first, second; cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking); cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    const int shared = 200 * 1024;
    cudaFuncSetAttribute(consume, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    cudaFuncSetAttribute(produce, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    consume<<<sms, 128, shared, first>>>(ready, out);
    produce<<<64, 128, shared, second>>>(ready);
    printf("launched\n"); fflush(stdout);
    cudaDeviceSynchronize();
    return 0;
}
