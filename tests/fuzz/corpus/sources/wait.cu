__global__ void f(int* p) { while (atomicAdd(p, 0) < 3) {} __threadfence(); }
